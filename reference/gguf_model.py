"""A GGUF file to the NumPy reference: for real models, whose weights are in no other form here.

llama, qwen2, qwen3 and gemma3.  PyPI gguf reads the container; values come from quant.py.
"""
import gguf
import numpy as np

from reference import quant
from reference.model import Model

MODEL_TYPES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text"}
TOP = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GEMMA3_LAYER = LAYER | {
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def config_of(fields, architecture, tied):
    """config.json as transformers 4 would have written it."""
    def get(key, otherwise=None):
        return fields.get(f"{architecture}.{key}", otherwise)

    heads, width = get("attention.head_count"), get("embedding_length")
    head_dim = get("attention.key_length", width // heads)
    config = {
        "model_type": MODEL_TYPES[architecture], "hidden_size": width,
        "num_hidden_layers": get("block_count"), "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv", heads), "head_dim": head_dim,
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"),
        "rope_theta": get("rope.freq_base", 10000.0), "tie_word_embeddings": tied,
        "max_position_embeddings": get("context_length"),
        "sliding_window": get("attention.sliding_window"),
    }
    if architecture == "gemma3":
        config |= {"rope_local_base_freq": 10000.0, "query_pre_attn_scalar": head_dim,
                   "rope_theta": get("rope.freq_base", 1000000.0)}
        local = get("attention.sliding_window_pattern")
        if isinstance(local, list):
            config["layer_types"] = ["sliding_attention" if s else "full_attention" for s in local]
    elif config["sliding_window"]:
        config["layer_types"] = ["sliding_attention"] * config["num_hidden_layers"]
    return config


def half_split_rows(rows, n_heads):
    """Rows of each head from interleaved order back to halves (architectures.md 4)."""
    dim = len(rows) // n_heads
    return rows.reshape(n_heads, dim // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def values_of(tensor):
    """float64, in the row-major shape."""
    kind = tensor.tensor_type.name.lower()
    shape = [int(n) for n in tensor.shape[::-1]]
    if kind in quant.TYPES:
        return quant.dequantize(kind, tensor.data.reshape(-1, tensor.data.shape[-1])).reshape(shape)
    if kind == "bf16":
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float64)
    return np.asarray(tensor.data, np.float64).reshape(shape)


def load(path):
    reader = gguf.GGUFReader(str(path))
    fields = {key: field.contents() for key, field in reader.fields.items()
              if field.data and not key.startswith("tokenizer.")}
    architecture = fields["general.architecture"]
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    config = config_of(fields, architecture, tied)
    weights = {}
    for tensor in reader.tensors:
        values = values_of(tensor)
        if tensor.name == "rope_freqs.weight":
            raise ValueError(f"{path}: rope_freqs has no reference here")
        stem, kind = tensor.name.rsplit(".", 1)
        if not stem.startswith("blk."):
            name = f"{TOP[stem]}.{kind}"
        else:
            _, layer, part = stem.split(".", 2)
            name = f"layers.{layer}.{(GEMMA3_LAYER if architecture == 'gemma3' else LAYER)[part]}.{kind}"
            if architecture == "llama" and part in ("attn_q", "attn_k"):
                heads = "num_attention_heads" if part == "attn_q" else "num_key_value_heads"
                values = half_split_rows(values, config[heads])
        if architecture == "gemma3" and name.endswith("norm.weight"):
            values = values - 1
        weights[name] = values
    return Model.of(config, weights)
