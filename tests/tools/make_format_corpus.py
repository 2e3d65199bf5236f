"""Writes the seed corpora of the loaders' fuzz targets: tests/corpus/{gguf,safetensors,shard_index}.

    pip install gguf safetensors numpy && python tests/tools/make_format_corpus.py
"""
import json
import pathlib
import struct

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus"
DATA = ROOT / "tests" / "data" / "formats"


def seed(target, name, data):
    path = CORPUS / target
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(data)


def safetensors(header, data=b"", pad=0):
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    seed("safetensors", "reference", (DATA / "reference.safetensors").read_bytes())
    seed("safetensors", "empty", safetensors({}))
    seed("safetensors", "padded", safetensors({"__metadata__": {"format": "pt"}}, pad=6))
    seed("safetensors", "scalar", safetensors({"s": entry("F32", [], 0, 4)}, bytes(4)))
    seed("safetensors", "zeros", safetensors(
        {"z": entry("F32", [0, 7], 0, 0), "y": entry("I8", [3], 0, 3)}, bytes(3)))
    seed("safetensors", "small_floats", safetensors(
        {"a": entry("F4", [2, 4], 0, 4), "b": entry("F6_E2M3", [4], 4, 7),
         "c": entry("F8_E8M0", [2], 7, 9)}, bytes(9)))
    seed("safetensors", "two", safetensors(
        {"model.layers.0.weight": entry("BF16", [2, 3], 0, 12),
         "model.norm": entry("F64", [2], 12, 28)}, bytes(28)))


def shard_index_seeds():
    two = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    seed("shard_index", "two", json.dumps(
        {"metadata": {"total_size": 8}, "weight_map": two}).encode())
    seed("shard_index", "single", json.dumps({"weight_map": {"a": "model.safetensors"}}).encode())
    seed("shard_index", "mlx", json.dumps(
        {"metadata": {"total_size": 8, "total_parameters": 2}, "weight_map": two},
        indent=4).encode())


def gguf_seed(name, fill, tensors, alignment=None):
    path = CORPUS / "gguf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "arch")
    if alignment:
        writer.add_custom_alignment(alignment)
    fill(writer)
    rng = np.random.default_rng(20261130)
    for tensor, rows, kind in tensors:
        quant = gguf.GGMLQuantizationType[kind]
        data = rng.integers(0, 120, (rows, gguf.GGML_QUANT_SIZES[quant][1]), dtype=np.uint8)
        writer.add_tensor(tensor, data, raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def whole_model(writer):
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_head_count(4)
    writer.add_head_count_kv([2, 2])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<s>", "a", "<0x0A>"])
    writer.add_token_types([3, 1, 6])
    writer.add_token_scores([0.0, -1.0, -2.0])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ x }}")


def gguf_seeds():
    seed("gguf", "reference", (DATA / "reference.gguf").read_bytes())
    gguf_seed("empty", lambda w: None, [])
    gguf_seed("model", whole_model, [("token_embd.weight", 3, "Q8_0"),
                                     ("blk.0.attn_q.weight", 2, "Q4_0"),
                                     ("blk.1.ffn_up.weight", 1, "MXFP4")])
    kinds = ["Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_XXS", "IQ2_XS",
             "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0",
             "NVFP4", "BF16", "F64", "I8"]
    gguf_seed("types", lambda w: None, [(f"t{i}", 1, k) for i, k in enumerate(kinds)])
    gguf_seed("aligned", lambda w: w.add_bool("b", True), [("a", 1, "F32"), ("b", 2, "F16")], 64)


safetensors_seeds()
shard_index_seeds()
gguf_seeds()
