"""Makes tests/data/tokenizer_steps.json.xz: small tokenizers that between them use every step the engine knows,
in many orders, and what Hugging Face's tokenizers (PyPI) gives for seeded strings.

usage: make_steps.py      writes the file; prints how many cases"""
import json, lzma, pathlib, random

import tokenizers
from random_strings import strings

SEED = 20261201
FALCON = [{"type": "Punctuation", "behavior": "Contiguous"}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
          {"type": "Digits", "individual_digits": False}, {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": False}]
REGEXES = [r"\p{N}{1,3}", r"\s+(?!\S)|\s+", r"(?i:ab|'s)+", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[a-z&&[^aeiou]]+", r"[[:alpha:]]+|[[:punct:]]", r"\w+", r"\W", r"\b\w",
           r"(?<=a)b?", r"[\s\S]{2,3}?", r"a(?i)b|c", r"\d{2}+x?", r"(?>a+)b|[^\S\n]+", r"[\p{Han}\p{Hiragana}]+", r"\R|\h+", r"^.|.$", r"x*", r"[]a-]+", r"\P{L}+", r"[^\P{L}a-f]+",
           r"(?m:a.)|\n+", r"\A\S+|\S+\z", r"(a|b)+?c?", r"[\p{Lu}\p{Lt}][\p{Ll}\p{M}]*", r"\.{3}|\u00e9|\x41"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
TEXTS = ["", "total=1234567!!", " ", "  a  b ", "ab AB 'S caa aab", "<s>x</s> y<sep>z <pad>", "\u2581a\u2581 b", "e\u0301\u00e9 \ufb01 \u00c5ngstr\u00f6m \u0130I", "a\nb\r\n\nc", "\u4f60\u597d world 42"]


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix, regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(key, steps):
    return {"type": "Sequence", key: steps}


def byte_letters():
    own = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table, extra = {}, 0
    for b in range(256):
        table[b] = chr(b) if b in own else chr(0x100 + extra)
        extra += b not in own
    return table


def train(r, letters, texts):
    """A vocabulary of single letters and merges of pairs that occur in the texts."""
    vocab = {c: i for i, c in enumerate(dict.fromkeys(letters))}
    words, merges = [list(t) for t in texts], []
    for _ in range(120):
        counts = {}
        for w in words:
            for a, b in zip(w, w[1:]):
                if a in vocab and b in vocab:
                    counts[a, b] = counts.get((a, b), 0) + 1
        pairs = sorted(p for p in counts if p[0] + p[1] not in vocab or r.random() < 0.1)
        if not pairs:
            break
        best = max(pairs, key=lambda p: counts[p])
        merges.append(list(best))
        vocab.setdefault(best[0] + best[1], len(vocab))
        for w in words:
            i = 0
            while i + 1 < len(w):
                if (w[i], w[i + 1]) == best:
                    w[i:i + 2] = [best[0] + best[1]]
                i += 1
    return vocab, merges


def configurations(r, texts):
    table = byte_letters()
    mapped = ["".join(table[b] for b in t.encode()) for t in texts]
    bytes_vocab, bytes_merges = train(r, table.values(), mapped)
    letters = [f"<0x{b:02X}>" for b in range(256)] + sorted(set("".join(texts).replace(" ", "\u2581")) - set("xyz\u4f60"))
    letter_vocab, letter_merges = train(r, letters, [t.replace(" ", "\u2581") for t in texts])
    letter_vocab["<unk>"] = len(letter_vocab)

    def bpe(**changes):
        return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                "ignore_merges": False, "vocab": bytes_vocab, "merges": bytes_merges} | changes

    def letter_bpe(**changes):
        return bpe(vocab=letter_vocab, merges=letter_merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True) | changes

    def added(content, i, **flags):
        return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False} | flags

    def whole(name, model, pre=None, norm=None, dec={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, post=None, tokens=()):
        return name, {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens), "normalizer": norm, "pre_tokenizer": pre, "post_processor": post, "decoder": dec, "model": model}

    n = len(bytes_vocab)
    yield whole("four steps, ByteLevel not last", bpe(), sequence("pretokenizers", FALCON))
    for i, regex in enumerate(REGEXES):
        yield whole(f"regex {regex}", bpe(), sequence("pretokenizers", [split(regex, BEHAVIORS[i % 5] if i % 5 != 1 else "Isolated", False), byte_level(False, False)]))
        yield whole(f"regex {regex}, inverted", bpe(), sequence("pretokenizers", [split(regex, BEHAVIORS[(i + 2) % 5], True), byte_level(False, i % 2 == 0)]))
    for behavior in BEHAVIORS:
        yield whole(f"literal {behavior}", bpe(), sequence("pretokenizers", [split("a", behavior, False, "String"), byte_level(False, False)]))
        yield whole(f"Punctuation {behavior}", bpe(), sequence("pretokenizers", [{"type": "Punctuation", "behavior": behavior}, byte_level(True, False)]))
    for step in [{"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
                 {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "b"}, {"type": "FixedLength", "length": 3}]:
        yield whole(step["type"], bpe(), sequence("pretokenizers", [step, byte_level(step["type"] == "Digits", False)]))
        yield whole(step["type"] + " after ByteLevel", bpe(), sequence("pretokenizers", [byte_level(False, True), step]))
    yield whole("ByteLevel twice", bpe(ignore_merges=True), sequence("pretokenizers", [byte_level(True, True), byte_level(True, False)]))
    yield whole("ignore_merges", bpe(ignore_merges=True), byte_level(False, True))
    for norm in [{"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": False},
                 {"type": "Strip", "strip_left": False, "strip_right": True}, sequence("normalizers", [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]),
                 {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"}, {"type": "Replace", "pattern": {"String": "ab"}, "content": "ba"}, {"type": "Prepend", "prepend": "ab"}]:
        yield whole(f"normalizer {json.dumps(norm)[:60]}", bpe(), byte_level(False, True), norm)
    yield whole("ByteLevel normalizer", bpe(), None, {"type": "ByteLevel"})
    spm = sequence("normalizers", [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}])
    spm_decoder = sequence("decoders", [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}])
    m = len(letter_vocab)
    specials = [added("<s>", m, special=True), added("</s>", m + 1, special=True), added("<sep>", m + 2), added("<pad>", m + 3, special=True, lstrip=True, rstrip=True)]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [m], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [m + 1, m + 1], "tokens": ["</s>", "</s>"]}}}
    for fuse in (True, False):
        for fallback in (True, False):
            yield whole(f"letters, fuse {fuse}, bytes {fallback}", letter_bpe(fuse_unk=fuse, byte_fallback=fallback), None, spm, spm_decoder, template, specials)
    yield whole("letters without unk", letter_bpe(unk_token=None, byte_fallback=False), None, spm, spm_decoder, template, specials)
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}
            yield whole(f"Metaspace {scheme} {cut}", letter_bpe(), meta, None, {k: v for k, v in meta.items()}, template, specials)
    yield whole("no decoder", letter_bpe(), None, spm, None, None, specials)
    yield whole("Strip decoder", letter_bpe(), None, spm, sequence("decoders", [{"type": "Fuse"}, {"type": "Strip", "content": "\u2581", "start": 2, "stop": 1}]), None, specials)
    yield whole("Strip each", letter_bpe(), None, spm, {"type": "Strip", "content": "\u2581", "start": 1, "stop": 1}, None, specials)
    yield whole("Replace after Fuse", letter_bpe(), None, spm, sequence("decoders", [{"type": "Fuse"}, {"type": "Replace", "pattern": {"Regex": "\u2581+"}, "content": " "}]), None, specials)
    kinds = [("ab", {"single_word": True}), ("b a", {"lstrip": True}), ("!!", {"rstrip": True}), ("12", {"normalized": True, "single_word": True}),
             ("<s>", {"special": True, "normalized": True}), ("<s>x", {"special": True}), (" ", {"lstrip": True, "rstrip": True}), ("\u00e9", {})]
    fresh = [content for content, _ in kinds if content not in bytes_vocab]  # the library numbers these one after another
    number = {content: bytes_vocab.get(content, n + (fresh.index(content) if content in fresh else 0)) for content, _ in kinds}
    flags = [added(content, number[content], **kind) for content, kind in kinds]
    yield whole("flags of added tokens", bpe(), byte_level(False, True), None, tokens=flags)
    yield whole("flags of added tokens, normalized", bpe(), byte_level(False, True), {"type": "Lowercase"}, tokens=flags, post={"type": "RobertaProcessing", "sep": ["<s>", number["<s>"]], "cls": ["<s>x", number["<s>x"]], "trim_offsets": True, "add_prefix_space": True})
    prefixed = {("" if i < 5 else "##") + c: i for i, c in enumerate(["a", "b", "c", " ", "<unk>", "a", "b", "c", " ", "ab", "c"])} | {"c</w>": 11, "##c</w>": 12, "##b</w>": 13, "ab": 14, "##bc</w>": 15}
    yield whole("prefix and suffix of words", bpe(vocab=prefixed, merges=[["a", "##b"], ["##b", "##c</w>"]], continuing_subword_prefix="##", end_of_word_suffix="</w>", unk_token="<unk>"), {"type": "WhitespaceSplit"}, None, None)


def decoded(t, ids, skip):
    """None where the reference itself panics: its Strip counts below zero."""
    try:
        return t.decode(ids, skip_special_tokens=skip)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


def main():
    r = random.Random(SEED)
    texts = TEXTS + ["abcabc abc ab a b c cab", "bcbc"] + strings(72, SEED)
    out, n = [], 0
    for name, config in configurations(r, texts):
        t = tokenizers.Tokenizer.from_str(json.dumps(config))
        cases = []
        for text in texts:
            ids = t.encode(text, add_special_tokens=False).ids
            cases.append([ids, t.encode(text, add_special_tokens=True).ids, decoded(t, ids, False), decoded(t, ids, True)])
        out.append({"name": name, "tokenizer": config, "cases": cases})
        n += len(cases)
    data = {"made_by": f"PyPI tokenizers {tokenizers.__version__}, seed {SEED}", "texts": texts, "configurations": out}
    target = pathlib.Path(__file__).parent.parent / "data" / "tokenizer_steps.json.xz"
    target.write_bytes(lzma.compress(json.dumps(data, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(len(out), "configurations,", n, "cases,", target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
