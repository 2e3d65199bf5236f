"""model.py against transformers' outputs, and proof that the comparison bites: each op broken
in turn must take the logits or the tokens out of tolerance."""
import types

import numpy as np
import pytest

from reference import fixtures, ops
from reference.model import Model


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"))


def worst_error(model, golden):
    """Largest difference of any hidden state of p1 and any stored logit of p0, p1, p2."""
    errors = []
    for i in range(fixtures.N_PROMPTS):
        states = model.hidden_states(golden[f"p{i}.ids"])
        wanted = golden[f"p{i}.logits"]
        errors.append(np.abs(model.logits(states[-1])[-len(wanted):] - wanted).max())
        if i == 1:
            errors += [np.abs(h - golden[f"p1.hidden{j}"]).max() for j, h in enumerate(states)]
    return max(errors)


@pytest.mark.parametrize("name", fixtures.NAMES)
def test_hidden_states_and_logits(directories, name):
    golden = fixtures.golden(directories[name])
    assert worst_error(Model(directories[name]), golden) < fixtures.TOLERANCE


@pytest.mark.parametrize("name", fixtures.NAMES)
@pytest.mark.parametrize("prompt", range(fixtures.N_PROMPTS))
def test_greedy_tokens(directories, name, prompt):
    golden = fixtures.golden(directories[name])
    tokens = Model(directories[name]).greedy(golden[f"p{prompt}.ids"], fixtures.N_GREEDY)
    assert tokens == golden[f"p{prompt}.greedy"].tolist()


# ---- the comparison bites ------------------------------------------------------------------


def broken(**replacements):
    module = types.SimpleNamespace(**vars(ops))
    for name, function in replacements.items():
        setattr(module, name, function)
    return module


def mask_off_by_one(q, k, v, positions, key_positions, *rest, **more):
    return ops.attention(q, k, v, positions + 1, key_positions, *rest, **more)


def window_off_by_one(q, k, v, positions, key_positions, n_heads, n_kv, scale, window=0, *rest):
    return ops.attention(q, k, v, positions, key_positions, n_heads, n_kv, scale,
                         window + 1 if window else 0, *rest)


def wrong_rope_sign(x, cos_sin, n_heads, pairing="half_split"):
    cos, sin = np.split(cos_sin, 2, axis=1)
    return ops.rope(x, np.concatenate([cos, -sin], axis=1), n_heads, pairing)


FAULTS = {
    "mask off by one": (broken(attention=mask_off_by_one), fixtures.NAMES),
    "window off by one": (broken(attention=window_off_by_one), ["mistral", "gemma3"]),
    "rope sign on keys and queries": (
        broken(rope=wrong_rope_sign), ["llama", "llama3_rope", "mistral", "qwen2", "qwen3", "gemma3"]),
    "interleaved rope": (
        broken(rope=lambda x, t, h: ops.rope(x, t, h, "interleaved")), ["llama", "qwen3", "gemma3"]),
    "llama3 scaling forgotten": (broken(inv_freq_llama3=lambda inv, *a: inv), ["llama3_rope"]),
    "epsilon": (broken(rms_norm=lambda x, w, eps: ops.rms_norm(x, w, 1e-3)), ["llama", "qwen3"]),
    "layer_norm epsilon": (
        broken(layer_norm=lambda x, w, b, eps: ops.layer_norm(x, w, b, 1e-3)), ["gpt2"]),
    "gelu_erf for gelu_tanh": (
        broken(activation=lambda x, kind: ops.gelu_erf(x)), ["gpt2"]),
    "query head order": (
        broken(attention=lambda q, k, v, p, kp, nh, nkv, *r: ops.attention(
            q, np.roll(k, k.shape[1] // nkv, 1), v, p, kp, nh, nkv, *r)), ["llama", "qwen2"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_op_fails(directories, fault):
    module, names = FAULTS[fault]
    for name in names:
        model = Model(directories[name], module)
        assert worst_error(model, fixtures.golden(directories[name])) > fixtures.TOLERANCE


@pytest.mark.parametrize("name", fixtures.NAMES)
def test_one_flipped_weight_bit_fails(directories, name):
    """The top mantissa bit of one weight of one matrix in the middle of the model."""
    model = Model(directories[name])
    matrix = model.weights["h.1.mlp.c_fc.weight" if name == "gpt2" else "layers.1.mlp.up_proj.weight"]
    at = np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape)
    bits = matrix[at].view(np.uint64) ^ np.uint64(1 << 51)
    matrix[at] = bits.view(np.float64)
    assert worst_error(model, fixtures.golden(directories[name])) > fixtures.TOLERANCE


@pytest.mark.parametrize("name,kind", [("llama", None), ("mistral", None), ("qwen2", "q8_0"),
                                       ("qwen3", "bf16"), ("gemma3", None)])
def test_gguf_model_is_the_same_model(directories, tmp_path, name, kind):
    """Written by one set of rules (tests/tools/to_gguf.py) and read by another."""
    from reference import gguf_model
    from tests.tools import to_gguf

    weights, _ = to_gguf.convert(directories[name], tmp_path / "model.gguf", kind)
    model = Model(directories[name])
    model.weights.update({n.removeprefix("model."): value for n, value in weights.items()})
    ids = fixtures.golden(directories[name])["p1.ids"]
    read = gguf_model.load(tmp_path / "model.gguf")
    wanted, found = model.hidden_states(ids)[-1], read.hidden_states(ids)[-1]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)  # epsilon is float32 in GGUF
