// qwen3_next, qwen3_5, qwen3_5_moe: three layers of the gated delta rule, one of gated
// attention; their MTP heads (architectures.md 11 to 13).
#include "base/error.h"
#include "model/derive/families.h"

namespace ingot {
namespace {

void set_common(Decoder& d) {
  d.qk_norm = true;
  d.gated_attention = true;
}

GatedDelta delta_from_config(const Fields& config, const std::string& model_type) {
  GatedDelta g;
  g.n_key_heads = config.integer_or("linear_num_key_heads", 1, 4096, 16);
  g.n_value_heads = config.integer_or("linear_num_value_heads", 1, 4096, 32);
  g.key_dim = config.integer_or("linear_key_head_dim", 1, 4096, 128);
  g.value_dim = config.integer_or("linear_value_head_dim", 1, 4096, 128);
  g.conv_kernel = config.integer_or("linear_conv_kernel_dim", 1, 64, 4);
  if (g.n_value_heads % g.n_key_heads != 0)
    config.refuse("linear_num_value_heads",
                  fmt::format("a multiple of the {} key heads", g.n_key_heads));
  g.grouped_qkvz = g.grouped_ba = model_type == "qwen3_next";
  g.decay = VectorMap::minus_exp;
  return g;
}

void read_layer_kinds(const Fields& config, Decoder& d) {
  const int interval = config.integer_or("full_attention_interval", 1, 512, 4);
  const std::vector<std::string> types =
      layer_types(config, d.n_layers, {"linear_attention", "full_attention"});
  for (int i = 0; i < d.n_layers; ++i)
    d.layers[size_t(i)].delta =
        types.empty() ? (i + 1) % interval != 0 : types[size_t(i)] == "linear_attention";
}

void read_experts(const Fields& config, const std::string& model_type, Decoder& d) {
  d.experts = experts_from_config(config, {"num_experts", "num_local_experts"},
                                  "moe_intermediate_size");
  Experts& e = *d.experts;
  e.shared_size = config.integer("shared_expert_intermediate_size", 0, 1 << 20);
  e.shared_gated = true;
  e.routing.normalise = config.boolean_or("norm_topk_prob", true);
  if (model_type != "qwen3_next" && !e.routing.normalise)
    config.refuse("norm_topk_prob", "true (this model type always normalises)");
  sparse_layers_from_config(config, d);
  d.mtp_layer.experts = e.routing.n_experts > 0;
  if (e.routing.n_experts > 0)
    check_experts(config, e, d.n_layers, "num_experts", "num_experts_per_tok");
}

DecoderNames config_names(const Checkpoint& checkpoint) {
  DecoderNames names = hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight"));
  ExpertNames& e = names.experts;
  e.shared_gate = "mlp.shared_expert.gate_proj";
  e.shared_up = "mlp.shared_expert.up_proj";
  e.shared_down = "mlp.shared_expert.down_proj";
  e.shared_sigmoid = "mlp.shared_expert_gate";
  names.mtp = {.prefix = "mtp.",
               .embed_norm = "pre_fc_norm_embedding",
               .hidden_norm = "pre_fc_norm_hidden",
               .project = "fc",
               .final_norm = "norm",
               .embed = "embed_tokens.weight",
               .head = "shared_head.head.weight"};
  for (const char* prefix : {"model.mtp.", "language_model.mtp."})
    if (checkpoint.find(std::string(prefix) + "fc.weight")) names.mtp.prefix = prefix;
  return names;
}

// MLX folds the 1 into the norms when it converts, and turns the convolution's weights
// from [channels, 1, kernel] to [channels, kernel, 1] (architectures.md 19.2).
bool norms_are_folded(const Checkpoint& checkpoint, const Decoder& d,
                      const DecoderNames& names) {
  for (int i = 0; i < d.n_layers; ++i) {
    const StoredTensor* conv = checkpoint.find(names.layer + std::to_string(i) + "." +
                                               names.delta.conv + ".weight");
    if (conv)
      return conv->view.shape.size() == 3 && conv->view.shape[2] == 1 &&
             conv->view.shape[1] != 1;
  }
  return false;
}

}  // namespace

Recipe derive_qwen_hybrid_config(const Checkpoint& checkpoint, const Fields& config,
                                 const std::string& model_type) {
  const bool moe =
      model_type == "qwen3_next" || model_type.find("moe") != std::string::npos;
  Decoder d = decoder_from_config(config, model_type, 256,
                                  moe ? MlpSize::optional : MlpSize::required);
  set_common(d);
  config.only("hidden_act", "silu");  // the convolution's too
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  RopeDefaults rope{
      .head_dim = d.head_dim, .theta = 1e7, .max_positions = double(d.max_positions)};
  rope.partial = config.real_or("partial_rotary_factor", 1e-6, 1.0, 0.25);
  d.ropes = {rope_from_config(config, rope)};
  d.delta = delta_from_config(config, model_type);
  read_layer_kinds(config, d);
  if (moe)
    read_experts(config, model_type, d);
  else
    config.only("mlp_only_layers", nlohmann::json::array());
  config.only("attn_output_gate", true);
  const std::string gate = config.text_or("output_gate_type", "swish");
  if (gate != "swish" && gate != "silu")
    config.refuse("output_gate_type", "swish or silu");
  config.only("use_sliding_window", false);
  config.ignore({"mamba_ssm_dtype", "mtp_num_hidden_layers", "num_nextn_predict_layers",
                 "mtp_use_dedicated_embeddings", "sliding_window", "max_window_layers"});
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  const DecoderNames names = config_names(checkpoint);
  d.norm_add = norms_are_folded(checkpoint, d, names) ? 0.0f : 1.0f;
  return build_decoder(checkpoint, d, names);
}

namespace {

GatedDelta delta_from_gguf(const Checkpoint& checkpoint, const Fields& fields,
                           const std::string& architecture) {
  GatedDelta g;
  g.conv_kernel = fields.integer("ssm.conv_kernel", 1, 64);
  g.key_dim = fields.integer("ssm.state_size", 1, 4096);
  g.n_key_heads = fields.integer("ssm.group_count", 1, 4096);
  g.n_value_heads = fields.integer("ssm.time_step_rank", 1, 4096);
  const int value_rows = fields.integer("ssm.inner_size", 1, 1 << 24);
  if (g.n_value_heads % g.n_key_heads != 0)
    fields.refuse("ssm.time_step_rank",
                  fmt::format("a multiple of the {} groups", g.n_key_heads));
  if (value_rows % g.n_value_heads != 0)
    fields.refuse("ssm.inner_size",
                  fmt::format("a multiple of the {} value heads", g.n_value_heads));
  g.value_dim = value_rows / g.n_value_heads;
  // Value heads come tiled, but for qwen3next, and stay so.
  const bool next = architecture == "qwen3next";
  g.tiled = !next;
  fields.only("ssm.v_head_reordered", !next);
  g.grouped_ba = next;
  if (next)  // older files keep the projection as Hugging Face has it
    for (const auto& [name, tensor] : checkpoint.tensors)
      if (name.ends_with(".ssm_in.weight")) g.grouped_qkvz = true;
  return g;
}

void read_gguf_layer_kinds(const Fields& fields, Decoder& d) {
  const int interval = fields.integer_or("full_attention_interval", 1, 512, 4);
  std::vector<int> recurrent;
  if (fields.has("attention.recurrent_layers")) {
    recurrent = fields.integers("attention.recurrent_layers", 0, 1);
    if (recurrent.size() < d.layers.size())
      fields.refuse("attention.recurrent_layers", "one flag a layer");
  }
  for (size_t i = 0; i < d.layers.size(); ++i)
    d.layers[i].delta =
        recurrent.empty() ? (int(i) + 1) % interval != 0 : recurrent[i] != 0;
}

}  // namespace

Recipe derive_qwen_hybrid_gguf(const Checkpoint& checkpoint, const Fields& fields,
                               const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  set_common(d);
  d.ropes = {
      rope_from_gguf(fields, checkpoint,
                     {.head_dim = d.head_dim, .max_positions = double(d.max_positions)})};
  d.delta = delta_from_gguf(checkpoint, fields, architecture);
  read_gguf_layer_kinds(fields, d);
  if (architecture != "qwen35") {
    d.experts = experts_from_gguf(fields, d, RouterScore::softmax);
    d.experts->routing.normalise = fields.boolean_or("expert_weights_norm", true);
    d.experts->shared_size = fields.integer_or("expert_shared_feed_forward_length", 0,
                                               1 << 20, d.intermediate_size);
    d.experts->shared_gated = true;
    fields.ignore({"expert_shared_count"});
    for (LayerPlan& layer : d.layers) layer.experts = true;
    d.mtp_layer.experts = true;
  } else {
    refuse_experts(fields);
  }
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  DecoderNames names = gguf_decoder_names();
  names.ffn_norm = "post_attention_norm";
  return build_decoder(checkpoint, d, names);
}

}  // namespace ingot
