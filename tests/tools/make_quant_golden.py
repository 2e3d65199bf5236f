"""Writes tests/data/quant_golden.safetensors: groups of every quantised type and their values.

The expected values are not ours: PyPI gguf dequantises the ggml types and MLX's CPU build the
MLX ones.  q1_0, q2_0, q8_1 and q8_k, which gguf does not read, come from reference/quant.py,
which the specification's own vectors check (reference/test_quant.py).  Run by hand, since
MLX is large:  python -m tests.tools.make_quant_golden   (pip install gguf "mlx[cpu]")
"""
import pathlib

import gguf
import mlx.core as mx
import numpy as np

from reference import quant, tensors
from reference.random_groups import F16_FIELDS, random_groups

SEED = 20261130
OUT = pathlib.Path(__file__).parents[1] / "data" / "quant_golden.safetensors"
NOT_IN_GGUF = {"q1_0", "q2_0", "q8_1", "q8_k"}


def spec_groups(name):
    """The group of formats.md 10.1, None where the specification has none."""
    if name in ("q8_1", "q8_k"):
        return None
    k = np.arange(quant.TYPES[name][1])
    group = ((197 * k + 91) % 256).astype(np.uint8)
    fields = F16_FIELDS.get(name, [])
    for at, bits in zip(fields, [0x2000, 0xA400 if name in ("q4_1", "q5_1") else 0x2400]):
        group[at : at + 2] = [bits & 255, bits >> 8]
    if name == "mxfp4":
        group[0] = 120
    if name == "nvfp4":
        group[0:4] = [0x30, 0x38, 0x41, 0x07]
    if name == "iq1_m":
        group[[49, 51, 53]] &= 0x0F
        group[55] = (group[55] & 0x0F) | 0x20
    return group[None, :]


def witness(name, groups):
    if name in NOT_IN_GGUF:
        return quant.dequantize(name, groups).astype(np.float32)
    return gguf.quants.dequantize(groups, gguf.GGMLQuantizationType[name.upper()])


def ggml_cases(rng, out):
    for name, (elements, _, _) in quant.TYPES.items():
        cases = {"random": random_groups(rng, name, max(6, 2048 // elements))}
        if (spec := spec_groups(name)) is not None:
            cases["spec"] = spec
        for case, groups in cases.items():
            values = witness(name, groups).reshape(-1)
            assert np.isfinite(values).all(), name
            out[f"{name}.{case}.groups"] = groups.reshape(-1)
            out[f"{name}.{case}.values"] = values.astype(np.float32)


def as_stored(array):
    if array.dtype == mx.bfloat16:
        return tensors.Bf16(np.array(array.astype(mx.float32)))
    return np.array(array)


def mlx_affine_cases(rng, out):
    """Two rows; scales and biases in each float type; values are MLX's own in float32."""
    types = [(mx.float32, "f32"), (mx.float16, "f16"), (mx.bfloat16, "bf16")]
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            w = mx.array(rng.standard_normal((2, 256)).astype(np.float32))
            stored, type_name = types[(bits + group // 32) % 3]
            codes, scales, biases = mx.quantize(w, group_size=group, bits=bits)
            scales, biases = scales.astype(stored), biases.astype(stored)
            wide = [scales.astype(mx.float32), biases.astype(mx.float32)]
            values = mx.dequantize(codes, *wide, group_size=group, bits=bits)
            key = f"mlx_affine.b{bits}.g{group}.{type_name}"
            out[f"{key}.weight"] = np.array(codes)
            out[f"{key}.scales"], out[f"{key}.biases"] = as_stored(scales), as_stored(biases)
            out[f"{key}.values"] = np.array(values)


def mlx_fp_cases(rng, out):
    for mode, (bits, group) in quant.MLX_FP_MODES.items():
        w = mx.array(rng.standard_normal((3, 128)).astype(np.float32))
        codes, scales = mx.quantize(w, mode=mode, group_size=group, bits=bits)
        values = mx.dequantize(codes, scales, mode=mode, group_size=group, bits=bits,
                               dtype=mx.float32)
        out[f"mlx_{mode}.weight"], out[f"mlx_{mode}.scales"] = np.array(codes), np.array(scales)
        out[f"mlx_{mode}.values"] = np.array(values)


def main():
    rng = np.random.default_rng(SEED)
    out = {}
    ggml_cases(rng, out)
    mlx_affine_cases(rng, out)
    mlx_fp_cases(rng, out)
    tensors.save(OUT, out)
    print(f"seed {SEED}: {len(out)} tensors, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
