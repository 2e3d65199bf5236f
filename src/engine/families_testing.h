// One small config for every kind of layer: experts, the gated delta rule, latent and
// sparse attention, sinks.
#pragma once

#include <string>
#include <vector>

namespace ingot {

struct Family {
  std::string name;
  std::string fields;  // beside those that all have
};

inline std::string config_of(const Family& family) {
  return R"({"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 10000,
    "max_position_embeddings": 4096, "tie_word_embeddings": true, )" +
         family.fields + "}";
}

inline std::vector<Family> families() {
  return {
      {"hybrid_with_experts", R"("model_type": "qwen3_next", "num_key_value_heads": 2,
        "head_dim": 32, "partial_rotary_factor": 0.25, "full_attention_interval": 4,
        "linear_num_key_heads": 2, "linear_num_value_heads": 6,
        "linear_key_head_dim": 24, "linear_value_head_dim": 32,
        "linear_conv_kernel_dim": 4, "num_experts": 7, "num_experts_per_tok": 3,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
        "intermediate_size": 96, "norm_topk_prob": true)"},
      {"hybrid_dense", R"("model_type": "qwen3_5_text", "num_key_value_heads": 1,
        "head_dim": 16, "partial_rotary_factor": 0.5, "full_attention_interval": 2,
        "linear_num_key_heads": 3, "linear_num_value_heads": 3,
        "linear_key_head_dim": 8, "linear_value_head_dim": 40,
        "linear_conv_kernel_dim": 3, "intermediate_size": 96)"},
      {"sparse_latent", R"("model_type": "deepseek_v32", "num_key_value_heads": 4,
        "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
        "routed_scaling_factor": 2.5, "norm_topk_prob": true, "intermediate_size": 96,
        "index_head_dim": 16, "index_n_heads": 4, "index_topk": 24)"},
      {"experts_with_sinks", R"("model_type": "gpt_oss", "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size": 64, "num_local_experts": 6,
        "num_experts_per_tok": 2, "sliding_window": 16, "attention_bias": true,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": false,
          "original_max_position_embeddings": 128})"},
  };
}

}  // namespace ingot
