"""Unpacks tests/data/tokenizer*.xz and makes the tokenizers in them whole again.  Standard library only.

usage: unpack.py FOLDER ARCHIVE...      writes FOLDER/NAME/tokenizer.json and the rest; FOLDER/stamp last"""
import hashlib, json, lzma, pathlib, sys, tarfile


def canonical(tokenizer):
    return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode()


def derived_merges(vocab):
    """Every split of every token into two tokens: how a vocabulary without merges is converted."""
    out = []
    for token in sorted(vocab, key=vocab.get):
        splits = [(token[:k], token[k:]) for k in range(1, len(token)) if token[:k] in vocab and token[k:] in vocab]
        out += sorted(splits, key=lambda s: (vocab[s[0]], vocab[s[1]]))
    return out


def expand(slim):
    out = {key: value for key, value in slim.items() if key != "sha256"}
    model = dict(slim["model"])
    style, ids = model.pop("merge_style"), model.pop("vocab_ids")
    vocab = dict(zip(model["vocab"], ids or range(len(model["vocab"]))))
    merges = derived_merges(vocab) if model["merges"] is None else [m.split("\x00") for m in model["merges"]]
    model["vocab"] = vocab
    model["merges"] = [list(m) for m in merges] if style == "pairs" else [" ".join(m) for m in merges]
    out["model"] = model
    return out


def unpack_tar(archive, folder):
    with tarfile.open(fileobj=lzma.open(archive)) as tar:
        for member in tar.getmembers():
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            data = tar.extractfile(member).read()
            if target.name == "slim.json":
                slim = json.loads(data)
                data = canonical(expand(slim))
                if hashlib.sha256(data).hexdigest() != slim["sha256"]:
                    sys.exit(f"{archive}: {member.name}: not what was packed")
                target = target.with_name("tokenizer.json")
            target.write_bytes(data)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for archive in map(pathlib.Path, sys.argv[2:]):
        if archive.name.endswith(".tar.xz"):
            unpack_tar(archive, folder)
        else:
            (folder / archive.stem).write_bytes(lzma.open(archive).read())
    (folder / "stamp").write_text("")


if __name__ == "__main__":
    main()
