"""Multi-head latent attention and its sparse index (architectures.md 15, 16), expanded: every
head's keys and values are computed from the latent, as in training."""
import math

import numpy as np

from reference import rope
from reference.attention import attend

LATENT_EPS = 1e-6  # of the norms of the latents, whatever rms_norm_eps says (15)


def rope_slice(model, x, n_heads, positions, pairing):
    """Turns the whole of x: the slice of a head that carries the position."""
    table = rope.table(model, "full_attention", model.config["qk_rope_head_dim"], positions)
    return model.ops.rope(x, table, n_heads, pairing)


def softmax_scale(config):
    """head width ** -0.5, times g squared where yarn says mscale_all_dim (15)."""
    scale = (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]) ** -0.5
    scaling = rope.rope_of(config, "full_attention")
    every = scaling.get("mscale_all_dim") or 0.0
    if every and scaling.get("rope_type", scaling.get("type", "default")) == "yarn":
        g = 0.1 * every * math.log(scaling["factor"]) + 1 if scaling["factor"] > 1 else 1.0
        scale *= g * g
    return scale


def queries(model, x, p):
    """(all heads' queries, the latent they come from or None)"""
    if p + "q_proj.weight" in model.weights:
        return model.linear(x, p + "q_proj"), None
    latent = model.linear(x, p + "q_a_proj")
    latent = model.ops.rms_norm(latent, model.w(p + "q_a_layernorm.weight"), LATENT_EPS)
    return model.linear(latent, p + "q_b_proj"), latent


def attention(model, x, p, positions, selection=None):
    """One layer; returns (its output, the keys it chose), which a layer without an index of its
    own takes over as `selection`."""
    c, o = model.config, model.ops
    n, heads, nope, turned = len(x), c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    q, q_latent = queries(model, x, p)
    q = o.heads_of(q, heads)
    pairing = "interleaved" if c.get("rope_interleave", True) else "half_split"
    q_pe = rope_slice(model, q[:, :, nope:].reshape(n, -1), heads, positions, pairing)

    latent, k_pe = np.split(model.linear(x, p + "kv_a_proj_with_mqa"), [c["kv_lora_rank"]], axis=1)
    latent = o.rms_norm(latent, model.w(p + "kv_a_layernorm.weight"), LATENT_EPS)
    k_pe = rope_slice(model, k_pe, 1, positions, pairing)
    expanded = o.heads_of(model.linear(latent, p + "kv_b_proj"), heads)  # k_nope, then v

    q = np.concatenate([q[:, :, :nope], o.heads_of(q_pe, heads)], axis=2).reshape(n, -1)
    shared = np.broadcast_to(k_pe[:, None], (n, heads, turned))
    k = np.concatenate([expanded[:, :, :nope], shared], axis=2).reshape(n, -1)
    v = expanded[:, :, nope:].reshape(n, -1)
    if p + "indexer.wk.weight" in model.weights:
        selection = selected_keys(model, x, q_latent, p + "indexer.", positions)
    mixed = attend(model, q, k, v, positions, heads, heads, softmax_scale(c), selection=selection)
    return model.linear(mixed, p + "o_proj"), selection


def selected_keys(model, x, q_latent, p, positions):
    """[n, n] bool: the index_topk keys that each query may see (16)."""
    c, o = model.config, model.ops
    heads, dim, turned = c["index_n_heads"], c["index_head_dim"], c["qk_rope_head_dim"]
    pairing = "interleaved" if c["model_type"] == "glm_moe_dsa" else "half_split"
    q = model.linear(q_latent, p + "wq_b")
    k = o.layer_norm(model.linear(x, p + "wk"), model.w(p + "k_norm.weight"),
                     model.w(p + "k_norm.bias"), 1e-6)
    table = rope.table(model, "full_attention", turned, positions)
    q, k = o.rope(q, table, heads, pairing), o.rope(k, table, 1, pairing)
    weights = model.linear(x, p + "weights_proj") * heads**-0.5
    return o.select_keys(q, k, weights, positions, positions, heads, c["index_topk"], dim**-0.5)
