#!/usr/bin/env python3
"""Writes tests/corpus/jinja: the seeds of src/text/jinja_fuzz.cc, from our templates and random ones."""
import hashlib, json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import jinja_random

HERE = pathlib.Path(__file__).parent.parent
FOLDER = HERE / "corpus/jinja"
FOLDER.mkdir(parents=True, exist_ok=True)


def write(data):
    (FOLDER / hashlib.sha1(data).hexdigest()[:16]).write_bytes(data)


for path in sorted((HERE / "data/templates").glob("*.jinja")):
    if path.stat().st_size < 2000:
        write(path.read_bytes())
for case in jinja_random.cases(7, 150):
    source = case["source"].encode()
    if len(source) < 600:
        write(source + b"\0" + json.dumps(case["context"]).encode())
