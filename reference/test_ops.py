"""Ops whose corners no model of the fixtures reaches, against forms written down here."""
import gguf
import numpy as np
import pytest

from reference import ops, quant

RNG = np.random.default_rng(20261201)


# ---- choosing ------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["softmax", "softmax_chosen", "sigmoid"])
def test_route_ties_go_to_the_lowest(score):
    logits = np.array([[1.0, 2, 2, 2], [0, 0, 0, 0], [3, 1, 3, 3]])
    experts, weights = ops.route(logits, 2, score)
    assert experts.tolist() == [[1, 2], [0, 1], [0, 2]]
    assert np.allclose(weights[:, 0], weights[:, 1])


def test_route_over_groups():
    """By hand: groups {0, 1, 2} and {3, 4, 5}; the best single expert is in the group that loses."""
    scores = np.array([[0.9, 0.1, 0.1, 0.5, 0.6, 0.2]])
    logits = np.log(scores / (1 - scores))
    experts, weights = ops.route(logits, 2, "sigmoid", n_groups=2, n_groups_used=1)
    assert experts.tolist() == [[3, 4]] and np.allclose(weights, [[0.5, 0.6]])
    bias = np.array([0.3, 0, 0, 0, 0, 0])
    experts, weights = ops.route(logits, 2, "sigmoid", bias, 2, 1, normalise=True, scale=2.5)
    assert experts.tolist() == [[0, 1]] and np.allclose(weights, [[2.5 * 0.9, 2.5 * 0.1]])


def test_experts_are_their_matrices():
    n, n_experts, rows, columns = 7, 5, 6, 4
    matrices, biases = RNG.normal(size=(n_experts, rows, columns)), RNG.normal(size=(n_experts, rows))
    x, experts = RNG.normal(size=(n, columns)), RNG.integers(0, n_experts, (n, 3))
    weights = RNG.normal(size=(n, 3))
    found = ops.combine_experts(ops.expert_matmul(x, matrices, experts, biases), weights)
    for t in range(n):
        wanted = sum(weights[t, i] * (matrices[e] @ x[t] + biases[e]) for i, e in enumerate(experts[t]))
        assert np.allclose(found[t], wanted)


def test_select_keys_ties_and_few():
    q, k = np.zeros((3, 2)), np.zeros((3, 2))  # every score is 0
    chosen = ops.select_keys(q, k, np.ones((3, 1)), np.arange(3), np.arange(3), 1, 2, 1.0)
    assert chosen.tolist() == [[True, False, False], [True, True, False], [True, True, False]]


def test_gate_of_experts_is_clamped():
    found = ops.gated_activation(np.array([[9.0, -9, 1, 9, -9, 1]]), "silu", limit=7.0, alpha=1.702)
    gate, up = np.array([7.0, -9, 1]), np.array([7.0, -7, 1])
    assert np.allclose(found, (up + 1) * gate / (1 + np.exp(-1.702 * gate)), atol=1e-12)


# ---- delta rule ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 33])
def test_gated_delta_solved_at_once(n):
    """The system of architectures.md 12.2 over all n tokens from an empty state."""
    key_heads, value_heads, key_dim, value_dim = 2, 6, 5, 7
    width = 2 * key_heads * key_dim
    qkv = RNG.normal(size=(n, width + value_heads * value_dim))
    b, a = RNG.normal(size=(2, n, value_heads))
    decay, dt_bias = -np.exp(RNG.normal(size=value_heads)), RNG.normal(size=value_heads)
    for tiled in (False, True):
        found = ops.gated_delta(qkv, b, a, decay, dt_bias, key_heads, value_heads, key_dim, value_dim, tiled)
        for j in range(value_heads):
            head = j % key_heads if tiled else j // (value_heads // key_heads)
            q, k = (qkv[:, at + head * key_dim : at + (head + 1) * key_dim] for at in (0, width // 2))
            q, k = (x / np.sqrt((x * x).sum(1, keepdims=True) + 1e-6) for x in (q, k))
            v = qkv[:, width + j * value_dim : width + (j + 1) * value_dim]
            g = np.cumsum(decay[j] * np.log1p(np.exp(a[:, j] + dt_bias[j])))
            beta = 1 / (1 + np.exp(-b[:, j]))
            factors = np.tril(np.exp(np.tril(g[:, None] - g[None])))
            system = np.eye(n) + np.tril(beta[:, None] * (k @ k.T) * factors, -1)
            u = np.linalg.solve(system, beta[:, None] * v)
            wanted = ((q @ k.T) * factors) @ u / np.sqrt(key_dim)
            part = found[:, j * value_dim : (j + 1) * value_dim]
            assert np.allclose(part, wanted, atol=1e-12)


def test_short_conv_is_a_convolution():
    x, weight = RNG.normal(size=(9, 3)), RNG.normal(size=(3, 4))
    for c in range(3):
        wanted = np.convolve(x[:, c], weight[c, ::-1])[:9]
        assert np.allclose(ops.short_conv(x, weight)[:, c], wanted / (1 + np.exp(-wanted)))


# ---- numbers -------------------------------------------------------------------------------


def test_activations_at_the_ends():
    for x in (1e30, -1e30, 0.0):
        for kind in ("silu", "sigmoid", "gelu_tanh", "gelu_erf"):
            with np.errstate(over="ignore"):
                assert np.isfinite(ops.activation(np.array([x]), kind)).all()


def test_mxfp4_blocks_are_ggmls():
    """The bytes of gpt-oss's safetensors, repacked into ggml's order and read by PyPI gguf."""
    blocks = RNG.integers(0, 256, (3, 5, 2, 16), dtype=np.uint8)  # 3 experts, 5 rows, 64 columns
    scales = RNG.integers(100, 140, (3, 5, 2), dtype=np.uint8)
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(3, 5, 2, 32)
    packed = codes[..., :16] | codes[..., 16:] << 4
    raw = np.concatenate([scales[..., None], packed], axis=-1).reshape(15, 34)
    wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.MXFP4).reshape(3, 5, 64)
    assert np.array_equal(quant.mxfp4_blocks(blocks, scales), wanted)
