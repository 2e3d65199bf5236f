"""A Hugging Face directory to logits: gpt2, llama, mistral, qwen2, qwen3, gemma3 (text).

Whole sequences, no cache.  architectures.md sections 3 to 6 and 9.
"""
import json
import pathlib

import numpy as np

from reference import ops, tensors


class Model:
    """Weights in float64 and the config as stored.  `ops` may be replaced by a module with a
    broken op: that is how tests show that a check bites."""

    def __init__(self, directory, ops=ops):
        directory = pathlib.Path(directory)
        stored, _ = tensors.load(directory / "model.safetensors")
        weights = {
            name.removeprefix("transformer.").removeprefix("model."): value.astype(np.float64)
            for name, value in stored.items()
        }
        self.set(json.loads((directory / "config.json").read_text()), weights, ops)

    @classmethod
    def of(cls, config, weights, ops=ops):
        """From a config and float64 weights by their Hugging Face names without "model."."""
        model = cls.__new__(cls)
        model.set(config, weights, ops)
        return model

    def set(self, config, weights, ops):
        self.config, self.weights, self.ops = config, weights, ops
        kind = config["model_type"]
        if kind not in FORWARD:
            raise ValueError(f"model_type '{kind}' has no reference")
        self.forward_rows = FORWARD[kind]

    def hidden_states(self, tokens):
        """[embeddings, after layer 0, ..., after the last layer and the final norm]"""
        return self.forward_rows(self, np.asarray(tokens))

    def logits(self, hidden):
        embedding = "wte.weight" if "wte.weight" in self.weights else "embed_tokens.weight"
        tied = self.config.get("tie_word_embeddings", True)
        return self.ops.matmul(hidden, self.weights[embedding if tied else "lm_head.weight"])

    def greedy(self, tokens, n):
        """n tokens, each by a forward pass over everything before it."""
        tokens, chosen = list(tokens), []
        for _ in range(n):
            chosen.append(self.ops.argmax(self.logits(self.hidden_states(tokens)[-1][-1:])[0]))
            tokens.append(chosen[-1])
        return chosen

    # ---- names -------------------------------------------------------------------------------

    def w(self, name):
        return self.weights[name]

    def linear(self, x, name):
        """y = x W^T (+ b); a Conv1D weight of gpt2 is stored [in, out]."""
        w = self.w(name + ".weight")
        if self.config["model_type"] == "gpt2":
            w = w.T
        return self.ops.matmul(x, w, self.weights.get(name + ".bias"))

    def norm(self, x, name):
        weight = self.w(name + ".weight")
        if self.config["model_type"] == "gpt2":
            eps = self.config["layer_norm_epsilon"]
            return self.ops.layer_norm(x, weight, self.w(name + ".bias"), eps)
        return self.ops.rms_norm(x, self.norm_weight(weight), self.config["rms_norm_eps"])

    def norm_weight(self, weight):
        """gemma3 stores its norms zero-centred (9)."""
        return 1 + weight if self.config["model_type"] == "gemma3_text" else weight


def gpt2(model, tokens):
    c, o = model.config, model.ops
    positions = np.arange(len(tokens))
    width = c["n_embd"]
    x = o.add_position_embed(o.embed(model.w("wte.weight"), tokens), model.w("wpe.weight"), positions)
    states = [x]
    for i in range(c["n_layer"]):
        qkv = model.linear(model.norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn")
        q, k, v = qkv[:, :width], qkv[:, width : 2 * width], qkv[:, 2 * width :]
        heads = c["n_head"]
        mixed = o.attention(q, k, v, positions, positions, heads, heads, (width / heads) ** -0.5)
        x = o.add(x, model.linear(mixed, f"h.{i}.attn.c_proj"))
        inner = model.linear(model.norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        x = o.add(x, model.linear(o.activation(inner, "gelu_tanh"), f"h.{i}.mlp.c_proj"))
        states.append(x)
    states[-1] = model.norm(x, "ln_f")
    return states


def rope_of(config, layer_type):
    """Base and scaling of a layer, from the shapes in which configs store them (1.4)."""
    rope = config.get("rope_parameters") or {}
    if layer_type in rope:
        rope = rope[layer_type]
    if not rope:  # transformers 4 wrote these at the top
        rope = {"rope_theta": config.get("rope_theta", 10000.0), **(config.get("rope_scaling") or {})}
        if layer_type == "sliding_attention" and "rope_local_base_freq" in config:
            rope = {"rope_theta": config["rope_local_base_freq"]}
    return rope


def inv_freq(model, layer_type, head_dim):
    """float32 frequencies and the factor on cos and sin (2.2)."""
    c, o = model.config, model.ops
    rope = rope_of(c, layer_type)
    base = rope.get("rope_theta", c.get("rope_theta", 10000.0))
    inv, factor = o.inv_freq_default(base, head_dim), 1.0
    kind = rope.get("rope_type", rope.get("type", "default"))
    original = rope.get("original_max_position_embeddings", c.get("max_position_embeddings"))
    if kind == "linear":
        inv = o.inv_freq_linear(inv, rope["factor"])
    elif kind == "llama3":
        inv = o.inv_freq_llama3(inv, rope["factor"], rope["low_freq_factor"],
                                rope["high_freq_factor"], original)
    elif kind == "yarn":
        inv = o.inv_freq_yarn(inv, base, head_dim, rope["factor"], original,
                              rope.get("beta_fast") or 32.0, rope.get("beta_slow") or 1.0,
                              rope.get("truncate", True))
        factor = rope.get("attention_factor") or o.yarn_attention_factor(
            rope["factor"], rope.get("mscale") or 0.0, rope.get("mscale_all_dim") or 0.0)
    elif kind != "default":
        raise ValueError(f"rope type '{kind}' has no reference")
    return inv, factor


def layer_types(config):
    """Which layers look through a window: layer_types, or each family's older keys."""
    n = config["num_hidden_layers"]
    if config.get("layer_types"):
        return config["layer_types"]
    kind = config["model_type"]
    sliding = [False] * n
    if kind == "mistral":
        sliding = [config.get("sliding_window") is not None] * n
    elif kind == "gemma3_text":
        pattern = config.get("sliding_window_pattern", 6)
        sliding = [(i + 1) % pattern != 0 for i in range(n)]
    elif config.get("use_sliding_window"):
        sliding = [i >= config["max_window_layers"] for i in range(n)]
    return ["sliding_attention" if s else "full_attention" for s in sliding]


def attention_part(model, x, i, layer_type):
    c, o = model.config, model.ops
    heads = c["num_attention_heads"]
    kv_heads = c.get("num_key_value_heads") or heads
    head_dim = c.get("head_dim") or c["hidden_size"] // heads
    p = f"layers.{i}.self_attn."
    q, k, v = (model.linear(x, p + name) for name in ("q_proj", "k_proj", "v_proj"))
    if p + "q_norm.weight" in model.weights:
        eps = c["rms_norm_eps"]
        q = o.head_rms_norm(q, heads, model.norm_weight(model.w(p + "q_norm.weight")), eps)
        k = o.head_rms_norm(k, kv_heads, model.norm_weight(model.w(p + "k_norm.weight")), eps)
    positions = np.arange(len(x))
    frequencies, factor = inv_freq(model, layer_type, head_dim)
    table = o.rope_table(positions, frequencies, factor)
    q, k = o.rope(q, table, heads), o.rope(k, table, kv_heads)
    scale = c.get("query_pre_attn_scalar", head_dim) ** -0.5
    window = c["sliding_window"] if layer_type == "sliding_attention" else 0
    mixed = o.attention(q, k, v, positions, positions, heads, kv_heads, scale, window,
                        c.get("attn_logit_softcapping") or 0.0)
    return model.linear(mixed, p + "o_proj")


def mlp_part(model, x, i, kind):
    p = f"layers.{i}.mlp."
    gate_up = np.concatenate([model.linear(x, p + "gate_proj"), model.linear(x, p + "up_proj")], axis=1)
    return model.linear(model.ops.gated_activation(gate_up, kind), p + "down_proj")


def llama(model, tokens):
    """llama, mistral, qwen2, qwen3: norm before each half, SwiGLU."""
    o = model.ops
    x = o.embed(model.w("embed_tokens.weight"), tokens)
    states = [x]
    for i, layer_type in enumerate(layer_types(model.config)):
        h = model.norm(x, f"layers.{i}.input_layernorm")
        x = o.add(x, attention_part(model, h, i, layer_type))
        h = model.norm(x, f"layers.{i}.post_attention_layernorm")
        x = o.add(x, mlp_part(model, h, i, "silu"))
        states.append(x)
    states[-1] = model.norm(x, "norm")
    return states


def gemma3(model, tokens):
    """Norms before and after each half; the embedding scaled by sqrt(hidden_size) in the type
    that is computed in, float32 (9)."""
    o, c = model.ops, model.config
    x = o.embed(model.w("embed_tokens.weight"), tokens, np.float32(c["hidden_size"] ** 0.5))
    states = [x]
    for i, layer_type in enumerate(layer_types(c)):
        p = f"layers.{i}."
        h = attention_part(model, model.norm(x, p + "input_layernorm"), i, layer_type)
        x = o.add(x, model.norm(h, p + "post_attention_layernorm"))
        h = mlp_part(model, model.norm(x, p + "pre_feedforward_layernorm"), i, "gelu_tanh")
        x = o.add(x, model.norm(h, p + "post_feedforward_layernorm"))
        states.append(x)
    states[-1] = model.norm(x, "norm")
    return states


FORWARD = {"gpt2": gpt2, "llama": llama, "mistral": llama, "qwen2": llama, "qwen3": llama,
           "gemma3_text": gemma3}
