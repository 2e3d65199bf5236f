"""Damaged model files through the whole program (reliability R2, R3, R4).

Each file is changed in one place and given to `ingot inspect`: it must end by itself with 0 or
1, and a refusal is one line that names the file.  $INGOT_LOADER_RUNS sets how many files of
each kind (default 60; the long run is 7,000).  The seed is fixed and in every message.
"""

import json
import os
import random
import re
import shutil

import pytest

from tests import app_models
from tests.tools import to_gguf

RUNS = int(os.environ.get("INGOT_LOADER_RUNS", "60"))
SEED = 20261130
EDGES = [0, 1, 2, 2**7, 2**15, 2**31, 2**31 - 1, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63,
         2**64 - 1]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return app_models.zero_model(tmp_path_factory.mktemp("loaders") / "m", n_layers=1, hidden=64,
                                 intermediate=96, vocab=64)


@pytest.fixture(scope="module")
def gguf_bytes(model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("gguf")
    path = directory / "m.gguf"
    for name in ["config.json", "model.safetensors"]:
        shutil.copy(model / name, directory / name)
    app_models.edit_json(directory / "config.json", rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0})  # what to_gguf reads
    to_gguf.convert(directory, path, "q8_0")
    return path.read_bytes()


def header_size(name, data):
    """Bytes before the tensors."""
    if name.endswith(".safetensors"):
        return 8 + int.from_bytes(data[:8], "little")
    return min(len(data), data.find(b"output_norm.weight") + 200)


def with_number_changed(rng, header):
    """A safetensors header with one of its numbers at an edge, the length mended."""
    text = header[8:]
    found = list(re.finditer(rb"\d+", text))
    spot = rng.choice(found)
    old = int(spot.group())
    new = rng.choice([*EDGES, old + 1, abs(old - 1), int(rng.choice(found).group())])
    text = text[:spot.start()] + str(new).encode() + text[spot.end():]
    return len(text).to_bytes(8, "little") + text


def damaged(rng, name, data):
    size = header_size(name, data)
    header, rest = bytearray(data[:size]), data[size:]
    kind = rng.randrange(6)
    at = rng.randrange(size)
    if kind == 0:
        header[at] ^= 1 << rng.randrange(8)
    elif kind == 1 and name.endswith(".safetensors"):
        header = with_number_changed(rng, bytes(header))
    elif kind <= 2:
        width = rng.choice([4, 8])
        header[at:at + width] = (rng.choice(EDGES) % 2**(8 * width)).to_bytes(width, "little")
    elif kind == 3:
        del header[at:at + rng.randrange(1, 40)]
    elif kind == 4:
        header[at:at] = header[at:at + rng.randrange(1, 40)]
    else:
        return data[:rng.randrange(len(data))]
    return bytes(header) + rest


def verdict(done, path, what):
    """Checks how the program ended; True when it took the file."""
    assert done.returncode in (0, 1), f"{what}: exit {done.returncode}, {done.stderr[-500:]}"
    if done.returncode == 0:
        return True
    errors = [line for line in done.stderr.splitlines() if line.startswith("ingot: ")
              and "warning" not in line]
    assert len(errors) >= 1 and str(path) in errors[0], f"{what}: {done.stderr[-500:]}"
    return False


def damage_many(run_ingot, directory, name, model_argument):
    path = directory / name
    good = path.read_bytes()
    assert run_ingot("inspect", model_argument).returncode == 0
    rng = random.Random(SEED)
    n_taken = 0
    for i in range(RUNS):
        path.write_bytes(damaged(rng, name, good))
        done = run_ingot("inspect", model_argument, timeout=20)
        n_taken += verdict(done, directory, f"seed {SEED}, file {i} of {name}")
    print(f"{name}: {RUNS} damaged files, {n_taken} still legal, the others refused by name")
    assert n_taken < RUNS / 2


def test_damaged_safetensors(run_ingot, model, tmp_path):
    shutil.copytree(model, tmp_path / "m")
    damage_many(run_ingot, tmp_path / "m", "model.safetensors", tmp_path / "m")


def test_damaged_gguf(run_ingot, gguf_bytes, tmp_path):
    (tmp_path / "m.gguf").write_bytes(gguf_bytes)
    damage_many(run_ingot, tmp_path, "m.gguf", tmp_path / "m.gguf")


def test_damaged_index(run_ingot, model, tmp_path):
    target = tmp_path / "m"
    shutil.copytree(model, target)
    data = (target / "model.safetensors").read_bytes()
    names = [n for n in json.loads(data[8:header_size("x.safetensors", data)])]
    (target / "model.safetensors").rename(target / "model-00001-of-00001.safetensors")
    index = target / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": {
        n: "model-00001-of-00001.safetensors" for n in names}}))
    good = index.read_bytes()
    assert run_ingot("inspect", target).returncode == 0
    rng = random.Random(SEED)
    for i in range(RUNS):
        text = bytearray(good)
        at = rng.randrange(len(text))
        if rng.randrange(2):
            text[at] ^= 1 << rng.randrange(8)
        else:
            del text[at:at + rng.randrange(1, 60)]
        index.write_bytes(text)
        verdict(run_ingot("inspect", target), target, f"seed {SEED}, index {i}")


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_every_truncation_is_refused(run_ingot, model, gguf_bytes, tmp_path, kind):
    """R3, sampled here; the parsers' own tests take every prefix."""
    if kind == "gguf":
        path = argument = tmp_path / "m.gguf"
        path.write_bytes(gguf_bytes)
    else:
        shutil.copytree(model, tmp_path / "m")
        argument = tmp_path / "m"
        path = argument / "model.safetensors"
    good = path.read_bytes()
    rng = random.Random(SEED)
    sizes = {0, 1, 7, 8, 23, 24, len(good) - 1, header_size(path.name, good)}
    for n in sorted(sizes | {rng.randrange(len(good)) for _ in range(RUNS // 3)}):
        # gguf's writer pads the last tensor; without that padding the file is whole.
        if kind == "gguf" and len(good) - n < 32:
            continue
        path.write_bytes(good[:n])
        assert not verdict(run_ingot("inspect", argument), argument, f"first {n} bytes")
