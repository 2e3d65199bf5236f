"""Proof that the comparison with transformers bites: each op broken in turn must take the
logits or the hidden states out of tolerance."""
import types

import numpy as np
import pytest

from reference import delta_rule, fixtures, ops
from reference.model import Model
from reference.ops import heads_of

NAMES = fixtures.ALL_NAMES
DELTA_RULE = fixtures.DELTA_RULE
LATENT = ["deepseek_v3", "deepseek_v32", "glm_moe_dsa"]
SPARSE = LATENT[1:]
SIGMOID = ["glm4_moe", "minimax_m2"] + LATENT
SOFTMAX = ["qwen3_moe", "mixtral", "qwen3_next", "qwen3_5_moe"]
HALF_SPLIT = [name for name in NAMES if name not in ["gpt2", "deepseek_v3"]]


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"), names=NAMES)


def worst_error(model, golden):
    """Largest difference of any hidden state or logit of p1."""
    states = model.hidden_states(golden["p1.ids"])
    wanted = golden["p1.logits"]
    return max([np.abs(model.logits(states[-1][-len(wanted):]) - wanted).max()] +
               [np.abs(h - golden[f"p1.hidden{j}"]).max() for j, h in enumerate(states)])


def broken(**replacements):
    module = types.SimpleNamespace(**vars(ops))
    for name, function in replacements.items():
        setattr(module, name, function)
    return module


def without(op, **overrides):
    """The op with some of its arguments forced, as a mistake would."""
    return lambda *args, **more: op(*args, **{**more, **{
        name: value for name, value in overrides.items() if name in more}})


def mask_off_by_one(q, k, v, positions, key_positions, *rest, **more):
    return ops.attention(q, k, v, positions + 1, key_positions, *rest, **more)


def window_off_by_one(q, k, v, positions, key_positions, n_heads, n_kv, scale, window=0, *rest, **more):
    return ops.attention(q, k, v, positions, key_positions, n_heads, n_kv, scale,
                         window + 1 if window else 0, *rest, **more)


def no_sinks(q, k, v, p, kp, n_heads, n_kv, scale, window=0, softcap=0.0, sinks=None, **more):
    return ops.attention(q, k, v, p, kp, n_heads, n_kv, scale, window, softcap, None, **more)


def other_key_head(q, k, v, p, kp, nh, nkv, *r, **more):
    return ops.attention(q, np.roll(k, k.shape[1] // nkv, 1), v, p, kp, nh, nkv, *r, **more)


def wrong_rope_sign(x, cos_sin, n_heads, pairing="half_split"):
    cos, sin = np.split(cos_sin, 2, axis=1)
    return ops.rope(x, np.concatenate([cos, -sin], axis=1), n_heads, pairing)


STEP = delta_rule.delta_step


def old_state(state, q, k, v, g, beta):
    """The output reads the state before the token's own update."""
    new, _ = STEP(state, q, k, v, g, beta)
    return new, np.matmul(q[:, None, :], np.exp(g)[:, None, None] * state)[:, 0]


def late_decay(state, q, k, v, g, beta):
    """What the state predicts is taken before it decays."""
    delta = beta[:, None] * (v - np.matmul(k[:, None, :], state)[:, 0])
    state = np.exp(g)[:, None, None] * state + k[:, :, None] * delta[:, None, :]
    return state, np.matmul(q[:, None, :], state)[:, 0]


def gated_delta_with(step):
    def gated_delta(*args, **more):
        delta_rule.delta_step = step
        try:
            return delta_rule.gated_delta(*args, **more)
        finally:
            delta_rule.delta_step = STEP
    return gated_delta


FAULTS = {
    "mask off by one": (  # the index never selects a later key
        broken(attention=mask_off_by_one), [name for name in NAMES if name not in SPARSE]),
    "window off by one": (
        broken(attention=window_off_by_one), ["mistral", "gemma3", "gpt_oss", "olmo3"]),
    "sinks forgotten": (broken(attention=no_sinks), ["gpt_oss"]),
    "query head order": (broken(attention=other_key_head), NAMES),
    "rope sign on keys and queries": (
        broken(rope=wrong_rope_sign), [name for name in NAMES if name != "gpt2"]),
    "interleaved rope": (broken(rope=lambda x, t, h, p="": ops.rope(x, t, h, "interleaved")),
                         [name for name in HALF_SPLIT if name not in ["glm_moe_dsa", *DELTA_RULE]]),
    "half-split rope": (broken(rope=lambda x, t, h, p="": ops.rope(x, t, h)), LATENT),
    "llama3 scaling forgotten": (broken(inv_freq_llama3=lambda inv, *a: inv), ["llama3_rope"]),
    "yarn truncated": (broken(inv_freq_yarn=lambda *a: ops.inv_freq_yarn(*a[:-1], True)), ["gpt_oss"]),
    "yarn's factor on cos and sin": (broken(yarn_attention_factor=lambda *a: 1.0), ["gpt_oss"]),
    "epsilon": (broken(rms_norm=lambda x, w, eps: ops.rms_norm(x, w, 1e-2)),
                [name for name in NAMES if name != "gpt2"]),
    "layer_norm epsilon": (
        broken(layer_norm=lambda x, w, b, eps: ops.layer_norm(x, w, b, 1e-1)), ["gpt2"]),
    "gelu_erf for gelu_tanh": (broken(activation=lambda x, kind: ops.gelu_erf(x)), ["gpt2"]),
    "weights not normalised": (broken(route=without(ops.route, normalise=False)), SOFTMAX + SIGMOID),
    "selection bias forgotten": (broken(route=without(ops.route, bias=None)), SIGMOID),
    "groups forgotten": (broken(route=without(ops.route, n_groups=1)), LATENT),
    "scale forgotten": (broken(route=without(ops.route, scale=1.0)), LATENT),
    "one expert fewer": (broken(route=without(ops.route, n_used=1)), SOFTMAX + SIGMOID + ["gpt_oss"]),
    "experts by slot": (broken(combine_experts=lambda y, w: ops.combine_experts(y, w[:, ::-1])),
                        SOFTMAX + SIGMOID + ["gpt_oss"]),
    "alpha of the experts": (
        broken(gated_activation=lambda x, kind, limit=0.0, alpha=1.0: ops.gated_activation(
            x, kind, limit, 1.0)), ["gpt_oss"]),
    "shared expert without its gate": (
        broken(add_gated=lambda x, h, gate: x + h), ["qwen3_next", "qwen3_5_moe"]),
    "silu for the output gate": (
        broken(multiply_activation=lambda x, g, kind: ops.multiply_activation(x, g, "silu")), DELTA_RULE),
    "sigmoid for z": (
        broken(multiply_activation=lambda x, g, kind: ops.multiply_activation(x, g, "sigmoid")), DELTA_RULE),
    "convolution backwards": (
        broken(short_conv=lambda x, w: ops.short_conv(x, w[:, ::-1])), DELTA_RULE),
    "output reads the old state": (broken(gated_delta=gated_delta_with(old_state)), DELTA_RULE),
    "decay after the prediction": (broken(gated_delta=gated_delta_with(late_decay)), DELTA_RULE),
    "tiled value heads": (
        broken(gated_delta=lambda *a: ops.gated_delta(*a, tiled_value_heads=True)), DELTA_RULE),
    "every key seen": (
        broken(select_keys=lambda q, k, w, p, *r: p[None] <= p[:, None]), SPARSE),
    "one key more": (
        broken(select_keys=lambda q, k, w, p, kp, h, top, s: ops.select_keys(q, k, w, p, kp, h, top + 1, s)),
        SPARSE),
    "index without ReLU": (broken(select_keys=lambda q, k, w, p, kp, h, top, s: ops.select_keys(
        (heads_of(q, h) * w[:, :, None]).sum(1), k, np.ones((len(q), 1)), p, kp, 1, top, s)), SPARSE),
}


@pytest.mark.parametrize("fault,name", [(fault, name) for fault, (_, names) in FAULTS.items()
                                        for name in names])
def test_a_broken_op_fails(directories, fault, name):
    model = Model(directories[name], FAULTS[fault][0])
    assert worst_error(model, fixtures.golden(directories[name])) > fixtures.tolerance(name)


@pytest.mark.parametrize("name", NAMES)
def test_one_flipped_weight_bit_fails(directories, name):
    """The top mantissa bit of one weight of one matrix in the middle of the model."""
    model = Model(directories[name])
    matrix = model.weights[next(w for w in (
        "h.1.mlp.c_fc.weight", "layers.1.mlp.up_proj.weight", "layers.1.linear_attn.out_proj.weight",
        "layers.1.self_attn.o_proj.weight") if w in model.weights)]
    at = np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape)
    bits = matrix[at].view(np.uint64) ^ np.uint64(1 << 51)
    matrix[at] = bits.view(np.float64)
    assert worst_error(model, fixtures.golden(directories[name])) > fixtures.tolerance(name)
