"""tests/data/recipe_tensors.json: of every fixture its config and the names and shapes of its
tensors, as transformers saved them and as tests/tools/to_gguf.py lays them out.

    python -m tests.tools.make_recipe_tensors FIXTURES OUT.json

FIXTURES holds a model directory a family.  derive_tensors_test.cc compares what recipes read.
"""
import argparse
import json
import pathlib
import tempfile

import gguf

from tests.tools import to_gguf
from tests.tools.to_gguf import ARCHITECTURES


def safetensors_shapes(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}


def gguf_listing(directory):
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.gguf"
        to_gguf.convert(directory, path)
        reader = gguf.GGUFReader(path)
        metadata = {key: field.contents() for key, field in reader.fields.items()
                    if not key.startswith(("GGUF.", "tokenizer."))}
        tensors = {t.name: [int(n) for n in reversed(t.shape)] for t in reader.tensors}
    return {"metadata": metadata, "tensors": tensors}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fixtures", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    listing = {}
    for directory in sorted(args.fixtures.iterdir()):
        config = json.loads((directory / "config.json").read_text())
        if config["model_type"] not in ARCHITECTURES:
            continue
        entry = {"config": config,
                 "tensors": safetensors_shapes(directory / "model.safetensors")}
        try:
            entry["gguf"] = gguf_listing(directory)
        except Exception as error:  # a family that the writer does not know yet
            print(directory.name, repr(error))
        listing[directory.name] = entry
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in listing.items()]
    args.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
