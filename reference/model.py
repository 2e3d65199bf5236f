"""A Hugging Face directory to logits, whole sequences, no cache.

Which family does what: architectures.md 3 to 16, architectures-more.md 3 to 6.  The parts of a
layer are in attention.py, linear_attention.py, latent_attention.py and experts.py; the head
that drafts in mtp.py.
"""
import json
import pathlib

import numpy as np

from reference import latent_attention, ops, tensors
from reference.attention import attention, layer_types, rotates
from reference.experts import feed_forward, mlp
from reference.linear_attention import linear_attention

# Norm weights are stored as what is added to one (9, 11.2), but for linear_attn.norm.
ZERO_CENTRED = {"gemma3_text", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}


class Model:
    """Weights in float64 and the config as stored.  `ops` may be replaced by a module with a
    broken op: that is how tests show that a check bites.  `context`: what the model is loaded
    for, where its frequencies depend on it; None: the length of what it is given."""

    def __init__(self, directory, ops=ops, context=None):
        directory = pathlib.Path(directory)
        weights, _ = tensors.load(directory / "model.safetensors")
        self.set(json.loads((directory / "config.json").read_text()), named(weights), ops, context)

    @classmethod
    def of(cls, config, weights, ops=ops):
        """From a config and float64 weights by their Hugging Face names without "model."."""
        model = cls.__new__(cls)
        model.set(config, weights, ops)
        return model

    def set(self, config, weights, ops, context=None):
        self.config = config | config.get("text_config", {})  # of multimodal checkpoints (1.4)
        self.weights, self.ops, self.context = weights, ops, context
        kind = self.config["model_type"]
        if kind not in FORWARD:
            raise ValueError(f"model_type '{kind}' has no reference")
        self.forward_rows = FORWARD[kind]

    def hidden_states(self, tokens):
        """[embeddings, after layer 0, ..., after the last layer and the final norm]"""
        self.selection = None  # of keys, by the last layer that chose any
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
        return 1 + weight if self.config["model_type"] in ZERO_CENTRED else weight

    # ---- layers ------------------------------------------------------------------------------

    def layer(self, x, p, kind, turn=True):
        """One layer with a norm before each half; p: the prefix of its weights."""
        x = self.ops.add(x, self.mix(self.norm(x, p + "input_layernorm"), p, kind, turn))
        return self.ops.add(x, feed_forward(self, self.norm(x, p + "post_attention_layernorm"), p))

    def mix(self, x, p, kind, turn=True):
        """What lets a token see those before it."""
        positions = np.arange(len(x))
        if kind == "linear_attention":
            return linear_attention(self, x, p + "linear_attn.")
        if "kv_lora_rank" in self.config:
            out, self.selection = latent_attention.attention(
                self, x, p + "self_attn.", positions, self.selection)
            return out
        return attention(self, x, p + "self_attn.", kind, positions, turn)


def named(weights):
    """Float64 weights by their names without the prefixes that not every checkpoint has."""
    out = {}
    for name, value in weights.items():
        for prefix in ("transformer.", "model.language_model.", "model."):
            if name.startswith(prefix):
                name = name[len(prefix):]
                break
        if not name.startswith("visual."):
            out[name] = value.astype(np.float64)
    return out


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


def decoder(model, tokens):
    """Most families: a norm before each half of a layer."""
    x = model.ops.embed(model.w("embed_tokens.weight"), tokens)
    states = [x]
    for i, kind in enumerate(layer_types(model.config)):
        x = model.layer(x, f"layers.{i}.", kind, rotates(model.config, i))
        states.append(x)
    states[-1] = model.norm(x, "norm")
    return states


def olmo3(model, tokens):
    """A norm after each half; the halves read the residual stream as it is (more 5)."""
    o = model.ops
    x = o.embed(model.w("embed_tokens.weight"), tokens)
    states = [x]
    for i, kind in enumerate(layer_types(model.config)):
        p = f"layers.{i}."
        x = o.add(x, model.norm(model.mix(x, p, kind), p + "post_attention_layernorm"))
        x = o.add(x, model.norm(mlp(model, x, p + "mlp."), p + "post_feedforward_layernorm"))
        states.append(x)
    states[-1] = model.norm(x, "norm")
    return states


def gemma3(model, tokens):
    """Norms before and after each half; the embedding scaled by sqrt(hidden_size) in the type
    that is computed in, float32 (9)."""
    o, c = model.ops, model.config
    x = o.embed(model.w("embed_tokens.weight"), tokens, np.float32(c["hidden_size"] ** 0.5))
    states = [x]
    for i, kind in enumerate(layer_types(c)):
        p = f"layers.{i}."
        h = model.mix(model.norm(x, p + "input_layernorm"), p, kind)
        x = o.add(x, model.norm(h, p + "post_attention_layernorm"))
        h = mlp(model, model.norm(x, p + "pre_feedforward_layernorm"), p + "mlp.", "gelu_tanh")
        x = o.add(x, model.norm(h, p + "post_feedforward_layernorm"))
        states.append(x)
    states[-1] = model.norm(x, "norm")
    return states


FORWARD = dict.fromkeys(
    ["llama", "mistral", "qwen2", "qwen3", "smollm3", "phi3", "qwen3_moe", "mixtral", "gpt_oss",
     "glm4_moe", "minimax_m2", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "deepseek_v3",
     "deepseek_v32", "glm_moe_dsa"], decoder) | {
         "gpt2": gpt2, "gemma3_text": gemma3, "olmo3": olmo3}
