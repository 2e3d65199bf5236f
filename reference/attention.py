"""Softmax attention over every key before a token, or those in a window (architectures.md 2.3,
2.4; 4 to 11.4; architectures-more.md 3 to 6)."""
import numpy as np

from reference import rope

# q_norm and k_norm over all heads at once, not one by one (architectures-more.md 2.2).
NORM_OVER_HEADS = {"olmo3", "minimax_m2"}
# Half of q_proj is a gate on what comes out (architectures.md 11.4).
GATED = {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}
QUERIES_AT_ONCE = 256  # bounds the memory of long prompts, nothing else


def layer_types(config):
    """What each layer mixes tokens by: layer_types, or each family's older keys."""
    n, kind = config["num_hidden_layers"], config["model_type"]
    if config.get("layer_types"):
        return config["layer_types"]
    if kind in GATED:
        interval = config.get("full_attention_interval", 4)
        return ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(n)]
    sliding = [False] * n
    if kind in ("mistral", "mixtral", "phi3"):
        sliding = [config.get("sliding_window") is not None] * n
    elif kind == "gemma3_text":
        pattern = config.get("sliding_window_pattern", 6)
        sliding = [(i + 1) % pattern != 0 for i in range(n)]
    elif kind == "gpt_oss":
        sliding = [i % 2 == 0 for i in range(n)]
    elif kind == "olmo3":
        sliding = [(i + 1) % 4 != 0 for i in range(n)]
    elif config.get("use_sliding_window"):
        first = config.get("max_window_layers", 28)
        sliding = [not rotates(config, i) if kind == "smollm3" else i >= first for i in range(n)]
    return ["sliding_attention" if s else "full_attention" for s in sliding]


def rotates(config, i):
    """smollm3 leaves some layers without position: 1 turns, 0 does not (architectures-more.md 6)."""
    if config["model_type"] != "smollm3":
        return True
    if config.get("no_rope_layers") is not None:
        return bool(config["no_rope_layers"][i])
    return (i + 1) % config.get("no_rope_layer_interval", 4) != 0


def heads_of(config):
    """(n_heads, n_kv_heads, head_dim)"""
    n = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // n
    return n, config.get("num_key_value_heads") or n, head_dim


def projections(model, x, p):
    """q, k and v; phi3 keeps their rows in one matrix."""
    if p + "qkv_proj.weight" not in model.weights:
        return [model.linear(x, p + name) for name in ("q_proj", "k_proj", "v_proj")]
    heads, kv_heads, head_dim = heads_of(model.config)
    ends = np.cumsum([heads, kv_heads]) * head_dim
    return np.split(model.linear(x, p + "qkv_proj"), ends, axis=1)


def normed(model, x, n_heads, name):
    """RMSNorm of queries or keys, where the family has one."""
    if name not in model.weights:
        return x
    weight, eps = model.norm_weight(model.w(name)), model.config["rms_norm_eps"]
    if model.config["model_type"] in NORM_OVER_HEADS:
        return model.ops.rms_norm(x, weight, eps)
    return model.ops.head_rms_norm(x, n_heads, weight, eps)


def attend(model, q, k, v, positions, *rest, selection=None, **more):
    """ops.attention, some rows of queries at a time, without keys that come after all of them."""
    out = []
    for at in range(0, len(q), QUERIES_AT_ONCE):
        rows, seen = slice(at, at + QUERIES_AT_ONCE), slice(at + QUERIES_AT_ONCE)
        some = {} if selection is None else {"selection": selection[rows, seen]}
        out.append(model.ops.attention(q[rows], k[seen], v[seen], positions[rows], positions[seen],
                                       *rest, **some, **more))
    return np.concatenate(out)


def attention(model, x, p, layer_type, positions, turn=True):
    """The attention of one layer, p the prefix of its weights."""
    c, o = model.config, model.ops
    heads, kv_heads, head_dim = heads_of(c)
    q, k, v = projections(model, x, p)
    if c["model_type"] in GATED:  # a head's rows: its query, then its gate
        q, gate = (part.reshape(len(x), -1) for part in np.split(o.heads_of(q, heads), 2, axis=2))
    q = normed(model, q, heads, p + "q_norm.weight")
    k = normed(model, k, kv_heads, p + "k_norm.weight")
    if turn:
        table = rope.table(model, layer_type, head_dim, positions)
        q, k = o.rope(q, table, heads), o.rope(k, table, kv_heads)
    scale = (c.get("query_pre_attn_scalar") or head_dim) ** -0.5
    window = c["sliding_window"] if layer_type == "sliding_attention" else 0
    mixed = attend(model, q, k, v, positions, heads, kv_heads, scale, window,
                   c.get("attn_logit_softcapping") or 0.0, model.weights.get(p + "sinks"))
    if c["model_type"] in GATED:
        mixed = o.multiply_activation(mixed, gate, "sigmoid")
    return model.linear(mixed, p + "o_proj")
