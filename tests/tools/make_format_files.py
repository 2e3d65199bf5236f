"""Writes tests/data/formats: small files by the formats' own Python writers.

    pip install gguf safetensors numpy && python tests/tools/make_format_files.py
"""
import pathlib

import gguf
import numpy as np
import safetensors

OUT = pathlib.Path(__file__).parents[1] / "data" / "formats"

# safetensors' name of a type -> bytes of one element
DTYPES = {
    "bool": ("BOOL", 1), "uint8": ("U8", 1), "int8": ("I8", 1), "int16": ("I16", 2),
    "uint16": ("U16", 2), "float16": ("F16", 2), "bfloat16": ("BF16", 2),
    "int32": ("I32", 4), "uint32": ("U32", 4), "float32": ("F32", 4), "float64": ("F64", 8),
    "int64": ("I64", 8), "uint64": ("U64", 8), "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
}


def write_safetensors():
    tensors, alive = {}, []
    for dtype, (name, width) in DTYPES.items():
        data = np.array([(i + 1) % 2 for i in range(6 * width)], np.uint8)
        alive.append(data)
        tensors[name] = safetensors.TensorSpec(dtype=dtype, shape=[2, 3],
                                               data_ptr=data.ctypes.data, data_len=data.nbytes)
    (OUT / "reference.safetensors").write_bytes(
        safetensors.serialize(tensors, {"format": "pt"}))


def write_gguf():
    writer = gguf.GGUFWriter(OUT / "reference.gguf", "llama")
    writer.add_uint8("k.u8", 200)
    writer.add_int8("k.i8", -100)
    writer.add_uint16("k.u16", 60000)
    writer.add_int16("k.i16", -30000)
    writer.add_uint32("k.u32", 4000000000)
    writer.add_int32("k.i32", -2000000000)
    writer.add_float32("k.f32", 0.1)
    writer.add_bool("k.bool", True)
    writer.add_string("k.string", "h\u00e9llo")
    writer.add_uint64("k.u64", 2**64 - 1)
    writer.add_int64("k.i64", -2**63)
    writer.add_float64("k.f64", 0.1)
    writer.add_array("k.ints", [1, -2, 3])
    writer.add_array("k.floats", [0.5, -1.5])
    writer.add_array("k.strings", ["a", "", "c d"])
    writer.add_array("k.bools", [True, False])
    writer.add_block_count(2)
    rng = np.random.default_rng(20261130)
    for name, shape, kind in [
        ("token_embd.weight", (5, 256), "Q4_K"), ("blk.0.attn_q.weight", (3, 64), "Q8_0"),
        ("blk.1.ffn_up.weight", (2, 3, 32), "Q5_1"), ("output_norm.weight", (7,), "F32"),
        ("output.weight", (5, 4), "F16")]:
        quant = gguf.GGMLQuantizationType[kind]
        if kind == "Q4_K":
            data = rng.integers(0, 256, (5, 144), dtype=np.uint8)
        else:
            data = gguf.quants.quantize(rng.standard_normal(shape).astype(np.float32), quant)
        writer.add_tensor(name, data, raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


OUT.mkdir(parents=True, exist_ok=True)
write_safetensors()
write_gguf()
