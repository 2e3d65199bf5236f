"""Makes tests/data/sentencepiece.json.xz: small SentencePiece BPE models, trained and run by PyPI's sentencepiece,
and a tokenizer.model of the llama2 vocabulary, whose expected ids are the golden ones of its tokenizer.json.

usage: make_sentencepiece.py FOLDER      FOLDER holds llama2.tokenizer.json (tokenizers.tar.xz unpacked)"""
import base64, io, json, lzma, pathlib, sys

import sentencepiece
from random_strings import code, prose, strings
from sentencepiece import sentencepiece_model_pb2 as pb
import random

SEED = 20261202
OPTIONS = [dict(), dict(byte_fallback=True), dict(add_dummy_prefix=False), dict(remove_extra_whitespaces=True), dict(byte_fallback=True, remove_extra_whitespaces=True, add_dummy_prefix=False),
           dict(character_coverage=0.985, byte_fallback=True), dict(character_coverage=0.985), dict(split_by_whitespace=False, byte_fallback=True), dict(user_defined_symbols=["<sep>", "abc"], add_dummy_prefix=False)]


def trained(options, corpus):
    model = io.BytesIO()
    settings = dict(vocab_size=420, model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2, num_threads=1, hard_vocab_limit=False) | options
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=model, **settings)
    return model.getvalue()


def llama2(path):
    """The vocabulary as SentencePiece keeps it: the merges are in order of falling score."""
    tokenizer = json.loads(path.read_text())
    m = pb.ModelProto()
    rank = {merge.replace(" ", ""): i for i, merge in reversed(list(enumerate(tokenizer["model"]["merges"])))}
    for token, i in sorted(tokenizer["model"]["vocab"].items(), key=lambda x: x[1]):
        piece = m.pieces.add()
        piece.piece = token
        byte = token.startswith("<0x") and len(token) == 6
        piece.type = 2 if token == "<unk>" else 3 if token in ("<s>", "</s>") else 6 if byte else 1
        piece.score = 0.0 if piece.type != 1 else -float(rank.get(token, 1000000))
    m.trainer_spec.model_type, m.trainer_spec.byte_fallback = 2, True
    m.normalizer_spec.name, m.normalizer_spec.add_dummy_prefix = "identity", True
    m.normalizer_spec.remove_extra_whitespaces = False
    return m.SerializeToString()


def main():
    r = random.Random(SEED)
    corpus = [g(r).replace("\n", " ") for g in (prose, code) for _ in range(300)] + ["caf\u00e9 na\u00efve \u4f60\u597d \u4e16\u754c"] * 9
    texts = ["", " ", "  a  b ", "Hello world", "\u2581a b", "x<sep>abcabc d"] + strings(180, SEED)
    texts = [t for t in texts if "<s>" not in t and "</s>" not in t and "<unk>" not in t and "\0" not in t]
    models = []
    for options in OPTIONS:
        raw = trained(options, corpus)
        sp = sentencepiece.SentencePieceProcessor(model_proto=raw)
        models.append({"options": options, "model": base64.b64encode(raw).decode(), "ids": [sp.encode(t) for t in texts]})
    raw = llama2(pathlib.Path(sys.argv[1]) / "llama2.tokenizer.json")
    sp = sentencepiece.SentencePieceProcessor(model_proto=raw)
    data = {"made_by": f"PyPI sentencepiece {sentencepiece.__version__}, seed {SEED}", "texts": texts, "models": models,
            "llama2": base64.b64encode(raw).decode(), "llama2_ids": [sp.encode(t) for t in texts]}
    target = pathlib.Path(__file__).parent.parent / "data" / "sentencepiece.json.xz"
    target.write_bytes(lzma.compress(json.dumps(data, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(len(models), "models,", len(texts), "texts,", target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
