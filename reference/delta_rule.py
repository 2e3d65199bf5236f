"""Ops of the gated delta rule and its convolution (architectures.md 11.5, 12.1): token after
token, which is the form that the C++ does not have."""
import numpy as np

from reference.activations import sigmoid, silu, softplus

__all__ = ["short_conv", "gated_delta", "l2_normed", "delta_step"]


def short_conv(x, weight):
    """out[t] = silu(sum over j of weight[., j] * x[t - kernel + 1 + j]), zeros before row 0.

    One sequence from its start; x: [n, channels], weight: [channels, kernel]"""
    kernel = weight.shape[1]
    rows = np.concatenate([np.zeros((kernel - 1, x.shape[1])), x])
    return silu(sum(rows[j : j + len(x)] * weight[:, j] for j in range(kernel)))


def l2_normed(x, eps):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)


def delta_step(state, q, k, v, g, beta):
    """(new state, output) of all value heads at one token (12.1).

    state: [heads, key_dim, value_dim]; q, k: [heads, key_dim]; v: [heads, value_dim]"""
    state = np.exp(g)[:, None, None] * state
    predicted = np.matmul(k[:, None, :], state)[:, 0]
    delta = beta[:, None] * (v - predicted)
    state = state + k[:, :, None] * delta[:, None, :]
    return state, np.matmul(q[:, None, :], state)[:, 0]


def gated_delta(qkv, b, a, decay, dt_bias, n_key_heads, n_value_heads, key_dim, value_dim,
                tiled_value_heads=False, l2_eps=1e-6):
    """[n, n_value_heads * value_dim]; one sequence from its start.

    qkv: [n, ...] after the convolution: q and k of all key heads, v of all value heads.
    b, a: [n, n_value_heads]; decay = -exp(A_log).  Value head j reads key head
    j / (n_value_heads / n_key_heads), or j % n_key_heads where they are tiled."""
    n, width = len(qkv), n_key_heads * key_dim
    q, k, v = np.split(qkv, [width, 2 * width], axis=1)
    j = np.arange(n_value_heads)
    reads = j % n_key_heads if tiled_value_heads else j // (n_value_heads // n_key_heads)
    q = l2_normed(q.reshape(n, n_key_heads, key_dim), l2_eps)[:, reads] * key_dim**-0.5
    k = l2_normed(k.reshape(n, n_key_heads, key_dim), l2_eps)[:, reads]
    v = v.reshape(n, n_value_heads, value_dim)
    beta, g = sigmoid(b), decay * softplus(a + dt_bias)
    state, out = np.zeros((n_value_heads, key_dim, value_dim)), np.zeros_like(v)
    for t in range(n):
        state, out[t] = delta_step(state, q[t], k[t], v[t], g[t], beta[t])
    return out.reshape(n, n_value_heads * value_dim)
