"""Which frequencies a layer turns its queries and keys by (architectures.md 1.4, 2.1, 2.2)."""
import numpy as np

# Of a head, where the config names none (architectures.md 11.1, architectures-more.md 3).
PARTIAL = {"glm4_moe": 0.5, "qwen3_next": 0.25, "qwen3_5_text": 0.25, "qwen3_5_moe_text": 0.25}


def rope_of(config, layer_type):
    """Base and scaling of a layer, from the shapes in which configs store them (1.4)."""
    rope = config.get("rope_parameters") or {}
    if layer_type in rope:
        rope = rope[layer_type]
    if not rope:  # transformers 4 wrote these at the top
        plain = {"rope_theta": config.get("rope_theta", 10000.0)}
        if layer_type == "sliding_attention" and "rope_local_base_freq" in config:
            return {"rope_theta": config["rope_local_base_freq"]}
        if layer_type == "sliding_attention" and config["model_type"] == "olmo3":
            return plain  # scaling is for its full layers (architectures-more.md 5)
        rope = plain | (config.get("rope_scaling") or {})
    return rope


def rotary_dims(config, rope, head_dim):
    """The first so many of a head turn."""
    if config.get("rotary_dim"):
        return config["rotary_dim"]
    otherwise = config.get("partial_rotary_factor", PARTIAL.get(config["model_type"], 1.0))
    return int(head_dim * rope.get("partial_rotary_factor", otherwise))


def inv_freq(model, layer_type, head_dim, n_positions):
    """float32 frequencies, one a pair, and the factor on cos and sin.

    n_positions: the context that the model is run for; longrope chooses by it."""
    c, o = model.config, model.ops
    rope = rope_of(c, layer_type)
    base = rope.get("rope_theta", c.get("rope_theta", 10000.0))
    dims = rotary_dims(c, rope, head_dim)
    inv, factor = o.inv_freq_default(base, dims), 1.0
    kind = rope.get("rope_type", rope.get("type", "default"))
    longest = c.get("max_position_embeddings")
    original = rope.get("original_max_position_embeddings") or c.get(
        "original_max_position_embeddings", longest)
    if kind == "linear":
        inv = o.inv_freq_linear(inv, rope["factor"])
    elif kind == "llama3":
        inv = o.inv_freq_llama3(inv, rope["factor"], rope["low_freq_factor"],
                                rope["high_freq_factor"], original)
    elif kind == "yarn":
        inv = o.inv_freq_yarn(inv, base, dims, rope["factor"], original,
                              rope.get("beta_fast") or 32.0, rope.get("beta_slow") or 1.0,
                              rope.get("truncate", True))
        factor = rope.get("attention_factor") or o.yarn_attention_factor(
            rope["factor"], rope.get("mscale") or 0.0, rope.get("mscale_all_dim") or 0.0)
    elif kind == "longrope":
        factors = rope["long_factor" if n_positions > original else "short_factor"]
        inv = o.inv_freq_longrope(base, dims, factors)
        factor = rope.get("attention_factor") or o.longrope_attention_factor(
            rope.get("factor", 1.0) * original if "factor" in rope else longest, original)
    elif kind not in ("default", "mrope"):  # mrope: three equal position rows on text (11.4)
        raise ValueError(f"rope type '{kind}' has no reference")
    return inv, factor


def table(model, layer_type, head_dim, positions):
    """Cosines and sines of each row."""
    n_positions = model.context or int(np.max(positions, initial=-1)) + 1
    frequencies, factor = inv_freq(model, layer_type, head_dim, n_positions)
    return model.ops.rope_table(positions, frequencies, factor)
