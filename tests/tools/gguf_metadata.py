"""The metadata of a GGUF file from config.json, a family at a time (architectures.md 1.5 and the
GGUF keys of each section)."""
import math

import gguf
import numpy as np

from reference import ops, rope

SIGMOID = gguf.ExpertGatingFuncType.SIGMOID


def refuse_what_is_lost(c, architecture):
    """What the file has no key for, so that it would be read as something else."""
    lost = ""
    if architecture == "smollm3" and c.get("no_rope_layers") is not None:
        every_fourth = [int((i + 1) % 4 != 0) for i in range(c["num_hidden_layers"])]
        lost = "no_rope_layers" if c["no_rope_layers"] != every_fourth else ""
    elif c.get("mlp_only_layers") or c.get("decoder_sparse_step", 1) != 1:
        lost = "mlp_only_layers, decoder_sparse_step"
    elif architecture in ("qwen2", "qwen3") and "sliding_attention" in c.get("layer_types", []):
        lost = "layer_types"
    if lost:
        raise ValueError(f"GGUF's {architecture} has no place for this model's {lost}")


def write(writer, config, architecture, mtp_layers):
    refuse_what_is_lost(config, architecture)
    if architecture == "gpt2":
        return gpt2(writer, config)
    common(writer, config, architecture, mtp_layers)
    scaling(writer, config, architecture)
    if expert_count(config):
        experts(writer, config, architecture)
    if "linear_num_key_heads" in config:
        delta_rule(writer, config, architecture, mtp_layers)
    if "kv_lora_rank" in config:
        latent(writer, config)


def gpt2(writer, c):
    writer.add_context_length(c["n_positions"])
    writer.add_block_count(c["n_layer"])
    writer.add_feed_forward_length(c["n_inner"] or 4 * c["n_embd"])
    writer.add_layer_norm_eps(c["layer_norm_epsilon"])
    writer.add_embedding_length(c["n_embd"])
    writer.add_head_count(c["n_head"])
    writer.add_vocab_size(c["vocab_size"])


def common(writer, c, architecture, mtp_layers):
    heads, width = c["num_attention_heads"], c["hidden_size"]
    head_dim = c.get("head_dim") or width // heads
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_block_count(c["num_hidden_layers"] + mtp_layers)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_vocab_size(c["vocab_size"])
    if mtp_layers:
        writer.add_nextn_predict_layers(mtp_layers)
    if "kv_lora_rank" not in c:
        writer.add_head_count_kv(c.get("num_key_value_heads") or heads)
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    full = rope.rope_of(c, "full_attention")
    writer.add_rope_freq_base(full["rope_theta"])
    if architecture != "gemma3" and "kv_lora_rank" not in c:
        writer.add_rope_dimension_count(rope.rotary_dims(c, full, head_dim))
    if c.get("sliding_window") and "sliding_attention" in (c.get("layer_types") or ["sliding_attention"]):
        writer.add_sliding_window(c["sliding_window"])
        if architecture in ("gemma3", "olmo2", "gpt-oss"):
            writer.add_array(f"{architecture}.attention.sliding_window_pattern",
                             [t == "sliding_attention" for t in c["layer_types"]])


def scaling(writer, c, architecture):
    """rope.scaling.* and the tensors that stand for it."""
    r = rope.rope_of(c, "full_attention")
    kind = r.get("rope_type", "default")
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    if kind == "llama3":  # divisors of the frequencies (2.2)
        inv = ops.inv_freq_default(r["rope_theta"], head_dim)
        scaled = ops.inv_freq_llama3(inv, r["factor"], r["low_freq_factor"], r["high_freq_factor"],
                                     r["original_max_position_embeddings"])
        writer.add_tensor("rope_freqs.weight", (inv / scaled).astype(np.float32))
    elif kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(r["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(r["factor"])
        writer.add_rope_scaling_orig_ctx_len(r["original_max_position_embeddings"])
        if "beta_fast" in r:
            writer.add_rope_scaling_yarn_beta_fast(r["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(r["beta_slow"])
        if r.get("mscale_all_dim"):
            writer.add_rope_scaling_yarn_log_mul(0.1 * r["mscale_all_dim"])
    elif kind == "longrope":
        original = r["original_max_position_embeddings"]
        ratio = c["max_position_embeddings"] / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(
            math.sqrt(1 + math.log(ratio) / math.log(original)) if ratio > 1 else 1.0)
        for which in ("long", "short"):
            writer.add_tensor(f"rope_factors_{which}.weight", np.array(r[f"{which}_factor"], np.float32))
    elif kind != "default":
        raise ValueError(f"{architecture}: rope type {kind} has no place in GGUF here")


def expert_count(c):
    for key in ("n_routed_experts", "num_experts", "num_local_experts"):
        if c.get(key):
            return c[key]
    return 0


def experts(writer, c, architecture):
    writer.add_expert_count(expert_count(c))
    writer.add_expert_used_count(c["num_experts_per_tok"])
    if architecture != "llama":
        writer.add_expert_feed_forward_length(c.get("moe_intermediate_size") or c["intermediate_size"])
    if "shared_expert_intermediate_size" in c:
        writer.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
    if architecture == "minimax-m2":
        writer.add_expert_gating_func(SIGMOID)
    if "n_routed_experts" in c:  # glm4_moe and the deepseek families
        writer.add_expert_gating_func(SIGMOID)
        writer.add_expert_shared_count(c["n_shared_experts"])
        writer.add_leading_dense_block_count(c["first_k_dense_replace"])
        writer.add_expert_weights_scale(c["routed_scaling_factor"])
        writer.add_expert_weights_norm(c["norm_topk_prob"])
        writer.add_expert_group_count(c["n_group"])
        writer.add_expert_group_used_count(c["topk_group"])


def delta_rule(writer, c, architecture, mtp_layers):
    writer.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(c["linear_key_head_dim"])
    writer.add_ssm_group_count(c["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(c["linear_num_value_heads"])
    writer.add_ssm_inner_size(c["linear_value_head_dim"] * c["linear_num_value_heads"])
    recurrent = [t == "linear_attention" for t in c["layer_types"]] + [False] * mtp_layers
    writer.add_array(f"{architecture}.attention.recurrent_layers", recurrent)
    writer.add_full_attention_interval(c.get("full_attention_interval", 4))
    if architecture != "qwen3next":
        # Pairs for time, height and width; on text the three positions are equal (11.4).
        head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
        pairs = rope.rotary_dims(c, rope.rope_of(c, "full_attention"), head_dim) // 2
        thirds = [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3]
        writer.add_rope_dimension_sections(c.get("mrope_section", thirds) + [0])


def latent(writer, c):
    """Latent attention as one key head as wide as latent and turned key together."""
    writer.add_head_count_kv(1)
    if c["q_lora_rank"]:
        writer.add_q_lora_rank(c["q_lora_rank"])
    writer.add_kv_lora_rank(c["kv_lora_rank"])
    writer.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
    writer.add_value_length(c["kv_lora_rank"])
    writer.add_key_length_mla(c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
    writer.add_value_length_mla(c["v_head_dim"])
    writer.add_rope_dimension_count(c["qk_rope_head_dim"])
    if "index_topk" in c:
        writer.add_indexer_head_count(c["index_n_heads"])
        writer.add_indexer_key_length(c["index_head_dim"])
        writer.add_indexer_top_k(c["index_topk"])
    if "indexer_types" in c:
        writer.add_array("glm-dsa.attention.indexer.types", [t == "full" for t in c["indexer_types"]])
