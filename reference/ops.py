"""Every op of a model, in NumPy, named as in src/ops/ops.h.

Arrays are float64 and n is the number of token rows.  The formulas are those of
architectures.md (its sections are named) and design.md; nothing here is fast or clever.
"""
import math

import numpy as np

from reference.activations import *  # noqa: F403
from reference.activations import activation, sigmoid, softmax
from reference.delta_rule import *  # noqa: F403
from reference.routing import *  # noqa: F403

PAGE_TOKENS = 64


# ---- rows --------------------------------------------------------------------------------------


def embed(table, tokens, scale=1.0):
    """out[t] = table[tokens[t]] * scale"""
    return table[tokens] * scale


def add_position_embed(x, table, positions):
    return x + table[positions]


def rms_norm(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (1.3)."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps) * weight + bias


def head_rms_norm(x, n_heads, weight, eps):
    """rms_norm of every head on its own; x: [n, n_heads * head_dim]"""
    return rms_norm(heads_of(x, n_heads), weight, eps).reshape(x.shape)


def heads_of(x, n_heads):
    """[n, n_heads * dim] as [n, n_heads, dim]"""
    return x.reshape(len(x), n_heads, x.shape[1] // n_heads)


def add(x, h):
    return x + h


def add_gated(x, h, gate):
    """gate: [n, 1], before the sigmoid"""
    return x + sigmoid(gate) * h


def multiply_activation(x, gate, kind):
    return x * activation(gate, kind)


def gather_rows(x, rows):
    return x[rows]


def soft_cap(x, cap):
    return cap * np.tanh(x / cap)


def check_finite(x):
    return bool(np.isfinite(x).all())


# ---- matmul ------------------------------------------------------------------------------------


def matmul(x, w, bias=None):
    """out[t] = w x[t] (+ bias); x: [n, n_cols], w: [n_rows, n_cols]"""
    out = x @ w.T
    return out if bias is None else out + bias


def quantize_rows(x, run=32):
    """int8 codes and one float32 scale for every `run` columns: d = amax / 127 in float32,
    code = x / d to the nearest integer, ties to even; an all-zero run has d = 0, codes 0."""
    runs = np.asarray(x, np.float64).reshape(*x.shape[:-1], x.shape[-1] // run, run)
    d = (np.max(np.abs(runs), axis=-1).astype(np.float32) / np.float32(127)).astype(np.float64)
    safe = np.where(d == 0, 1, d)
    codes = np.where(d[..., None] == 0, 0, np.rint(runs / safe[..., None]))
    return codes.astype(np.int64).reshape(x.shape), d


def quantized_rows(x, run=32):
    """What a quantised weight meets in --act auto on the CPU: the values of quantize_rows."""
    codes, d = quantize_rows(x, run)
    return codes * np.repeat(d, run, axis=-1)


# ---- rope --------------------------------------------------------------------------------------


# Frequencies are float32 at every step: transformers evaluates them so (2.1), and an ulp of a
# frequency is an angle thousands of tokens on.  Measured on long_llama3 (3,000 tokens): logits
# within 6e-5 of transformers' so, 9e-4 off with float64 frequencies rounded at the end.
F32 = np.float32


def inv_freq_default(base, rotary_dims):
    """1 / base^(2i / rotary_dims), i < rotary_dims / 2 (2.1)"""
    return F32(1) / F32(base) ** (np.arange(0, rotary_dims, 2, dtype=F32) / F32(rotary_dims))


def inv_freq_linear(inv, factor):
    return inv / F32(factor)


def inv_freq_llama3(inv, factor, low_freq_factor, high_freq_factor, original):
    """Long waves are stretched, short ones kept, a ramp between (2.2)."""
    wavelength = F32(2 * math.pi) / inv
    s = (F32(original) / wavelength - F32(low_freq_factor)) / F32(high_freq_factor - low_freq_factor)
    between = (F32(1) - s) * inv / F32(factor) + s * inv
    out = np.where(wavelength > original / low_freq_factor, inv / F32(factor), between)
    return np.where(wavelength < original / high_freq_factor, inv, out)


def inv_freq_yarn(inv, base, rotary_dims, factor, original, beta_fast=32.0, beta_slow=1.0,
                  truncate=True):
    def pair_of(rotations):
        return rotary_dims * math.log(original / (2 * math.pi * rotations)) / (2 * math.log(base))

    low, high = pair_of(beta_fast), pair_of(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dims - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(len(inv), dtype=F32) - F32(low)) / F32(high - low), 0, 1)
    return inv / F32(factor) * ramp + inv * (F32(1) - ramp)


def yarn_attention_factor(factor, mscale=0.0, mscale_all_dim=0.0):
    def g(s):
        return 1.0 if factor <= 1 else 0.1 * s * math.log(factor) + 1

    return g(mscale) / g(mscale_all_dim) if mscale and mscale_all_dim else g(1.0)


def inv_freq_longrope(base, rotary_dims, factors):
    """factors: the config's short_factor or long_factor, one a pair.  They stretch the wave, and
    one is divided by that: dividing the frequency instead moved long_longrope by 7e-3."""
    wave = F32(base) ** (np.arange(0, rotary_dims, 2, dtype=F32) / F32(rotary_dims))
    return F32(1) / (np.asarray(factors, F32) * wave)


def longrope_attention_factor(max_positions, original):
    ratio = max_positions / original
    return 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(original))


def rope_table(positions, inv_freq, factor=1.0):
    """[n, rotary_dims]: cosines then sines.  The frequency is a float32 and the angle is one
    float32 product: that is the definition (2.1), not rounding."""
    angle = np.asarray(positions, F32)[:, None] * np.asarray(inv_freq, F32)
    angle = angle.astype(np.float64)
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1) * factor


def rope(x, cos_sin, n_heads, pairing="half_split", first=0):
    """Turns rotary_dims of every head, from `first` on; x: [n, n_heads * head_dim]"""
    n, rotary_dims = cos_sin.shape
    cos, sin = (part[:, None, :] for part in np.split(cos_sin, 2, axis=1))
    out = heads_of(x, n_heads).copy()
    turned = out[:, :, first : first + rotary_dims]
    if pairing == "half_split":
        a, b = turned[:, :, : rotary_dims // 2], turned[:, :, rotary_dims // 2 :]
    else:
        a, b = turned[:, :, 0::2], turned[:, :, 1::2]
    new_a, new_b = a * cos - b * sin, b * cos + a * sin
    a[...], b[...] = new_a, new_b
    return out.reshape(x.shape)


# ---- attention ---------------------------------------------------------------------------------


def stored_kv(x, kv_type, n_kv_heads):
    """What a page gives back of the rows [n, n_kv_heads * dim] put into it."""
    if kv_type == "f32":
        return np.asarray(x, np.float32).astype(np.float64)
    if kv_type == "f16":
        return np.asarray(x, np.float16).astype(np.float64)
    if kv_type == "bf16":
        from reference.tensors import from_bf16_bits, to_bf16_bits

        return from_bf16_bits(to_bf16_bits(x)).reshape(x.shape).astype(np.float64)
    assert kv_type == "q8"  # one scale a token and head
    return quantized_rows(x, x.shape[-1] // n_kv_heads) if x.size else x


def attention(q, k, v, positions, key_positions, n_heads, n_kv_heads, scale, window=0, softcap=0.0,
              sinks=None, selection=None):
    """One sequence.  q: [n, n_heads * head_dim], k, v: [m, n_kv_heads * dim] (2.3, 2.4).

    Row t sees the keys j with key_positions[j] <= positions[t] and, under a window, with
    positions[t] - key_positions[j] < window, and where selection [n, m] is given, true there.  A
    sink is one more logit a head, without value."""
    n, m = len(q), len(k)
    q = heads_of(q, n_heads)
    group = n_heads // n_kv_heads
    k = np.repeat(heads_of(k, n_kv_heads), group, axis=1)
    v = np.repeat(heads_of(v, n_kv_heads), group, axis=1)
    distance = np.asarray(positions)[:, None] - np.asarray(key_positions)[None, :]
    visible = distance >= 0
    if window > 0:
        visible &= distance < window
    if selection is not None:
        visible &= selection
    scores = np.matmul(q.transpose(1, 0, 2), k.transpose(1, 2, 0)) * scale  # [n_heads, n, m]
    if softcap > 0:
        scores = soft_cap(scores, softcap)
    scores = np.where(visible[None], scores, -np.inf)
    if sinks is not None:
        sink = np.broadcast_to(sinks[:, None, None], (n_heads, n, 1))
        scores = np.concatenate([scores, sink], axis=2)
    weights = softmax(scores)[:, :, :m]
    mixed = np.matmul(weights, v.transpose(1, 0, 2)).transpose(1, 0, 2)
    return mixed.reshape(n, n_heads * v.shape[2])


# ---- sampling ----------------------------------------------------------------------------------


def argmax(logits):
    """The lowest index of the largest value."""
    return int(np.argmax(logits))


def penalized(logits, prompt_seen, answer_counts, repeat_penalty=1.0, presence_penalty=0.0,
              frequency_penalty=0.0):
    """Repetition as Hugging Face (prompt and answer), presence and frequency as OpenAI (answer)."""
    seen = (np.asarray(prompt_seen) != 0) | (np.asarray(answer_counts) > 0)
    repeated = np.where(logits < 0, logits * repeat_penalty, logits / repeat_penalty)
    out = np.where(seen, repeated, logits)
    counts = np.asarray(answer_counts, np.float64)
    return out - frequency_penalty * counts - presence_penalty * (counts > 0)


def sampling_distribution(logits, temperature, top_k=0, top_p=1.0, min_p=0.0):
    """Probabilities, filters in Hugging Face's order: temperature, top_k, top_p, min_p.  Each
    looks at what the one before it left.  Ties at the k-th logit are all kept."""
    x = logits / temperature
    if 0 < top_k < len(x):
        x = np.where(x < np.sort(x)[-top_k], -np.inf, x)
    if top_p < 1:
        order = np.argsort(x, kind="stable")  # ascending
        below = np.cumsum(softmax(x)[order])
        drop = below <= 1 - top_p
        drop[-1] = False
        x[order[drop]] = -np.inf
    if min_p > 0:
        p = softmax(x)
        x = np.where(p < min_p * p.max(), -np.inf, x)
    return softmax(x)
