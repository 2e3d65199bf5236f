"""The parity gate bites: one flipped weight bit, one broken op, one swapped summation order, and
each time the right check fails (src/ops/testing_faults.h)."""

import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

from reference import fixtures, tensors
from reference.model import Model
from tests import parity
from tests.tools import to_gguf


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"))


@pytest.fixture(scope="session")
def faulty(ingot):
    """The program whose ops can be broken: $INGOT_FAULTY, else beside the real one."""
    path = pathlib.Path(os.environ.get("INGOT_FAULTY", ingot.with_name("ingot_faulty")))
    assert path.is_file(), f"{path} is not built (cmake with -DINGOT_TESTS=ON)"
    return path


def compare(binary, directory, fault=None):
    """(exit status, first thing past the tolerance or None) of the comparison with transformers."""
    return compare_with(binary, directory, directory / "golden.safetensors", fault=fault)


def compare_with(binary, model, reference, *flags, fault=None):
    done = parity.call(binary, "eval", "logits", model, "--reference", reference, *flags, *parity.F32,
                       env={"INGOT_FAULT": fault} if fault else None)
    assert done.returncode in (0, 1), done.stderr
    first = re.search(r"^first past [^:]*: ([^,]*),", done.stdout, re.MULTILINE)
    assert (done.returncode == 1) == (first is not None), done.stdout
    return done.returncode, first and first[1]


# ---- broken ops --------------------------------------------------------------------------------

# Each fault, the models that must notice, and where: the first layer's output, since its
# attention or norm is the first to be wrong.
FAULTS = [
    ("mask", "gpt2"), ("mask", "llama"), ("mask", "qwen2"), ("mask", "gemma3"),
    ("window", "mistral"), ("window", "gemma3"),
    ("rope_sign", "llama"), ("rope_sign", "llama3_rope"), ("rope_sign", "mistral"),
    ("rope_sign", "qwen2"), ("rope_sign", "qwen3"), ("rope_sign", "gemma3"),
]


@pytest.mark.parametrize("fault,name", FAULTS)
def test_a_broken_op_is_named(faulty, directories, fault, name):
    assert compare(faulty, directories[name], fault) == (1, "hidden 1")


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_wrong_epsilon_is_caught(faulty, directories, name):
    """Ten times a small epsilon: it is noticed, though not at once in every model."""
    status, _ = compare(faulty, directories[name], "epsilon")
    assert status == 1


@pytest.mark.parametrize("fault,name", [("mask", "llama"), ("rope_sign", "qwen3"), ("window", "mistral")])
def test_a_broken_op_changes_tokens(faulty, directories, fault, name):
    golden = fixtures.golden(directories[name])
    equal = [parity.greedy(faulty, directories[name], golden[f"p{i}.ids"].tolist(), fixtures.N_GREEDY,
                           *parity.F32, env={"INGOT_FAULT": fault}) == golden[f"p{i}.greedy"].tolist()
             for i in range(fixtures.N_PROMPTS)]
    assert not all(equal)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "gemma3"])
def test_a_swapped_summation_order_breaks_the_row_contract(faulty, directories, tmp_path, name):
    """The sums of many rows run backwards: within every tolerance, and caught by bits alone."""
    env = {"INGOT_FAULT": "summation_order"}
    assert compare(faulty, directories[name], "summation_order") == (0, None)
    whole = parity.eval_logits(faulty, directories[name], [parity.long_prompt()], tmp_path, *parity.F32,
                               env=env)
    single = parity.eval_logits(faulty, directories[name], [parity.long_prompt()], tmp_path, *parity.F32,
                                "--chunk", 1, env=env)
    different = parity.same_bits(whole, single)
    assert "logits.0" in different and "hidden.0.0" not in different


@pytest.mark.parametrize("name", fixtures.NAMES)
def test_without_a_fault_it_is_the_same_program(ingot, faulty, directories, tmp_path, name):
    """So what the tests above see comes from the fault.  The real program has none to switch on."""
    prompts = [parity.long_prompt()]
    assert compare(faulty, directories[name]) == (0, None)
    ours = parity.eval_logits(ingot, directories[name], prompts, tmp_path, env={"INGOT_FAULT": "mask"})
    theirs = parity.eval_logits(faulty, directories[name], prompts, tmp_path)
    assert parity.same_bits(ours, theirs) == []


def test_the_program_holds_no_faults(ingot, faulty):
    assert b"INGOT_FAULT" in faulty.read_bytes()
    assert b"INGOT_FAULT" not in ingot.read_bytes()
    assert b"summation_order" not in ingot.read_bytes()


# ---- flipped bits ------------------------------------------------------------------------------


def flip_sign_of_largest(file, name):
    """Flips one bit of one weight in a safetensors file: the sign of the largest."""
    raw = bytearray(file.read_bytes())
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    width = {"F32": 4, "F16": 2, "BF16": 2}[header[name]["dtype"]]
    value = tensors.load(file)[0][name]
    at = 8 + n + header[name]["data_offsets"][0] + int(np.argmax(np.abs(value))) * width
    raw[at + width - 1] ^= 0x80
    file.write_bytes(raw)


def copy_with_flip(directory, target, name):
    shutil.copytree(directory, target)
    flip_sign_of_largest(target / "model.safetensors", name)
    return target


@pytest.mark.parametrize("layer", range(4))
@pytest.mark.parametrize("name", ["gpt2", "llama3_rope", "gemma3"])
def test_a_flipped_weight_bit_is_named(ingot, directories, tmp_path, name, layer):
    """The first layer past the tolerance is the one whose weight was flipped."""
    matrix = f"h.{layer}.mlp.c_fc.weight" if name == "gpt2" else f"layers.{layer}.mlp.up_proj.weight"
    prefix = "transformer." if name == "gpt2" else "model."
    broken = copy_with_flip(directories[name], tmp_path / "broken", prefix + matrix)
    assert compare(ingot, broken) == (1, f"hidden {layer + 1}")


@pytest.mark.parametrize("name", fixtures.NAMES)
def test_a_flipped_bit_of_any_family(ingot, directories, tmp_path, name):
    matrix = {"gpt2": "transformer.h.1.attn.c_attn.weight"}.get(name, "model.layers.1.self_attn.v_proj.weight")
    broken = copy_with_flip(directories[name], tmp_path / "broken", matrix)
    assert compare(ingot, broken) == (1, "hidden 2")


def test_a_flipped_bit_of_a_quantised_weight(ingot, directories, tmp_path):
    """One code's high bit in a q8_0 GGUF, against NumPy's values of the sound file."""
    file, reference = tmp_path / "model.gguf", tmp_path / "numpy.safetensors"
    weights, _ = to_gguf.convert(directories["qwen3"], file, "q8_0")
    model = Model(directories["qwen3"])
    model.weights.update({name.removeprefix("model."): w for name, w in weights.items()})
    prompts = [parity.long_prompt()]
    values = parity.numpy_values(model, prompts)
    tensors.save(reference, {key: value.astype(np.float32) for key, value in values.items()})
    ids = tmp_path / "ids.json"
    ids.write_text(str(prompts))
    assert compare_with(ingot, file, reference, "--tokens", ids) == (0, None)
    raw = bytearray(file.read_bytes())
    at = position_of(file, "blk.2.ffn_down.weight")
    codes = np.frombuffer(raw[at + 2 : at + 34], np.int8)
    raw[at + 2 + int(np.argmax(np.abs(codes)))] ^= 0x80
    file.write_bytes(raw)
    assert compare_with(ingot, file, reference, "--tokens", ids) == (1, "hidden 3")


def position_of(file, name):
    from gguf import GGUFReader

    reader = GGUFReader(str(file))
    return int(next(t for t in reader.tensors if t.name == name).data_offset)
