"""Values of quantised safetensors other than MLX's, as float32: FP8, GPTQ, AWQ, gpt-oss'
MXFP4 and compressed-tensors (formats.md 5 and 6), written from the specification.

Every function takes the stored tensors and gives float32 [.., outputs, inputs].  Scale and
code are float32, and so is their product: one rounding.
"""
import numpy as np

from reference import quant

E4M3 = quant.e4m3(np.arange(256)).astype(np.float32)  # 0x7f and 0xff are refused on load


def e8m0(b):
    return np.exp2(np.asarray(b, np.float64) - 127).astype(np.float32)


def fp8(weight, scale, block):
    """weight uint8 [.., M, N]; scale float32, one a rectangle of block = (rows, columns):
    [.., ceil(M / rows), ceil(N / columns)]."""
    m, n = weight.shape[-2:]
    row, col = np.arange(m) // block[0], np.arange(n) // block[1]
    return E4M3[weight] * scale[..., row[:, None], col[None, :]]


def stream(words, bits, n, axis):
    """The first n codes of the little-endian bit streams of 32-bit words along an axis."""
    words = np.moveaxis(np.asarray(words).view(np.uint32), axis, -1)
    raw = np.ascontiguousarray(words).view(np.uint8)
    ones = np.unpackbits(raw, axis=-1, bitorder="little")[..., : n * bits]
    codes = ones.reshape(*ones.shape[:-1], n, bits).astype(np.int64) @ (1 << np.arange(bits))
    return np.moveaxis(codes, -1, axis)


def padded(words, bits, n, axis):
    """The same where a word holds floor(32 / bits) whole codes and its top bits are empty."""
    words = np.moveaxis(np.asarray(words).view(np.uint32).astype(np.int64), axis, -1)
    shifts = bits * np.arange(32 // bits)
    codes = (words[..., None] >> shifts) & ((1 << bits) - 1)
    codes = codes.reshape(*codes.shape[:-2], -1)[..., :n]
    return np.moveaxis(codes, -1, axis)


def apply(codes, zeros, scales):
    """scale * (code - zero), the difference exact."""
    return scales.astype(np.float32) * (codes - zeros).astype(np.float32)


def gptq(qweight, qzeros, scales, bits, version, g_idx=None):
    """scales float32 [groups, out]; version 1 stores zeros less one, modulo 2^bits."""
    n_in, (n_groups, n_out) = qweight.shape[0] * 32 // bits, scales.shape
    codes = stream(qweight, bits, n_in, axis=0)  # [in, out]
    zeros = stream(qzeros, bits, n_out, axis=1)
    if version == 1:
        zeros = (zeros + 1) % (1 << bits)
    group = np.arange(n_in) // (n_in // n_groups) if g_idx is None else np.asarray(g_idx)
    return apply(codes, zeros[group], scales[group]).T


AWQ_COLUMN = [0, 2, 4, 6, 1, 3, 5, 7]  # of a word's nibbles, lowest first


def awq_columns(words):
    """int32 [rows, columns / 8] to codes [rows, columns]."""
    words = np.asarray(words).view(np.uint32).astype(np.int64)
    codes = np.empty((*words.shape, 8), np.int64)
    for nibble, column in enumerate(AWQ_COLUMN):
        codes[..., column] = (words >> (4 * nibble)) & 15
    return codes.reshape(words.shape[0], -1)


def awq(qweight, qzeros, scales):
    n_in, n_groups = qweight.shape[0], scales.shape[0]
    group = np.arange(n_in) // (n_in // n_groups)
    return apply(awq_columns(qweight), awq_columns(qzeros)[group], scales[group]).T


def mxfp4(blocks, scales):
    """blocks uint8 [.., in / 32, 16], low nibble the even element; scales uint8 [.., in / 32]."""
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    values = quant.E2M1[codes].astype(np.float32) * e8m0(scales)[..., None]
    return values.reshape(*values.shape[:-2], -1)


def compressed_int(codes, scales, zeros=None, g_idx=None):
    """Signed codes [.., out, in]; scales [.., out, groups]; zeros alike or absent (0)."""
    n_in, n_groups = codes.shape[-1], scales.shape[-1]
    group = np.arange(n_in) // (n_in // n_groups) if g_idx is None else np.asarray(g_idx)
    zeros = np.zeros(scales.shape, np.int64) if zeros is None else zeros
    return apply(codes, zeros[..., group], scales[..., group])


def compressed_packed(words, scales, bits, n_in, zeros=None, g_idx=None, unpack=stream):
    """weight_packed int32 [.., out, words]; zero points packed along the outputs."""
    middle = 1 << (bits - 1)
    codes = unpack(words, bits, n_in, axis=-1) - middle
    if zeros is not None:
        zeros = unpack(zeros, bits, words.shape[-2], axis=-2) - middle
    return compressed_int(codes, scales, zeros, g_idx)
