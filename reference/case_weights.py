"""Random weights of every kind that a checkpoint may store, with their exact values."""
import numpy as np

from reference import quant, tensors
from reference.random_groups import random_groups

FLOATS = ["f32", "f16", "bf16"]
GGML = [name for name in quant.TYPES if name not in ("q8_1", "q8_k")]
AFFINE = [(2, 32), (3, 64), (4, 32), (4, 64), (4, 128), (5, 32), (6, 64), (8, 32), (8, 128)]
AFFINE_NAMES = {f"affine_b{bits}_g{group}": (bits, group) for bits, group in AFFINE}

# "mxfp4" names both a ggml type and an MLX mode: the MLX ones are called mlx_MODE here.
KINDS = FLOATS + GGML + list(AFFINE_NAMES) + [f"mlx_{mode}" for mode in quant.MLX_FP_MODES]
# Columns come in multiples of this; float kinds take any number.
GROUP = {name: quant.TYPES[name][0] for name in GGML}
GROUP |= {name: max(group, 32) for name, (_, group) in AFFINE_NAMES.items()}
GROUP |= {f"mlx_{mode}": 32 for mode in quant.MLX_FP_MODES}


def make(rng, kind, n_rows, n_cols):
    """(stored tensors, float64 [n_rows, n_cols], parameters of the case)

    Stored: `w` as F32, F16 or BF16 [n_rows, n_cols]; as U8 [n_rows, row_bytes] for a ggml type;
    as U32 with `w_scales` and (affine) `w_biases` for an MLX one."""
    if kind in FLOATS:
        return make_float(rng, kind, n_rows, n_cols)
    if kind in GGML:
        elements, group_bytes, _ = quant.TYPES[kind]
        groups = random_groups(rng, kind, n_rows * n_cols // elements, awkward=False)
        raw = groups.reshape(n_rows, n_cols // elements * group_bytes)
        params = {"dtype": kind, "n_rows": n_rows, "n_cols": n_cols}
        return {"w": raw}, quant.dequantize(kind, raw), params
    if kind in AFFINE_NAMES:
        return make_affine(rng, *AFFINE_NAMES[kind], n_rows, n_cols)
    return make_fp(rng, kind.removeprefix("mlx_"), n_rows, n_cols)


def make_float(rng, kind, n_rows, n_cols):
    w = rng.standard_normal((n_rows, n_cols)).astype(np.float32)
    params = {"dtype": kind, "n_rows": n_rows, "n_cols": n_cols}
    if kind == "f32":
        return {"w": w}, w.astype(np.float64), params
    if kind == "f16":
        w = w.astype(np.float16)
        return {"w": w}, w.astype(np.float64), params
    stored = tensors.Bf16(w)
    return {"w": stored}, tensors.from_bf16_bits(stored.bits).astype(np.float64), params


def random_words(rng, n_rows, n_cols, bits):
    return rng.integers(0, 2**32, (n_rows, n_cols * bits // 32), dtype=np.uint32)


def make_affine(rng, bits, group, n_rows, n_cols):
    """Scales of either sign; biases that put zero near the middle of the codes."""
    words = random_words(rng, n_rows, n_cols, bits)
    scales = (rng.standard_normal((n_rows, n_cols // group)) / 2**bits).astype(np.float16)
    biases = (-scales.astype(np.float64) * (2 ** (bits - 1) - 0.4)).astype(np.float16)
    values = quant.mlx_affine(words, scales, biases, bits, group)
    params = {"dtype": "affine", "bits": bits, "group_size": group, "n_rows": n_rows, "n_cols": n_cols}
    if bits % 2:
        wide = {"w_scales": scales.astype(np.float32), "w_biases": biases.astype(np.float32)}
        return {"w": words, **wide}, values, params
    return {"w": words, "w_scales": scales, "w_biases": biases}, values, params


def make_fp(rng, mode, n_rows, n_cols):
    bits, group = quant.MLX_FP_MODES[mode]
    words = random_words(rng, n_rows, n_cols, bits)
    if mode == "mxfp8":  # 0x7f and 0xff are NaN: no code may have all of its low seven bits set
        raw = words.view(np.uint8)
        raw[(raw & 127) == 127] ^= 1
    low, high = (0x20, 0x40) if mode == "nvfp4" else (116, 126)
    scales = rng.integers(low, high, (n_rows, n_cols // group), dtype=np.uint8)
    params = {"dtype": "mlx_" + mode, "bits": bits, "group_size": group, "n_rows": n_rows, "n_cols": n_cols}
    return {"w": words, "w_scales": scales}, quant.mlx_fp(mode, words, scales), params
