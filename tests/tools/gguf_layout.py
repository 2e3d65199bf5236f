"""Where each value of a Hugging Face checkpoint stands in a GGUF file, a family at a time.

Written from architectures.md and architectures-more.md (their GGUF columns).  Every function
moves arrays about and does no arithmetic: given the values they make the tensors of the file,
given the numbers of the values they tell where each of them went.
"""
import re

import numpy as np

ARCHITECTURES = {
    "gpt2": "gpt2", "llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2",
    "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "gemma3_text": "gemma3", "gpt_oss": "gpt-oss",
    "glm4_moe": "glm4moe", "minimax_m2": "minimax-m2", "qwen3_next": "qwen3next",
    "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe", "deepseek_v3": "deepseek2",
    "deepseek_v32": "deepseek32", "glm_moe_dsa": "glm-dsa", "olmo3": "olmo2", "smollm3": "smollm3",
    "phi3": "phi3",
}
PERMUTED = {"llama", "smollm3"}  # rows of q and k (17)
TILED = {"qwen35", "qwen35moe"}  # value heads (11.3)

TOP = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
       "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.sinks": "attn_sinks.weight",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up",
    # gpt2
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    # experts
    "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "block_sparse_moe.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    # the gated delta rule
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias", "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
    # latent attention
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.k_b_proj": "attn_k_b",
    "self_attn.v_b_proj": "attn_v_b", "self_attn.indexer.wq_b": "indexer.attn_q_b",
    "self_attn.indexer.wk": "indexer.attn_k", "self_attn.indexer.k_norm": "indexer.k_norm",
    "self_attn.indexer.weights_proj": "indexer.proj",
    # the MTP head
    "eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm", "hnorm": "nextn.hnorm",
    "embed_tokens": "nextn.embed_tokens", "shared_head.norm": "nextn.shared_head_norm",
    "shared_head.head": "nextn.shared_head_head",
}
for _name in ("shared_expert", "shared_experts"):
    LAYER |= {f"mlp.{_name}.{p}_proj": f"ffn_{p}_shexp" for p in ("gate", "up", "down")}
# A name that means another place in some architectures (19.4; more 19).
PRE_FFN_POST_NORM = {"post_attention_layernorm": "post_attention_norm"}
OTHER = {
    "gemma3": {"post_attention_layernorm": "post_attention_norm",
               "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"},
    "olmo2": {"post_attention_layernorm": "post_attention_norm",
              "post_feedforward_layernorm": "post_ffw_norm"},
} | dict.fromkeys(["gpt-oss", "glm4moe", "qwen3next", "qwen35", "qwen35moe"], PRE_FFN_POST_NORM)

MTP = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm",
       "norm": "shared_head.norm"}


def short(name, config):
    """The checkpoint's name without prefix, an MTP head as one layer more."""
    for prefix in ("transformer.", "model.language_model.", "model."):
        name = name.removeprefix(prefix)
    if not name.startswith("mtp."):
        return name
    name = name.removeprefix("mtp.")
    if name.startswith("layers."):
        _, i, rest = name.split(".", 2)
        return f"layers.{config['num_hidden_layers'] + int(i)}.{rest}"
    stem, kind = name.rsplit(".", 1)
    return f"layers.{config['num_hidden_layers']}.{MTP[stem]}.{kind}"


def permuted(rows, n_heads):
    """Rows of each head from half-split to interleaved order (4)."""
    dim = len(rows) // n_heads
    return rows.reshape(n_heads, 2, dim // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def stacked_experts(layer):
    """Experts stored one by one, stacked; w1 is the gate, w3 up, w2 down."""
    parts = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}
    found = {}
    for name in list(layer):
        match = re.fullmatch(r"(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight", name)
        if match:
            found.setdefault(parts[match[2]], {})[int(match[1])] = layer.pop(name)
    return {f"ffn_{part}_exps.weight": np.stack([by[e] for e in sorted(by)]) for part, by in found.items()}


def fused_experts(layer):
    """gpt-oss (10): [in, out] with gate and up columns in turn, or 4-bit blocks of [out, in]
    (still uint8 [experts, out, in / 32, 16] and scales, which pack_mxfp4 makes one)."""
    out = {}
    for name in [n for n in layer if n.startswith("mlp.experts.")]:
        value, stem = layer.pop(name), name.removeprefix("mlp.experts.")
        kind = ".bias" if stem.endswith("_bias") else ".weight"
        suffix = next((s for s in ("_blocks", "_scales") if stem.endswith(s)), "")
        if kind == ".weight" and not suffix:
            value = value.swapaxes(1, 2)
        if stem.startswith("down_proj"):
            out[f"ffn_down_exps{kind}{suffix}"] = value
        else:
            out[f"ffn_gate_exps{kind}{suffix}"] = value[:, 0::2]
            out[f"ffn_up_exps{kind}{suffix}"] = value[:, 1::2]
    return out


def split_kv_b(layer, config):
    """Per head k_nope transposed, and v (15)."""
    name = "self_attn.kv_b_proj.weight"
    if name in layer:
        heads, nope = config["num_attention_heads"], config["qk_nope_head_dim"]
        rows = layer.pop(name)
        rows = rows.reshape(heads, -1, rows.shape[1])
        layer["self_attn.k_b_proj.weight"] = rows[:, :nope].swapaxes(1, 2)
        layer["self_attn.v_b_proj.weight"] = rows[:, nope:]


def tiled(rows, n_key_heads, n_value_heads):
    """Value heads from grouped by key head to tiled: g * r + s becomes s * n_key_heads + g."""
    r = n_value_heads // n_key_heads
    heads = rows.reshape(n_key_heads, r, len(rows) // n_value_heads, -1)
    return heads.swapaxes(0, 1).reshape(rows.shape)


def delta_rule(layer, config, architecture):
    """Convolution squeezed; qwen3next's qkvz taken apart; qwen35's value heads tiled (11.3)."""
    p = "linear_attn."
    if p + "conv1d.weight" not in layer:
        return
    key_heads, value_heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    keys, values = config["linear_key_head_dim"], config["linear_value_head_dim"]
    r = value_heads // key_heads
    layer[p + "conv1d.weight"] = layer[p + "conv1d.weight"][:, 0]
    if p + "in_proj_qkvz.weight" in layer:
        rows = layer.pop(p + "in_proj_qkvz.weight")
        by_head = rows.reshape(key_heads, -1, rows.shape[1])
        parts = np.split(by_head, np.cumsum([keys, keys, r * values]), axis=1)
        q, k, v, z = (part.reshape(-1, rows.shape[1]) for part in parts)
        layer[p + "in_proj_qkv.weight"], layer[p + "in_proj_z.weight"] = np.concatenate([q, k, v]), z
    if architecture not in TILED:
        return
    for name in ("in_proj_z.weight", "in_proj_b.weight", "in_proj_a.weight", "A_log", "dt_bias"):
        layer[p + name] = tiled(layer[p + name], key_heads, value_heads)
    for name in ("in_proj_qkv.weight", "conv1d.weight"):
        rows, at = layer[p + name], 2 * key_heads * keys
        layer[p + name] = np.concatenate([rows[:at], tiled(rows[at:], key_heads, value_heads)])
    layer[p + "out_proj.weight"] = tiled(layer[p + "out_proj.weight"].T, key_heads, value_heads).T


def layer_tensors(layer, config, architecture):
    """{name after blk.N.: array} of one layer's {name after layers.N.: array}."""
    names = LAYER | OTHER.get(architecture, {})
    split_kv_b(layer, config)
    delta_rule(layer, config, architecture)
    out = stacked_experts(layer) | fused_experts(layer)
    for name, value in layer.items():
        if name in names:  # has no .weight of its own
            out[names[name]] = value
            continue
        stem, kind = name.rsplit(".", 1)
        if architecture in PERMUTED and stem in ("self_attn.q_proj", "self_attn.k_proj"):
            value = permuted(value, config[
                "num_attention_heads" if stem == "self_attn.q_proj" else "num_key_value_heads"])
        if architecture == "gpt2" and value.ndim == 2:
            value = value.T
        if stem == "mlp.shared_expert_gate":
            value = value[0]
        out[f"{names[stem]}.{kind}"] = value
    return out


def laid_out(config, arrays):
    """{GGUF name: array} of {Hugging Face name: array}."""
    architecture = ARCHITECTURES[config["model_type"]]
    out, layers = {}, {}
    for name, value in arrays.items():
        name = short(name, config)
        match = re.match(r"(?:layers|h)\.(\d+)\.(.*)", name)
        if match:
            layers.setdefault(int(match[1]), {})[match[2]] = value
        else:
            stem, kind = name.rsplit(".", 1)
            out[f"{TOP[stem]}.{kind}"] = value
    for i, layer in layers.items():
        out |= {f"blk.{i}.{name}": value for name, value in layer_tensors(layer, config, architecture).items()}
    return out
