// qwen3_moe, mixtral, glm4_moe, minimax_m2: ordinary attention, experts for an MLP
// (architectures.md 2.6, 7, 8; -more.md 2.1, 3, 4).
#include <algorithm>

#include "base/error.h"
#include "model/derive/families.h"

namespace ingot {
namespace {

RopeDefaults rope_defaults(const Decoder& d, double theta) {
  return {
      .head_dim = d.head_dim, .theta = theta, .max_positions = double(d.max_positions)};
}

Recipe finish_config(const Checkpoint& checkpoint, const Fields& config, const Decoder& d,
                     const DecoderNames& names) {
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  return build_decoder(checkpoint, d, names);
}

Recipe finish_gguf(const Checkpoint& checkpoint, const Fields& fields, const Decoder& d,
                   const DecoderNames& names) {
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  return build_decoder(checkpoint, d, names);
}

DecoderNames hf_names(const Checkpoint& checkpoint) {
  return hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight"));
}

// Mixtral's layout, MiniMax's too: w1 gate, w3 up, w2 down.
DecoderNames block_sparse_names(const Checkpoint& checkpoint) {
  DecoderNames names = hf_names(checkpoint);
  ExpertNames& e = names.experts;
  e.router = "block_sparse_moe.gate";
  e.selection_bias = "block_sparse_moe.e_score_correction_bias";
  e.one = "block_sparse_moe.experts.";
  e.gate = "w1";
  e.up = "w3";
  e.down = "w2";
  e.stacks = {"block_sparse_moe.experts.", "block_sparse_moe.switch_mlp."};
  return names;
}

void set_sigmoid_routing(Experts& experts, double normalise_eps) {
  experts.routing.score = RouterScore::sigmoid;
  experts.routing.normalise_eps = float(normalise_eps);
  experts.selection_bias = true;
}

void all_layers_have_experts(Decoder& d) {
  for (LayerPlan& layer : d.layers) layer.experts = true;
}

}  // namespace

void sparse_layers_from_config(const Fields& config, Decoder& d) {
  const int step = config.integer_or("decoder_sparse_step", 1, 1 << 16, 1);
  std::vector<int> dense;
  if (config.has("mlp_only_layers"))
    dense = config.integers("mlp_only_layers", 0, d.n_layers - 1);
  for (int i = 0; i < d.n_layers; ++i)
    d.layers[size_t(i)].experts = d.experts->routing.n_experts > 0 &&
                                  (i + 1) % step == 0 &&
                                  std::find(dense.begin(), dense.end(), i) == dense.end();
}

void leading_dense_layers(const Fields& config, Decoder& d) {
  const int n_dense = config.integer_or("first_k_dense_replace", 0, 1 << 16, 0);
  for (int i = 0; i < d.n_layers; ++i) d.layers[size_t(i)].experts = i >= n_dense;
  d.mtp_layer.experts = true;
  if (!config.has("mlp_layer_types")) return;
  const std::vector<std::string> types = config.texts("mlp_layer_types");
  if (types.size() != size_t(d.n_layers))
    config.refuse("mlp_layer_types", fmt::format("{} entries, one a layer", d.n_layers));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "dense" && types[i] != "sparse")
      config.refuse("mlp_layer_types", "dense or sparse only");
    d.layers[i].experts = types[i] == "sparse";
  }
}

Experts noaux_experts_from_config(const Fields& config, const Decoder& d) {
  Experts e = experts_from_config(
      config, {"n_routed_experts", "num_experts", "num_local_experts"},
      "moe_intermediate_size");
  set_sigmoid_routing(e, 1e-20);
  groups_from_config(config, e);
  e.routing.normalise = config.boolean_or("norm_topk_prob", true);
  e.routing.scale = float(config.real_or("routed_scaling_factor", 1e-6, 1e6, 1.0));
  e.shared_size = e.intermediate_size * config.integer_or("n_shared_experts", 0, 64, 1);
  config.only("scoring_func", "sigmoid");
  config.only("topk_method", "noaux_tc");
  config.only("moe_layer_freq", 1);
  config.ignore({"num_nextn_predict_layers", "num_mtp_layers"});  // tensors tell
  check_experts(config, e, d.n_layers, "n_routed_experts", "num_experts_per_tok");
  return e;
}

Experts noaux_experts_from_gguf(const Fields& fields, Decoder& d) {
  Experts e = experts_from_gguf(fields, d, RouterScore::sigmoid);
  set_sigmoid_routing(e, 1e-20);
  // Written where it is true alone.
  e.routing.normalise = fields.boolean_or("expert_weights_norm", false);
  e.shared_size =
      e.intermediate_size * fields.integer_or("expert_shared_count", 0, 64, 0);
  const int n_dense = fields.integer_or("leading_dense_block_count", 0, 512, 0);
  for (int i = 0; i < d.n_layers; ++i) d.layers[size_t(i)].experts = i >= n_dense;
  d.mtp_layer.experts = true;
  return e;
}

Recipe derive_qwen3_moe_config(const Checkpoint& checkpoint, const Fields& config,
                               const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.qk_norm = true;
  d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  d.ropes = {rope_from_config(config, rope_defaults(d, 1e4))};
  d.experts = experts_from_config(config, {"num_experts", "num_local_experts"},
                                  "moe_intermediate_size");
  d.experts->routing.normalise = config.boolean_or("norm_topk_prob", false);
  sparse_layers_from_config(config, d);
  if (d.experts->routing.n_experts > 0)
    check_experts(config, *d.experts, d.n_layers, "num_experts", "num_experts_per_tok");
  // One window for all layers; max_window_layers has no say here.
  const bool uses = config.boolean_or("use_sliding_window", false);
  const int window = config.integer_or("sliding_window", 1, 1 << 27, 0);
  config.ignore({"max_window_layers"});
  if (uses)
    for (LayerPlan& layer : d.layers) layer.window = window;
  layer_types(config, d.n_layers,
              {uses && window > 0 ? "sliding_attention" : "full_attention"});
  return finish_config(checkpoint, config, d, hf_names(checkpoint));
}

Recipe derive_qwen3_moe_gguf(const Checkpoint& checkpoint, const Fields& fields,
                             const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  d.qk_norm = true;
  d.qkv_bias = checkpoint.find("blk.0.attn_q.bias") != nullptr;
  d.output_bias = checkpoint.find("blk.0.attn_output.bias") != nullptr;
  d.ropes = {rope_from_gguf(fields, checkpoint, rope_defaults(d, 1e4))};
  d.experts = experts_from_gguf(fields, d, RouterScore::softmax);
  d.experts->routing.normalise = fields.boolean_or("expert_weights_norm", true);
  all_layers_have_experts(d);
  fields.only("attention.sliding_window", 0);
  return finish_gguf(checkpoint, fields, d, gguf_decoder_names());
}

Recipe derive_mixtral_config(const Checkpoint& checkpoint, const Fields& config,
                             const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type);
  d.norm_eps = config.real_or("rms_norm_eps", 1e-12, 0.1, 1e-5);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.ropes = {rope_from_config(config, rope_defaults(d, 1e6))};
  d.experts = experts_from_config(config, {"num_local_experts", "num_experts"},
                                  "intermediate_size");
  d.experts->routing.normalise = true;
  check_experts(config, *d.experts, d.n_layers, "num_local_experts",
                "num_experts_per_tok");
  all_layers_have_experts(d);
  const int window = config.integer_or("sliding_window", 1, 1 << 27, 0);
  for (LayerPlan& layer : d.layers) layer.window = window;
  layer_types(config, d.n_layers, {window > 0 ? "sliding_attention" : "full_attention"});
  return finish_config(checkpoint, config, d, block_sparse_names(checkpoint));
}

Recipe derive_glm4_moe_config(const Checkpoint& checkpoint, const Fields& config,
                              const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type);
  d.norm_eps = config.real_or("rms_norm_eps", 1e-12, 0.1, 1e-5);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.qkv_bias = config.boolean_or("attention_bias", false);  // never of o_proj
  d.qk_norm = config.boolean_or("use_qk_norm", false);
  RopeDefaults rope = rope_defaults(d, 1e4);
  rope.partial = config.real_or("partial_rotary_factor", 1e-6, 1.0, 0.5);
  d.ropes = {rope_from_config(config, rope)};
  d.experts = noaux_experts_from_config(config, d);
  leading_dense_layers(config, d);
  layer_types(config, d.n_layers, {"full_attention"});
  return finish_config(checkpoint, config, d, hf_names(checkpoint));
}

Recipe derive_glm4_moe_gguf(const Checkpoint& checkpoint, const Fields& fields,
                            const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  d.qkv_bias = checkpoint.find("blk.0.attn_q.bias") != nullptr;
  d.qk_norm = checkpoint.find("blk.0.attn_q_norm.weight") != nullptr;
  d.ropes = {rope_from_gguf(fields, checkpoint, rope_defaults(d, 1e4))};
  d.experts = noaux_experts_from_gguf(fields, d);
  DecoderNames names = gguf_decoder_names();
  names.ffn_norm = "post_attention_norm";
  return finish_gguf(checkpoint, fields, d, names);
}

Recipe derive_minimax_m2_config(const Checkpoint& checkpoint, const Fields& config,
                                const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type, 128);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.qk_norm = true;
  d.norm_span = HeadNormSpan::projection;
  // Published configs say how many dimensions turn, others which part of them.
  RopeDefaults rope = rope_defaults(d, 5e6);
  rope.partial = config.real_or("partial_rotary_factor", 1e-6, 1.0, 1.0);
  if (config.has("rotary_dim")) {
    const int dims = config.integer("rotary_dim", 2, d.head_dim);
    if (dims % 2 != 0) config.refuse("rotary_dim", "an even number");
    rope.partial = double(dims) / d.head_dim;
    d.ropes = {rope_from_config(config, rope)};
    if (d.ropes[0].rotary_dims != dims || config.has("partial_rotary_factor"))
      config.refuse("rotary_dim", "it to agree with partial_rotary_factor, or alone");
  } else {
    d.ropes = {rope_from_config(config, rope)};
  }
  d.experts = experts_from_config(config, {"num_local_experts", "num_experts"},
                                  "intermediate_size");
  set_sigmoid_routing(*d.experts, 0.0);
  d.experts->routing.normalise = true;
  check_experts(config, *d.experts, d.n_layers, "num_local_experts",
                "num_experts_per_tok");
  all_layers_have_experts(d);
  layer_types(config, d.n_layers, {"full_attention"});
  // Fields of the family's older models, at the values that mean nothing here.
  if (config.has("attn_type_list") &&
      config.integers("attn_type_list", 1, 1).size() != size_t(d.n_layers))
    config.refuse("attn_type_list", fmt::format("{} entries, one a layer", d.n_layers));
  for (const char* name :
       {"layernorm_full_attention_alpha", "layernorm_full_attention_beta",
        "layernorm_linear_attention_alpha", "layernorm_linear_attention_beta",
        "layernorm_mlp_alpha", "layernorm_mlp_beta"})
    config.only(name, 1.0);
  config.only("shared_intermediate_size", 0);
  config.only("use_qk_norm", true);
  config.only("use_routing_bias", true);
  config.only("qk_norm_type", "per_layer");
  config.only("scoring_func", "sigmoid");
  config.ignore({"mlp_intermediate_size", "shared_moe_mode", "use_mtp", "num_mtp_modules",
                 "mtp_transformer_layers"});
  return finish_config(checkpoint, config, d, block_sparse_names(checkpoint));
}

Recipe derive_minimax_m2_gguf(const Checkpoint& checkpoint, const Fields& fields,
                              const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  d.qk_norm = true;
  d.norm_span = HeadNormSpan::projection;
  d.ropes = {rope_from_gguf(fields, checkpoint, rope_defaults(d, 5e6))};
  d.experts = experts_from_gguf(fields, d, RouterScore::sigmoid);
  set_sigmoid_routing(*d.experts, 0.0);
  d.experts->routing.normalise = true;
  all_layers_have_experts(d);
  return finish_gguf(checkpoint, fields, d, gguf_decoder_names());
}

}  // namespace ingot
