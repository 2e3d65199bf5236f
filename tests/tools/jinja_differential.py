#!/usr/bin/env python3
"""Renders cases in Python's jinja2, set up as Hugging Face's chat templates are, and in ours.

usage: jinja_differential.py RENDER_TEMPLATE [--cases N] [--seed S]
RENDER_TEMPLATE is the built tests/tools/render_template.cc.  Needs PyPI's jinja2.
Prints counts and the first differences; exits 1 if there are any."""
import argparse, datetime, json, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import jinja_reference, jinja_random


def ours(binary, cases):
    text = "".join(json.dumps(c) + "\n" for c in cases)
    done = subprocess.run([binary], input=text, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.split("\n") if line]
    if done.returncode or len(rows) != len(cases):
        print(f"stopped with {done.returncode} at case {len(rows)}: {cases[len(rows)]['source']!r}\n{done.stderr}")
        sys.exit(1)
    return rows


def main():
    args = argparse.ArgumentParser()
    args.add_argument("binary")
    args.add_argument("--cases", type=int, default=5000)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--show", type=int, default=20)
    args = args.parse_args()
    print(f"seed {args.seed}, {args.cases} cases")
    cases = jinja_random.cases(args.seed, args.cases)
    different = errors = 0
    for case, got in zip(cases, ours(args.binary, cases)):
        want = jinja_reference.render(case["source"], case["context"])
        errors += "error" in want
        if "skipped" in want:
            continue
        if " at 0x" in want.get("text", ""):
            continue  # an address of the interpreter's: no template means to print it
        if "subscriptable by a slice" in got.get("error", ""):
            continue  # jinja2 folds a slice of a constant that has none to undefined; a variable's fails
        if want.get("text") == got.get("text") and ("error" in want) == ("error" in got):
            continue
        different += 1
        if different <= args.show:
            print(f"--- {case['source']!r}\n  wanted {want}\n  got    {got}")
    print(f"{different} differences in {args.cases} cases, {errors} of them errors in both")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
