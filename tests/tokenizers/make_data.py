"""Makes tests/data/tokenizers.tar.xz: the seven tokenizers, their goldens, and hashes of what
Hugging Face's tokenizers (PyPI, version in the archive) gives for seeded random strings.

usage: make_data.py FOLDER      FOLDER holds NAME.tokenizer.json, NAME.tokenizer_config.json, NAME.golden.json
The archive keeps each vocabulary as a list by id and leaves out merges that follow from it; unpack.py puts
back what was left out and checks the result's hash, so that tests read the files as they were published."""
import hashlib, io, json, lzma, pathlib, sys, tarfile

import tokenizers
from random_strings import strings
from unpack import canonical, expand

NAMES = ["gpt2", "llama2", "deepseek_v3", "llama3_1", "qwen3", "gptoss", "gemma3"]
SEED, N_STRINGS = 20261130, 2868  # times seven tokenizers: 20,076 cases


def slim(full):
    model = full["model"]
    by_id = sorted(model["vocab"].items(), key=lambda item: item[1])
    ids = [i for _, i in by_id]
    out = dict(full)
    out["model"] = dict(model, vocab=[t for t, _ in by_id], vocab_ids=None if ids == list(range(len(ids))) else ids)
    pairs = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    out["model"]["merge_style"] = "pairs" if isinstance(model["merges"][0], list) else "lines"
    out["model"]["merges"] = None
    if canonical(expand(out)) != canonical(full):
        out["model"]["merges"] = ["\x00".join(p) for p in pairs]
        assert canonical(expand(out)) == canonical(full)
    out["sha256"] = hashlib.sha256(canonical(full)).hexdigest()
    return out


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def cases(path, texts):
    t = tokenizers.Tokenizer.from_file(str(path))
    ids = [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]
    decoded = t.decode_batch(ids, skip_special_tokens=True)
    return "".join(f"{fnv(b''.join(i.to_bytes(4, 'little') for i in x))} {fnv(d.encode())}\n" for x, d in zip(ids, decoded))


def main():
    folder = pathlib.Path(sys.argv[1])
    texts = strings(N_STRINGS, SEED)
    files = {"README": f"seed {SEED}, {N_STRINGS} strings, PyPI tokenizers {tokenizers.__version__}; made by tests/tokenizers/make_data.py\n",
             "strings.json": json.dumps(texts)}
    for name in NAMES:
        golden = json.loads((folder / f"{name}.golden.json").read_text())
        golden.pop("chat")  # the templates' tests have their own
        config = json.loads((folder / f"{name}.tokenizer_config.json").read_text())
        config.pop("chat_template", None)
        files[f"{name}/slim.json"] = json.dumps(slim(json.loads((folder / f"{name}.tokenizer.json").read_text())), ensure_ascii=False)
        files[f"{name}/golden.json"] = json.dumps(golden, ensure_ascii=False)
        files[f"{name}/tokenizer_config.json"] = json.dumps(config, ensure_ascii=False)
        files[f"{name}/hashes.txt"] = cases(folder / f"{name}.tokenizer.json", texts)
        print(name, flush=True)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, text in files.items():
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    target = pathlib.Path(__file__).parent.parent / "data" / "tokenizers.tar.xz"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main()
