"""A Hugging Face directory of one of the fixtures' families as a GGUF file.

    python -m tests.tools.to_gguf DIR OUT.gguf [--type q8_0]

Written from formats.md 2 and 2.8 and architectures.md (its tables of names): q and k rows
permuted for arch llama, 1 added to gemma3's norms, gpt2's matrices transposed, llama-3
frequencies as divisors.  Matrices keep the type they are stored in, or take --type where the
rows fit its groups (PyPI gguf quantises).  There is no tokenizer: the fixtures have none.
"""
import argparse
import json
import pathlib
import struct

import gguf
import numpy as np

from reference import ops, quant, tensors

ARCHITECTURES = {"gpt2": "gpt2", "llama": "llama", "mistral": "llama", "qwen2": "qwen2",
                 "qwen3": "qwen3", "gemma3_text": "gemma3"}

NAMES = {  # of everything outside the layers
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm",
}
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}
GEMMA3_LAYER_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def stored_types(path):
    """Tensor name to the dtype word of the safetensors header."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    return {name: entry["dtype"] for name, entry in header.items() if name != "__metadata__"}


def gguf_name(name, architecture):
    name = name.removeprefix("transformer.").removeprefix("model.")
    stem, kind = name.rsplit(".", 1)
    if stem in NAMES:
        return f"{NAMES[stem]}.{kind}"
    _, layer, stem = stem.split(".", 2)
    names = GEMMA3_LAYER_NAMES if architecture == "gemma3" else LAYER_NAMES
    return f"blk.{layer}.{names[stem]}.{kind}"


def permuted(rows, n_heads):
    """Rows of each head from half-split to interleaved order (architectures.md 4)."""
    dim = len(rows) // n_heads
    old = [h * dim + s * dim // 2 + i for h in range(n_heads) for i in range(dim // 2) for s in (0, 1)]
    return rows[old]


def metadata(writer, config, architecture):
    c = config
    if architecture == "gpt2":
        heads, width = c["n_head"], c["n_embd"]
        writer.add_context_length(c["n_positions"])
        writer.add_block_count(c["n_layer"])
        writer.add_feed_forward_length(c["n_inner"] or 4 * width)
        writer.add_layer_norm_eps(c["layer_norm_epsilon"])
    else:
        heads, width = c["num_attention_heads"], c["hidden_size"]
        head_dim = c.get("head_dim") or width // heads
        writer.add_context_length(c["max_position_embeddings"])
        writer.add_block_count(c["num_hidden_layers"])
        writer.add_feed_forward_length(c["intermediate_size"])
        writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
        writer.add_head_count_kv(c["num_key_value_heads"])
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
        rope = c["rope_parameters"]
        writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
        if architecture != "gemma3":
            writer.add_rope_dimension_count(head_dim)
        if c.get("sliding_window"):
            writer.add_sliding_window(c["sliding_window"])
        if architecture == "gemma3":
            writer.add_array("gemma3.attention.sliding_window_pattern",
                             [t == "sliding_attention" for t in c["layer_types"]])
    writer.add_embedding_length(width)
    writer.add_head_count(heads)
    writer.add_vocab_size(c["vocab_size"])


def rope_divisors(rope, head_dim):
    """What llama-3 scaling divides each frequency by."""
    inv = ops.inv_freq_default(rope["rope_theta"], head_dim)
    scaled = ops.inv_freq_llama3(inv, rope["factor"], rope["low_freq_factor"],
                                 rope["high_freq_factor"], rope["original_max_position_embeddings"])
    return (inv / scaled).astype(np.float32)


def stored_form(values, kind):
    """(array for the writer, its ggml type, its values as float64)"""
    kind = gguf.GGMLQuantizationType[kind.upper()]
    raw = gguf.quants.quantize(values, kind)
    return raw, kind, gguf.quants.dequantize(raw, kind).astype(np.float64)


def convert(directory, out, matrix_type=None):
    """Returns the weights by their Hugging Face names, in float64, as the file now has them, and
    the names of those that are quantised."""
    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    weights, _ = tensors.load(directory / "model.safetensors")
    types = stored_types(directory / "model.safetensors")
    writer = gguf.GGUFWriter(str(out), architecture)
    metadata(writer, config, architecture)
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_divisors(rope, config["head_dim"]))
    kept, quantised = {}, set()
    for name, value in weights.items():
        value = value.astype(np.float32)
        gemma_norm = architecture == "gemma3" and name.endswith("norm.weight")
        transpose = architecture == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        wanted = matrix_type or types[name].lower()
        if value.ndim < 2 or value.shape[1 - transpose] % quant.TYPES.get(wanted, (1,))[0]:
            wanted = "f32"
        raw, kind, exact = stored_form((value.T if transpose else value) + np.float32(gemma_norm), wanted)
        if wanted in quant.TYPES:
            quantised.add(name)
        kept[name] = (exact.T if transpose else exact) - float(gemma_norm)
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
            raw = permuted(raw, config[heads])
        writer.add_tensor(gguf_name(name, architecture), np.ascontiguousarray(raw), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return kept, quantised


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("out")
    parser.add_argument("--type", help="of matrices, as q8_0; default: as stored")
    args = parser.parse_args()
    convert(args.directory, args.out, args.type)


if __name__ == "__main__":
    main()
