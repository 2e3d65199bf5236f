"""Values of quantised weights, in float64: ggml types, MLX affine and MLX's fp modes.

Each function is the element formula of the format with `i`, the element's number inside its
group, as an array: groups come in as uint8 [n_groups, group_bytes] and go out as float64
[n_groups, group_elements].  Every value is exact in float64, so `.astype(float32)` rounds once.
"""
import numpy as np

from reference import codebooks

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
IQ4_CODES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])


def f16(raw):
    """uint8 [..., 2] little-endian to float64 [...]."""
    return np.ascontiguousarray(raw).view("<f2")[..., 0].astype(np.float64)


def u16(raw):
    return np.ascontiguousarray(raw).view("<u2").astype(np.int64)


def u32(raw):
    return np.ascontiguousarray(raw).view("<u4").astype(np.int64)


def i8(raw):
    return np.ascontiguousarray(raw).view(np.int8).astype(np.int64)


def nibbles(qs):
    """32 codes of 16 bytes: the low nibbles are the first half, the high ones the second."""
    return np.concatenate([qs & 15, qs >> 4], axis=1).astype(np.int64)


def column(scale):
    return scale[:, None]


def e8m0(e):
    return np.exp2(e.astype(np.float64) - 127)


def ue4m3(b):
    """Unsigned E4M3: bit 7 ignored, 0x7f reads as zero."""
    b = b.astype(np.int64) & 127
    exponent, m = b >> 3, b & 7
    value = np.where(exponent == 0, m * 2.0**-9, (1 + m / 8) * np.exp2(exponent - 7.0))
    return np.where(b == 0x7F, 0.0, value)


# ---- groups of 32, 64 and 128 --------------------------------------------------------------


def q4_0(g):
    return column(f16(g[:, 0:2])) * (nibbles(g[:, 2:18]) - 8)


def q4_1(g):
    return column(f16(g[:, 0:2])) * nibbles(g[:, 4:20]) + column(f16(g[:, 2:4]))


def five_bits(qh, qs):
    i = np.arange(32)
    return nibbles(qs) + 16 * ((u32(qh) >> i) & 1)


def q5_0(g):
    return column(f16(g[:, 0:2])) * (five_bits(g[:, 2:6], g[:, 6:22]) - 16)


def q5_1(g):
    return column(f16(g[:, 0:2])) * five_bits(g[:, 4:8], g[:, 8:24]) + column(f16(g[:, 2:4]))


def q8_0(g):
    return column(f16(g[:, 0:2])) * i8(g[:, 2:34])


def q8_1(g):
    return column(f16(g[:, 0:2])) * i8(g[:, 4:36])


def iq4_nl(g):
    return column(f16(g[:, 0:2])) * IQ4_CODES[nibbles(g[:, 2:18])]


def mxfp4(g):
    return column(e8m0(g[:, 0])) * E2M1[nibbles(g[:, 1:17])]


def nvfp4(g):
    i = np.arange(64)
    s, r = i // 16, i % 16
    byte = g[:, 4 + 8 * s + r % 8]
    code = np.where(r < 8, byte & 15, byte >> 4)
    return ue4m3(g[:, 0:4])[:, s] * E2M1[code]


def q1_0(g):
    i = np.arange(128)
    bit = (g[:, 2 + i // 8] >> (i % 8)) & 1
    return column(f16(g[:, 0:2])) * np.where(bit, 1, -1)


def q2_0(g):
    i = np.arange(64)
    code = (g[:, 2 + i // 4].astype(np.int64) >> (2 * (i % 4))) & 3
    return column(f16(g[:, 0:2])) * (code - 1)


# ---- groups of 256 ---------------------------------------------------------------------------

I = np.arange(256)
N, S, L = I // 128, (I % 128) // 32, I % 32  # half, quarter of the half, place in it


def two_bits(qs):
    return (qs[:, 32 * N + L].astype(np.int64) >> (2 * S)) & 3


def q2_k(g):
    scales, qs = g[:, 0:16].astype(np.int64), g[:, 16:80]
    d, dmin = f16(g[:, 80:82]), f16(g[:, 82:84])
    sc = scales[:, I // 16]
    return column(d) * (sc & 15) * two_bits(qs) - column(dmin) * (sc >> 4)


def q3_k(g):
    hmask, qs, scales, d = g[:, 0:32], g[:, 32:96], g[:, 96:108].astype(np.int64), f16(g[:, 108:110])
    high = (hmask[:, L].astype(np.int64) >> (4 * N + S)) & 1
    u = np.arange(16)
    lo = np.where(u < 8, scales[:, u % 8] & 15, scales[:, u % 8] >> 4)
    hi = (scales[:, 8 + u % 4] >> (2 * (u // 4))) & 3
    scale = lo + 16 * hi - 32
    return column(d) * scale[:, I // 16] * (two_bits(qs) - np.where(high, 0, 4))


def scales_and_minima(p):
    """Eight six-bit scales and eight six-bit minima of the 12 bytes of q4_k and q5_k."""
    p = p.astype(np.int64)
    sc = np.concatenate([p[:, 0:4] & 63, (p[:, 8:12] & 15) + 16 * (p[:, 0:4] >> 6)], axis=1)
    mn = np.concatenate([p[:, 4:8] & 63, (p[:, 8:12] >> 4) + 16 * (p[:, 4:8] >> 6)], axis=1)
    return sc, mn


def k_codes(qs):
    c, r = I // 64, I % 64
    byte = qs[:, 32 * c + r % 32].astype(np.int64)
    return np.where(r < 32, byte & 15, byte >> 4)


def k_values(g, codes):
    sc, mn = scales_and_minima(g[:, 4:16])
    j = I // 32
    return column(f16(g[:, 0:2])) * sc[:, j] * codes - column(f16(g[:, 2:4])) * mn[:, j]


def q4_k(g):
    return k_values(g, k_codes(g[:, 16:144]))


def q5_k(g):
    high = (g[:, 16:48][:, I % 32].astype(np.int64) >> (I // 32)) & 1
    return k_values(g, k_codes(g[:, 48:176]) + 16 * high)


def q6_k(g):
    ql, qh, scales, d = g[:, 0:128], g[:, 128:192], i8(g[:, 192:208]), f16(g[:, 208:210])
    byte = ql[:, 64 * N + 32 * (S & 1) + L].astype(np.int64)
    lo = np.where(S < 2, byte & 15, byte >> 4)
    hi = (qh[:, 32 * N + L].astype(np.int64) >> (2 * S)) & 3
    return column(d) * scales[:, I // 16] * (lo + 16 * hi - 32)


def q8_k(g):
    d = np.ascontiguousarray(g[:, 0:4]).view("<f4").astype(np.float64)
    return d * i8(g[:, 4:260])


def tq2_0(g):
    return column(f16(g[:, 64:66])) * (two_bits(g[:, 0:64]) - 1)


def tq1_0(g):
    where = np.where(I < 160, I % 32, np.where(I < 240, 32 + (I - 160) % 16, 48 + (I - 240) % 4))
    digit = np.where(I < 160, I // 32, np.where(I < 240, (I - 160) // 16, (I - 240) // 4))
    byte = g[:, where].astype(np.int64)
    code = (((byte * 3**digit) % 256) * 3) >> 8
    return column(f16(g[:, 52:54])) * (code - 1)


def iq4_xs(g):
    scales_h, scales_l = u16(g[:, 2:4]), g[:, 4:8].astype(np.int64)
    u = I // 32
    ls = ((scales_l[:, u // 2] >> (4 * (u % 2))) & 15) + 16 * ((scales_h >> (2 * u)) & 3)
    r = I % 32
    byte = g[:, 8 + 16 * u + r % 16].astype(np.int64)
    code = np.where(r < 16, byte & 15, byte >> 4)
    return column(f16(g[:, 0:2])) * (ls - 32) * IQ4_CODES[code]


# ---- codebook types: u = run of 32, l = run of 8 inside it, j = element of that run ------------

U, LL, J = I // 32, (I % 32) // 8, I % 8


def sign_of(byte):
    return np.where((byte >> J) & 1, -1, 1)


def nibble_by_half(scales):
    return np.where(LL < 2, scales[:, U] & 15, scales[:, U] >> 4).astype(np.int64)


def iq2_xxs(g):
    words = g[:, 2:66].reshape(-1, 8, 8)
    index = words[:, :, 0:4].astype(np.int64)
    a = u32(words[:, :, 4:8])[:, :, 0]
    sign = sign_of(codebooks.ksigns[(a[:, U] >> (7 * LL)) & 127])
    grid = codebooks.iq2xxs[index[:, U, LL], J]
    return column(f16(g[:, 0:2])) * (0.5 + (a[:, U] >> 28)) * 0.25 * grid * sign


def iq2_xs(g):
    q = u16(g[:, 2:66])[:, 4 * U + LL]
    grid, sign = codebooks.iq2xs[q & 511, J], sign_of(codebooks.ksigns[q >> 9])
    return column(f16(g[:, 0:2])) * (0.5 + nibble_by_half(g[:, 66:74])) * 0.25 * grid * sign


def iq2_s(g):
    low, signs = g[:, 2:34].astype(np.int64), g[:, 34:66].astype(np.int64)
    qh = g[:, 66:74].astype(np.int64)
    index = low[:, 4 * U + LL] + 256 * ((qh[:, U] >> (2 * LL)) & 3)
    grid, sign = codebooks.iq2s[index, J], sign_of(signs[:, 4 * U + LL])
    return column(f16(g[:, 0:2])) * (0.5 + nibble_by_half(g[:, 74:82])) * 0.25 * grid * sign


def iq3_xxs(g):
    index, a = g[:, 2:66].astype(np.int64), u32(g[:, 66:98])
    grid = codebooks.iq3xxs[index[:, 8 * U + 2 * LL + J // 4], J % 4]
    sign = sign_of(codebooks.ksigns[(a[:, U] >> (7 * LL)) & 127])
    return column(f16(g[:, 0:2])) * (0.5 + (a[:, U] >> 28)) * 0.5 * grid * sign


def iq3_s(g):
    low, qh = g[:, 2:66].astype(np.int64), g[:, 66:74].astype(np.int64)
    signs, scales = g[:, 74:106].astype(np.int64), g[:, 106:110].astype(np.int64)
    k = 2 * LL + J // 4
    index = low[:, 8 * U + k] + 256 * ((qh[:, U] >> k) & 1)
    nibble = np.where(U % 2 == 0, scales[:, U // 2] & 15, scales[:, U // 2] >> 4)
    grid = codebooks.iq3s[index, J % 4]
    return column(f16(g[:, 0:2])) * (1 + 2 * nibble) * grid * sign_of(signs[:, 4 * U + LL])


def iq1_s(g):
    low, h = g[:, 2:34].astype(np.int64), u16(g[:, 34:50])[:, U]
    index = low[:, 4 * U + LL] + 256 * ((h >> (3 * LL)) & 7)
    delta = np.where(h & 0x8000, -0.125, 0.125)
    return column(f16(g[:, 0:2])) * (2 * ((h >> 12) & 7) + 1) * (codebooks.iq1s[index, J] + delta)


def iq1_m(g):
    low, qh, scales = g[:, 0:32].astype(np.int64), g[:, 32:48].astype(np.int64), u16(g[:, 48:56])
    d_bits = sum((scales[:, k] >> 12) << (4 * k) for k in range(4))
    d = d_bits.astype("<u2").view("<f2").astype(np.float64)
    hb = (qh[:, 2 * U + LL // 2] >> (4 * (LL % 2))) & 15
    index = low[:, 4 * U + LL] + 256 * (hb & 7)
    v = (scales[:, U // 2] >> (6 * (U % 2) + 3 * (LL // 2))) & 7
    delta = np.where(hb & 8, -0.125, 0.125)
    return column(d) * (2 * v + 1) * (codebooks.iq1s[index, J] + delta)


# name: (group_elements, group_bytes, values)
TYPES = {
    "q4_0": (32, 18, q4_0), "q4_1": (32, 20, q4_1), "q5_0": (32, 22, q5_0),
    "q5_1": (32, 24, q5_1), "q8_0": (32, 34, q8_0), "q8_1": (32, 36, q8_1),
    "q2_k": (256, 84, q2_k), "q3_k": (256, 110, q3_k), "q4_k": (256, 144, q4_k),
    "q5_k": (256, 176, q5_k), "q6_k": (256, 210, q6_k), "q8_k": (256, 292, q8_k),
    "iq2_xxs": (256, 66, iq2_xxs), "iq2_xs": (256, 74, iq2_xs), "iq2_s": (256, 82, iq2_s),
    "iq3_xxs": (256, 98, iq3_xxs), "iq3_s": (256, 110, iq3_s),
    "iq1_s": (256, 50, iq1_s), "iq1_m": (256, 56, iq1_m),
    "iq4_nl": (32, 18, iq4_nl), "iq4_xs": (256, 136, iq4_xs),
    "tq1_0": (256, 54, tq1_0), "tq2_0": (256, 66, tq2_0),
    "mxfp4": (32, 17, mxfp4), "nvfp4": (64, 36, nvfp4),
    "q1_0": (128, 18, q1_0), "q2_0": (64, 18, q2_0),
}


def dequantize(name, raw):
    """uint8 [..., row_bytes] to float64 [..., row_elements]."""
    elements, group_bytes, values = TYPES[name]
    raw = np.asarray(raw, dtype=np.uint8)
    groups = raw.reshape(-1, group_bytes)
    return values(groups).reshape(*raw.shape[:-1], raw.shape[-1] // group_bytes * elements)


# ---- MLX ---------------------------------------------------------------------------------------


def mlx_codes(weight, bits):
    """uint32 [rows, words] to int64 [rows, words * 32 / bits]: one little-endian bit stream."""
    stream = np.unpackbits(np.ascontiguousarray(weight).view(np.uint8), axis=-1, bitorder="little")
    return stream.reshape(weight.shape[0], -1, bits).astype(np.int64) @ (1 << np.arange(bits))


def mlx_affine(weight, scales, biases, bits, group):
    """scale * code + bias; scales and biases [rows, cols / group], any float type."""
    codes = mlx_codes(weight, bits)
    s = np.repeat(np.asarray(scales, np.float64), group, axis=-1)
    return s * codes + np.repeat(np.asarray(biases, np.float64), group, axis=-1)


MLX_FP_MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}  # bits, group


def e4m3(b):
    """0x7f and 0xff, NaN in the format, are refused by the loaders."""
    b = b.astype(np.int64)
    exponent, m = (b >> 3) & 15, b & 7
    value = np.where(exponent == 0, m * 2.0**-9, (1 + m / 8) * np.exp2(exponent - 7.0))
    return np.where(b & 128, -value, value)


def mlx_fp(mode, weight, scales):
    """scales: uint8 [rows, cols / group], E8M0 (mx modes) or E4M3 (nvfp4)."""
    bits, group = MLX_FP_MODES[mode]
    codes = mlx_codes(weight, bits)
    values = E2M1[codes] if bits == 4 else e4m3(codes)
    return np.repeat(e4m3(scales) if mode == "nvfp4" else e8m0(scales), group, axis=-1) * values


# ---- gpt-oss -----------------------------------------------------------------------------------


def mxfp4_blocks(blocks, scales):
    """[..., rows, cols]: blocks uint8 [..., rows, cols / 32, 16] hold value 2j in the low half of
    byte j and 2j + 1 in the high one; scales uint8 [..., rows, cols / 32] (architectures.md 10)."""
    blocks = np.asarray(blocks).astype(np.uint8)
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    values = E2M1[codes] * e8m0(np.asarray(scales))[..., None]
    return values.reshape(*blocks.shape[:-2], -1)
