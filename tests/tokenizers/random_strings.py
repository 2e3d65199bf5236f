"""Random strings that tokenizers stumble over: 12 generators, one seed, always the same strings.

Each generator takes a random.Random and returns one string; strings() cycles through them."""
import random

CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'VE", "'LL", "'\u017f", "\u2019s"]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\r", "\u00a0", "\u3000", "\u2003", "\u2028", "\u0085", "\u200b", "\u180e", "\x1c", "\x0b"]
SCRIPTS = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x621, 0x64A), (0x904, 0x939), (0xE01, 0xE2E),
           (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x10A0, 0x10FF), (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF)]
MARKS = [0x300, 0x301, 0x303, 0x308, 0x316, 0x327, 0x328, 0x334, 0x345, 0x591, 0x5B0, 0x64B, 0x670, 0x93C, 0x94D, 0xE31, 0x20D0, 0x3099, 0x1161, 0x11A8]
DIGITS = list(range(0x30, 0x3A)) * 4 + [0x661, 0x967, 0xB2, 0xBD, 0x2167, 0x2460, 0x3007, 0x1D7D8, 0xFF11]
EMOJI = ["\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\u2764\ufe0f", "\U0001F1EB\U0001F1F7", "\U0001F44D\U0001F3FD", "\u263a", "\U0001F9D1\u200d\U0001F680"]
WORDS = """the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were we
when your can said there use an each which she do how their if will up other about out many then them these so some her would make like him into
time has look two more write go see number no way could people my than first water been call who oil its now find long down day did get come made may
part function return import def class self None True False const std vector int void char include printf print HelloWorld getElementById snake_case""".split()
MARKERS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<|eot_id|>",
           "<|begin_of_text|>", "<|start_header_id|>", "<think>", "</think>", "<tool_call>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>",
           "<\uff5ctool\u2581sep\uff5c>", "<|start|>", "<|channel|>", "<|return|>", "<|im_", "end|>", "<0x0A>", "<0xE2>", "<table>", "</h1>", "\u2581", "\u2581\u2581", "\u0120", "\u010a"]


def pick(r, ranges):
    low, high = r.choice(ranges)
    return chr(r.randint(low, high))


def prose(r):
    out = []
    for _ in range(r.randint(1, 25)):
        word = r.choice(WORDS)
        word = r.choice([word, word, word, word.upper(), word.capitalize()])
        out.append(word + r.choice(["", "", "", r.choice(CONTRACTIONS), ",", ".", "!", "?", ";", ":", "...", "-"]))
    return " ".join(out)


def code(r):
    parts = WORDS[-20:] + list("(){}[];:,.=+-*/%<>!&|^~#@\"'\\_") + ["==", "!=", "->", "//", "/*", "*/", "\n", "\n\n", "\r\n", "    ", "\t", "  ", "0x1F", "42", "3.14"]
    return "".join(r.choice(parts) + r.choice(["", "", " "]) for _ in range(r.randint(1, 40)))


def any_code_point(r):
    out = []
    for _ in range(r.randint(1, 20)):
        c = r.choice([r.randint(0, 0xFF), r.randint(0, 0x2FFF), r.randint(0, 0xFFFF), r.randint(0, 0x10FFFF)])
        out.append(chr(c) if not 0xD800 <= c < 0xE000 else "\ufffd")
    return "".join(out)


def mixed_scripts(r):
    return "".join(pick(r, SCRIPTS) if r.random() < 0.85 else r.choice(SPACES + [",", ".", "\u3002", "\uff0c"]) for _ in range(r.randint(1, 30)))


def one_script(r):
    script = [r.choice(SCRIPTS)]
    return "".join(pick(r, script) if r.random() < 0.88 else " " for _ in range(r.randint(1, 40)))


def marks(r):
    return "".join(r.choice([pick(r, SCRIPTS[:6]), chr(r.choice(MARKS)), chr(r.choice(MARKS)), r.choice([" ", "\u1100", "e", "a"])]) for _ in range(r.randint(1, 24)))


def white_space(r):
    return "".join(r.choice(SPACES) if r.random() < 0.75 else r.choice(["a", "B", "1", ".", "\u4e2d", "'s", "/"]) for _ in range(r.randint(1, 24)))


def numbers(r):
    return "".join(chr(r.choice(DIGITS)) if r.random() < 0.8 else r.choice([" ", ".", ",", "-", "e", "x", "\n", "\u00b0", "%"]) for _ in range(r.randint(1, 30)))


def punctuation(r):
    signs = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + list("\u00a1\u00bf\u00ab\u00bb\u2014\u2026\u20ac\u00a7\u3001\u300c\uff01\u2192\u2200\u00d7\u2022")
    return "".join(r.choice(signs) if r.random() < 0.7 else r.choice([" ", "\n", "\r\n", "a", "Z", "7", "\u00e9"] + CONTRACTIONS) for _ in range(r.randint(1, 25)))


def markers(r):
    return "".join(r.choice(MARKERS) if r.random() < 0.5 else r.choice(WORDS + SPACES + [" user", "\nok"]) for _ in range(r.randint(1, 12)))


def emoji(r):
    return "".join(r.choice(EMOJI) if r.random() < 0.5 else r.choice(WORDS + [" ", "\ufe0f", "\u200d", "!"]) for _ in range(r.randint(1, 15)))


def repeats(r):
    unit = r.choice(["a", "q", " ", "\n", ".", "=", "-", "\u4e2d", "\u00e9", "ab", "Aa", "0", "\t", "\u2581", " a", "\r\n", "ha", "\U0001F600"])
    return r.choice(["", "x", " "]) + unit * r.randint(1, 120) + r.choice(["", "y", " z", "\n"])


GENERATORS = [prose, code, any_code_point, mixed_scripts, one_script, marks, white_space, numbers, punctuation, markers, emoji, repeats]


def strings(n, seed):
    r = random.Random(seed)
    return [GENERATORS[i % len(GENERATORS)](r) for i in range(n)]
