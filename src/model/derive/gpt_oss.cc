// gpt_oss: sinks, biases everywhere, a clamped activation, yarn without whole-pair
// bounds, every second layer local (architectures.md 10).
#include "model/derive/families.h"

namespace ingot {
namespace {

constexpr double kSwigluLimit = 7.0;
constexpr double kSwigluAlpha = 1.702;

void set_common(Decoder& d) {
  d.activation = {.limit = float(kSwigluLimit), .alpha = float(kSwigluAlpha)};
  d.qkv_bias = d.output_bias = true;
  d.sinks = true;
  d.experts->bias = true;
  d.experts->routing.score = RouterScore::softmax_chosen;
  for (LayerPlan& layer : d.layers) layer.experts = true;
}

// What the family rotates by where its config is silent.
const nlohmann::json& default_scaling() {
  static const nlohmann::json scaling = {
      {"rope_type", "yarn"}, {"factor", 32.0},
      {"beta_fast", 32.0},   {"beta_slow", 1.0},
      {"truncate", false},   {"original_max_position_embeddings", 4096}};
  return scaling;
}

RopeRecipe config_rope(const Fields& config, const Decoder& d) {
  RopeDefaults defaults{
      .head_dim = d.head_dim, .theta = 1.5e5, .max_positions = double(d.max_positions)};
  if (config.has("rope_parameters") || config.has("rope_scaling"))
    return rope_from_config(config, defaults);
  defaults.theta = config.real_or("rope_theta", 1e-3, 1e12, defaults.theta);
  return rope_from_parameters(Fields(default_scaling(), config.where()), defaults);
}

}  // namespace

Recipe derive_gpt_oss_config(const Checkpoint& checkpoint, const Fields& config,
                             const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type, 64);
  d.norm_eps = config.real_or("rms_norm_eps", 1e-12, 0.1, 1e-5);
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.experts = experts_from_config(config, {"num_local_experts", "num_experts"},
                                  "intermediate_size");
  check_experts(config, *d.experts, d.n_layers, "num_local_experts",
                "num_experts_per_tok");
  d.experts->alternating = true;
  set_common(d);
  d.activation.limit = float(config.real_or("swiglu_limit", 1e-3, 1e6, kSwigluLimit));
  d.activation.alpha = float(config.real_or("swiglu_alpha", 1e-3, 1e6, kSwigluAlpha));
  config.only("hidden_act", "silu");  // the clamped form of it
  config.only("attention_bias", true);
  d.ropes = {config_rope(config, d)};
  const int window = config.integer_or("sliding_window", 1, 1 << 27, 128);
  const std::vector<std::string> types =
      layer_types(config, d.n_layers, {"full_attention", "sliding_attention"});
  for (size_t i = 0; i < d.layers.size(); ++i) {
    const bool local = types.empty() ? i % 2 == 0 : types[i] == "sliding_attention";
    d.layers[i].window = local ? window : 0;
  }
  config.ignore({"initial_context_length"});
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  DecoderNames names = hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight"));
  names.experts.router = "mlp.router";
  return build_decoder(checkpoint, d, names);
}

Recipe derive_gpt_oss_gguf(const Checkpoint& checkpoint, const Fields& fields,
                           const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  d.experts = experts_from_gguf(fields, d, RouterScore::softmax_chosen);
  set_common(d);
  RopeRecipe rope =
      rope_from_gguf(fields, checkpoint,
                     {.head_dim = d.head_dim, .max_positions = double(d.max_positions)});
  rope.truncate = false;  // no key says so; the family's own config does
  d.ropes = {rope};
  const int window = fields.integer("attention.sliding_window", 1, 1 << 27);
  const std::vector<bool> local = local_layers_from_gguf(fields, d.n_layers, 2);
  for (size_t i = 0; i < local.size(); ++i) d.layers[i].window = local[i] ? window : 0;
  fields.only("expert_weights_norm", false);
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  DecoderNames names = gguf_decoder_names();
  names.ffn_norm = "post_attention_norm";
  return build_decoder(checkpoint, d, names);
}

}  // namespace ingot
