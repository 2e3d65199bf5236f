"""Whole models whose linear layers are FP8, GPTQ, AWQ or compressed-tensors: logits and hidden
states equal the NumPy reference on the dequantised weights, in one pass and in pieces."""

import json

import numpy as np
import pytest

from reference import fixtures
from reference.model import Model, named
from tests import parity
from tests.tools import quantised_dir

# Dense; experts of 48 columns, which no group of 32 divides; latent attention, whose kv_b_proj
# is read by heads and turned around.
CASES = [("llama", scheme) for scheme in quantised_dir.SCHEMES]
CASES += [("qwen3_moe", scheme) for scheme in ("fp8_grid", "fp8_channel", "gptq_4")]
CASES += [("deepseek_v3", scheme) for scheme in ("fp8_grid", "gptq_8_act_order")]
ARCHITECTURES = sorted({name for name, _ in CASES})


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("stored_quant"), names=ARCHITECTURES)


def reference_values(directory, weights, prompts):
    config = json.loads((directory / "config.json").read_text())
    return parity.numpy_values(Model.of(config, named(weights)), prompts)


@pytest.mark.parametrize("name,scheme", CASES)
def test_equals_the_reference(ingot, directories, tmp_path, name, scheme):
    folder = tmp_path / scheme
    weights, quantised = quantised_dir.convert(directories[name], folder, scheme)
    assert len(quantised) > 20
    golden = fixtures.golden(directories[name])
    prompts = [golden[f"p{i}.ids"].tolist() for i in range(fixtures.N_PROMPTS)]
    wanted = reference_values(directories[name], weights, prompts)
    ours = parity.eval_logits(ingot, folder, prompts, tmp_path, *parity.F32)
    assert ours.keys() == wanted.keys()
    errors = {key: float(np.abs(ours[key] - wanted[key]).max()) for key in wanted}
    print(f"{name} {scheme}: {max(errors.values()):.1e}")
    assert {key: e for key, e in errors.items() if not e < fixtures.TOLERANCE} == {}
    # It is not the unquantised model.
    plain = parity.eval_logits(ingot, directories[name], prompts, tmp_path, *parity.F32)
    assert np.abs(plain["logits.1"] - ours["logits.1"]).max() > 10 * fixtures.TOLERANCE


@pytest.mark.parametrize("act", ["f32", "auto"])
@pytest.mark.parametrize("scheme", quantised_dir.SCHEMES)
def test_row_contract(ingot, directories, tmp_path, scheme, act):
    folder = tmp_path / scheme
    quantised_dir.convert(directories["llama"], folder, scheme)
    prompts = [parity.long_prompt()]
    flags = ["--act", act, "--kv-type", "f16"]
    whole = parity.eval_logits(ingot, folder, prompts, tmp_path, *flags, "-t", 1)
    for chunk, threads in ((1, 2), (7, 1), (64, 2)):
        pieces = parity.eval_logits(ingot, folder, prompts, tmp_path, *flags, "--chunk", chunk,
                                    "-t", threads)
        assert parity.same_bits(whole, pieces) == [], (chunk, threads)
