"""Random checkpoints of random shapes, for families whose fixtures have one shape each.

config(rng, family) draws sizes and options; write() makes a Hugging Face directory of it, all
in float32.  Sizes are such that nothing is a multiple of a vector's width by habit.
"""
import json
import pathlib

import numpy as np

from reference import tensors
from reference.attention import GATED, NORM_OVER_HEADS, heads_of, layer_types
from reference.experts import routing

FAMILIES = ["llama", "qwen3", "qwen3_moe", "mixtral", "gpt_oss", "glm4_moe", "minimax_m2", "qwen3_next",
            "qwen3_5_text", "qwen3_5_moe_text", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "olmo3",
            "smollm3", "phi3"]
LATENT = ["deepseek_v3", "deepseek_v32", "glm_moe_dsa"]
OWN_HEAD_DIM = ["llama", "qwen3", "qwen3_moe", "mixtral", "gpt_oss", "glm4_moe", "minimax_m2", *GATED]


def config(rng, family):
    def some(*values):
        return values[rng.integers(len(values))]

    kv_heads = some(1, 2, 3)
    heads, n_layers = kv_heads * some(1, 2, 3), some(2, 3, 4)
    head_dim = some(8, 12, 20)
    c = {"model_type": family, "vocab_size": some(97, 130), "num_hidden_layers": n_layers,
         "hidden_size": some(40, 56, 72) if family in OWN_HEAD_DIM or family in LATENT else heads * head_dim,
         "intermediate_size": some(36, 60, 76), "num_attention_heads": heads,
         "num_key_value_heads": kv_heads, "max_position_embeddings": 512, "rms_norm_eps": some(1e-6, 1e-5),
         "hidden_act": "silu", "tie_word_embeddings": some(True, False), "eos_token_id": 2,
         "rope_parameters": {"rope_type": "default", "rope_theta": some(10000.0, 500000.0)}}
    if family in OWN_HEAD_DIM:
        c["head_dim"] = head_dim
    c |= {"gpt_oss": gpt_oss, "glm4_moe": glm4_moe, "olmo3": olmo3}.get(family, lambda some, c: {})(some, c)
    if family in ("qwen3_moe", "mixtral", "minimax_m2"):
        c["num_experts_per_tok"] = some(1, 2, 3)
        c["num_experts" if family == "qwen3_moe" else "num_local_experts"] = some(3, 5, 8)
        if family == "qwen3_moe":  # GGUF has no key for weights that are not normalised
            c |= {"moe_intermediate_size": some(20, 44), "norm_topk_prob": True}
    if family in GATED:
        c |= hybrid(some, c)
    if family in LATENT:
        c |= latent(some, c)
    return c


def gpt_oss(some, c):
    kinds = ["sliding_attention", "full_attention"]
    # GGUF has no key for `truncate`; published gpt-oss says false.
    return {"num_local_experts": some(3, 6), "num_experts_per_tok": some(1, 3), "sliding_window": some(5, 17),
            "attention_bias": True, "tie_word_embeddings": False,
            "layer_types": [some(*kinds) for _ in range(c["num_hidden_layers"] - 1)] + [kinds[0]],
            "rope_parameters": {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0,
                                "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096}}


def olmo3(some, c):
    kinds = ["sliding_attention", "full_attention"]
    return {"sliding_window": some(7, 33), "attention_bias": False,
            "layer_types": [some(*kinds) for _ in range(c["num_hidden_layers"] - 1)] + [kinds[0]],
            "tie_word_embeddings": False}


def sigmoid_experts(some, c):
    groups = some(1, 2, 4)
    return {"n_routed_experts": groups * some(2, 3), "num_experts_per_tok": some(1, 2),
            "moe_intermediate_size": some(20, 28), "n_shared_experts": some(1, 2), "n_group": groups,
            "topk_group": some(1, groups), "norm_topk_prob": some(True, False),
            "routed_scaling_factor": some(1.0, 2.5), "first_k_dense_replace": some(0, 1)}


def glm4_moe(some, c):
    return sigmoid_experts(some, c) | {
        "attention_bias": some(True, False), "use_qk_norm": some(True, False),
        "partial_rotary_factor": 0.5, "n_group": 1, "topk_group": 1}


def hybrid(some, c):
    key_heads, dims = some(1, 2, 3), some(8, 12)
    kinds = ["linear_attention", "full_attention"]
    out = {"linear_num_key_heads": key_heads, "linear_num_value_heads": key_heads * some(1, 2, 3),
           "linear_key_head_dim": dims, "linear_value_head_dim": some(dims, dims + 4),
           "linear_conv_kernel_dim": some(2, 3, 4), "partial_rotary_factor": some(0.25, 0.5),
           "layer_types": [kinds[0]] + [some(*kinds) for _ in range(c["num_hidden_layers"] - 2)] + [kinds[1]]}
    out["rope_parameters"] = c["rope_parameters"] | {"partial_rotary_factor": out["partial_rotary_factor"]}
    if c["head_dim"] * out["partial_rotary_factor"] % 2:
        out["head_dim"] = 16
    if c["model_type"] != "qwen3_5_text":
        out |= {"num_experts": some(3, 6), "num_experts_per_tok": some(1, 3), "norm_topk_prob": True,
                "moe_intermediate_size": some(20, 28), "shared_expert_intermediate_size": some(12, 36)}
    return out


def latent(some, c):
    heads = some(2, 3, 5)
    out = sigmoid_experts(some, c) | {
        "num_attention_heads": heads, "num_key_value_heads": heads, "kv_lora_rank": some(20, 36),
        "q_lora_rank": some(24, 28), "qk_nope_head_dim": some(12, 20), "qk_rope_head_dim": some(4, 8),
        "v_head_dim": some(12, 24), "attention_bias": False, "tie_word_embeddings": False,
        "head_dim": None, "rope_interleave": True}
    out["head_dim"] = out["qk_rope_head_dim"]
    out["qk_head_dim"] = out["qk_nope_head_dim"] + out["qk_rope_head_dim"]
    if c["model_type"] != "deepseek_v3":
        out |= {"index_n_heads": 8, "index_head_dim": some(12, 20), "index_topk": some(9, 30)}
    if c["model_type"] == "glm_moe_dsa":
        out["indexer_types"] = ["full"] + [some("full", "shared") for _ in range(c["num_hidden_layers"] - 1)]
    return out


# ---- shapes ------------------------------------------------------------------------------------


def attention_shapes(c, p):
    heads, kv_heads, dim = heads_of(c)
    family, h = c["model_type"], c["hidden_size"]
    if family == "phi3":
        out = {"qkv_proj.weight": ((heads + 2 * kv_heads) * dim, h)}
    else:
        out = {"q_proj.weight": (heads * dim * (2 if family in GATED else 1), h),
               "k_proj.weight": (kv_heads * dim, h), "v_proj.weight": (kv_heads * dim, h)}
    out["o_proj.weight"] = (h, heads * dim)
    if c.get("attention_bias"):
        for name in ("q_proj", "k_proj", "v_proj") + (("o_proj",) if family == "gpt_oss" else ()):
            out[name + ".bias"] = out[name + ".weight"][:1]
    if family == "gpt_oss":
        out["sinks"] = (heads,)
    whole = family in NORM_OVER_HEADS
    if whole or family in ("qwen3", "qwen3_moe", *GATED) or c.get("use_qk_norm"):
        out |= {"q_norm.weight": (heads * dim if whole else dim,), "k_norm.weight": (kv_heads * dim if whole else dim,)}
    return {p + "self_attn." + name: shape for name, shape in out.items()}


def latent_shapes(c, p, i):
    heads, h, q, kv = c["num_attention_heads"], c["hidden_size"], c["q_lora_rank"], c["kv_lora_rank"]
    out = {"q_a_proj.weight": (q, h), "q_a_layernorm.weight": (q,), "q_b_proj.weight": (heads * c["qk_head_dim"], q),
           "kv_a_proj_with_mqa.weight": (kv + c["qk_rope_head_dim"], h), "kv_a_layernorm.weight": (kv,),
           "kv_b_proj.weight": (heads * (c["qk_nope_head_dim"] + c["v_head_dim"]), kv),
           "o_proj.weight": (h, heads * c["v_head_dim"])}
    if "index_topk" in c and (c.get("indexer_types", []) + ["full"] * (i + 1))[i] == "full":
        n, dim = c["index_n_heads"], c["index_head_dim"]
        out |= {"indexer.wq_b.weight": (n * dim, q), "indexer.wk.weight": (dim, h), "indexer.k_norm.weight": (dim,),
                "indexer.k_norm.bias": (dim,), "indexer.weights_proj.weight": (n, h)}
    return {p + "self_attn." + name: shape for name, shape in out.items()}


def delta_shapes(c, p):
    keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
    key_dim, value_dim, h = keys * c["linear_key_head_dim"], values * c["linear_value_head_dim"], c["hidden_size"]
    if c["model_type"] == "qwen3_next":
        out = {"in_proj_qkvz.weight": (2 * key_dim + 2 * value_dim, h), "in_proj_ba.weight": (2 * values, h)}
    else:
        out = {"in_proj_qkv.weight": (2 * key_dim + value_dim, h), "in_proj_z.weight": (value_dim, h),
               "in_proj_b.weight": (values, h), "in_proj_a.weight": (values, h)}
    out |= {"conv1d.weight": (2 * key_dim + value_dim, 1, c["linear_conv_kernel_dim"]), "A_log": (values,),
            "dt_bias": (values,), "norm.weight": (c["linear_value_head_dim"],), "out_proj.weight": (h, value_dim)}
    return {p + "linear_attn." + name: shape for name, shape in out.items()}


def mlp_shapes(p, width, h, names=("gate_proj", "up_proj", "down_proj")):
    gate, up, down = names
    return {f"{p}{gate}.weight": (width, h), f"{p}{up}.weight": (width, h), f"{p}{down}.weight": (h, width)}


def ffn_shapes(c, p, i):
    family, h = c["model_type"], c["hidden_size"]
    n = c.get("n_routed_experts") or c.get("num_experts") or c.get("num_local_experts")
    if family == "phi3":
        return {p + "mlp.gate_up_proj.weight": (2 * c["intermediate_size"], h),
                p + "mlp.down_proj.weight": (h, c["intermediate_size"])}
    if not n or i < c.get("first_k_dense_replace", 0):
        return mlp_shapes(p + "mlp.", c["intermediate_size"], h)
    width = c.get("moe_intermediate_size", c["intermediate_size"])
    if family == "gpt_oss":
        return {p + "mlp.router.weight": (n, h), p + "mlp.router.bias": (n,),
                p + "mlp.experts.gate_up_proj": (n, h, 2 * width), p + "mlp.experts.gate_up_proj_bias": (n, 2 * width),
                p + "mlp.experts.down_proj": (n, width, h), p + "mlp.experts.down_proj_bias": (n, h)}
    home, names = p + "mlp.", ("gate_proj", "up_proj", "down_proj")
    if family in ("mixtral", "minimax_m2"):
        home, names = p + "block_sparse_moe.", ("w1", "w3", "w2")
    out = {home + "gate.weight": (n, h)}
    for e in range(n):
        out |= mlp_shapes(f"{home}experts.{e}.", width, h, names)
    if routing(c).get("score") == "sigmoid":
        out[home + ("" if family == "minimax_m2" else "gate.") + "e_score_correction_bias"] = (n,)
    if "n_shared_experts" in c:
        out |= mlp_shapes(home + "shared_experts.", width * c["n_shared_experts"], h)
    if "shared_expert_intermediate_size" in c:
        out |= mlp_shapes(home + "shared_expert.", c["shared_expert_intermediate_size"], h)
        out[home + "shared_expert_gate.weight"] = (1, h)
    return out


def mtp_shapes(c, own_head):
    """A head that drafts (13, 15): one more layer, and what stands around it."""
    h, family, n = c["hidden_size"], c["model_type"], c["num_hidden_layers"]
    if family in GATED:
        layer, p = "mtp.layers.0.", "mtp."
        out = {p + "fc.weight": (h, 2 * h)} | {
            p + name + ".weight": (h,) for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")}
    else:
        layer = p = f"model.layers.{n}."
        out = {p + "eh_proj.weight": (h, 2 * h)} | {
            p + name + ".weight": (h,) for name in ("enorm", "hnorm", "shared_head.norm")}
        if own_head:
            out |= {p + "embed_tokens.weight": (c["vocab_size"], h), p + "shared_head.head.weight": (c["vocab_size"], h)}
    out |= {layer + name + ".weight": (h,) for name in ("input_layernorm", "post_attention_layernorm")}
    out |= ffn_shapes(c, layer, n)
    return out | (latent_shapes(c, layer, n) if "kv_lora_rank" in c else attention_shapes(c, layer))


def shapes(c):
    h = c["hidden_size"]
    out = {"model.embed_tokens.weight": (c["vocab_size"], h), "model.norm.weight": (h,)}
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (c["vocab_size"], h)
    for i, kind in enumerate(layer_types(c)):
        p = f"model.layers.{i}."
        norms = ("post_attention_layernorm", "post_feedforward_layernorm") if c["model_type"] == "olmo3" else (
            "input_layernorm", "post_attention_layernorm")
        out |= {p + name + ".weight": (h,) for name in norms} | ffn_shapes(c, p, i)
        if kind == "linear_attention":
            out |= delta_shapes(c, p)
        else:
            out |= latent_shapes(c, p, i) if "kv_lora_rank" in c else attention_shapes(c, p)
    if c.get("num_nextn_predict_layers") or c.get("mtp_num_hidden_layers"):
        out |= mtp_shapes(c, own_head=not c["tie_word_embeddings"])
    return out


def values(rng, c, name, shape):
    if len(shape) == 1:
        centred = c["model_type"] in GATED and not name.endswith("linear_attn.norm.weight")
        around = 1.0 if name.endswith("norm.weight") and not centred else 0.0
        return around + 0.2 * rng.normal(size=shape)
    fan_in = shape[1] if "experts." in name and len(shape) == 3 else shape[-1]
    return rng.normal(size=shape) * (0.5 if "embed" in name or "lm_head" in name else 1.2 / fan_in**0.5)


def write(rng, c, directory):
    directory = pathlib.Path(directory)
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(c))
    tensors.save(directory / "model.safetensors", {
        name: values(rng, c, name, shape).astype(np.float32) for name, shape in shapes(c).items()})
