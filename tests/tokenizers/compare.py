"""Compares `ingot tokenize` and `detokenize` with Hugging Face's tokenizers (PyPI) on seeded random strings (row R5's
full set; ./check compares stored hashes instead).

usage: compare.py INGOT FOLDER [N [SEED]]      FOLDER/NAME/tokenizer.json, as unpack.py writes them; exits 1 on a difference"""
import json, pathlib, subprocess, sys

import tokenizers
from random_strings import GENERATORS, strings


def ask(ingot, command, directory, rows):
    run = subprocess.run([ingot, command, directory, "--jsonl"], input="".join(json.dumps(r) + "\n" for r in rows), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.split("\n") if line]


def main():
    ingot, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    n, seed = int(sys.argv[3]) if len(sys.argv) > 3 else 20000, int(sys.argv[4]) if len(sys.argv) > 4 else 20261130
    texts, wrong = strings(n, seed), 0
    print(f"seed {seed}, {n} strings, tokenizers {tokenizers.__version__}")
    for path in sorted(folder.glob("*/tokenizer.json")):
        reference = tokenizers.Tokenizer.from_file(str(path))
        ids = [e.ids for e in reference.encode_batch(texts, add_special_tokens=False)]
        decoded = reference.decode_batch(ids, skip_special_tokens=False)
        for command, rows, want in (("tokenize", texts, ids), ("detokenize", ids, decoded)):
            got = ask(ingot, command, path.parent, rows)
            bad = [i for i in range(n) if i >= len(got) or got[i] != want[i]]
            wrong += len(bad)
            print(path.parent.name, command, f"{n - len(bad)} of {n}", *[f"\n  {GENERATORS[i % len(GENERATORS)].__name__} {rows[i]!a:.200}" for i in bad[:5]])
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
