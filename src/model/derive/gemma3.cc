// gemma3 (text): norms before and after, scaled embedding, local and global layers with
// their own RoPE (architectures.md 9).
#include <cmath>

#include "base/error.h"
#include "model/derive/decoder.h"

namespace ingot {
namespace {

void set_common(Decoder& d) {
  d.activation = Activation::gelu_tanh;
  d.qk_norm = true;
  d.post_norms = true;
  // In float32, as the reference computes in float32 (a bfloat16 run would round it); so
  // a model is the same from every container.
  d.embed_scale = std::sqrt(float(d.hidden_size));
}

// Layers with a window use rope 1, the others rope 0.
void set_layers(Decoder& d, const std::vector<bool>& local, int window) {
  for (size_t i = 0; i < local.size(); ++i) {
    d.layer_window[i] = local[i] ? window : 0;
    d.layer_rope[i] = local[i] ? 1 : 0;
  }
}

std::vector<bool> pattern_layers(int n_layers, int pattern) {
  std::vector<bool> local;
  for (int i = 0; i < n_layers; ++i) local.push_back((i + 1) % pattern != 0);
  return local;
}

std::vector<bool> local_layers(const Fields& config, const Decoder& d) {
  const int pattern =
      config.integer_or("sliding_window_pattern", 1, 512,
                        config.integer_or("_sliding_window_pattern", 1, 512, 6));
  if (!config.has("layer_types")) return pattern_layers(d.n_layers, pattern);
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != size_t(d.n_layers))
    config.refuse("layer_types", fmt::format("{} entries, one a layer", d.n_layers));
  std::vector<bool> local;
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention")
      config.refuse("layer_types", "full_attention or sliding_attention only");
    local.push_back(type == "sliding_attention");
  }
  return local;
}

// Global rope, then local rope.
std::vector<RopeRecipe> config_ropes(const Fields& config, int head_dim) {
  const double theta = config.real_or("rope_theta", 1e-3, 1e12, 1e6);
  const double local_theta = config.real_or("rope_local_base_freq", 1e-3, 1e12, 1e4);
  RopeRecipe local;
  local.theta = local_theta;
  local.rotary_dims = head_dim;
  const std::optional<Fields> parameters = config.object("rope_parameters");
  if (parameters && parameters->has("full_attention")) {
    const Fields full = *parameters->object("full_attention");
    const RopeRecipe global = rope_from_parameters(full, head_dim, theta);
    if (const std::optional<Fields> sliding = parameters->object("sliding_attention"))
      local = rope_from_parameters(*sliding, head_dim, local_theta);
    parameters->refuse_unread();
    return {global, local};
  }
  return {rope_from_config(config, head_dim, 1e6), local};
}

}  // namespace

Recipe derive_gemma3_config(const Checkpoint& checkpoint, const Fields& config) {
  Decoder d = decoder_from_config(config, "gemma3");
  set_common(d);
  d.norm_add = 1.0f;  // stored around zero
  if (activation_from(config, "hidden_activation", "gelu_pytorch_tanh") !=
          Activation::gelu_tanh ||
      activation_from(config, "hidden_act", "gelu_pytorch_tanh") != Activation::gelu_tanh)
    config.refuse("hidden_activation", "gelu_pytorch_tanh");
  d.tied = config.boolean_or("tie_word_embeddings", true);
  d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  d.attention_scale = float(1.0 / std::sqrt(config.real_or("query_pre_attn_scalar", 1e-6,
                                                           1e9, double(d.head_dim))));
  d.logit_softcap = float(config.real_or("final_logit_softcapping", 1e-3, 1e6, 0.0));
  config.only("attn_logit_softcapping", nullptr);
  config.only("use_bidirectional_attention", false);
  d.ropes = config_ropes(config, d.head_dim);
  const std::vector<bool> local = local_layers(config, d);
  set_layers(d, local, config.integer_or("sliding_window", 1, 1 << 27, 4096));
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  DecoderNames names = hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight"));
  names.post_mixer_norm = "post_attention_layernorm";
  names.ffn_norm = "pre_feedforward_layernorm";
  names.post_ffn_norm = "post_feedforward_layernorm";
  return build_decoder(d, names);
}

Recipe derive_gemma3_gguf(const Checkpoint& checkpoint, const Fields& fields) {
  Decoder d = decoder_from_gguf(checkpoint, fields, "gemma3");
  set_common(d);
  d.norm_eps = fields.real("attention.layer_norm_rms_epsilon", 1e-12, 0.1);
  // Scale: head_dim^-1/2, except the 27B size, whose 62 layers take hidden / heads.
  const double scalar = d.n_layers == 62 ? double(d.hidden_size) / d.n_heads : d.head_dim;
  d.attention_scale =
      float(fields.real_or("attention.scale", 1e-9, 1e9, 1.0 / std::sqrt(scalar)));
  d.logit_softcap = float(fields.real_or("final_logit_softcapping", 0.0, 1e6, 0.0));
  fields.only("attn_logit_softcapping", 0.0);
  RopeRecipe global =
      rope_from_gguf(fields, checkpoint, d.head_dim, RopePairing::half_split);
  if (!fields.has("rope.freq_base")) global.theta = 1e6;
  RopeRecipe local;
  local.theta = fields.real_or("rope.freq_base_swa", 1e-3, 1e12, 1e4);
  local.rotary_dims = d.head_dim;
  d.ropes = {global, local};
  const int window = fields.integer_or("attention.sliding_window", 0, 1 << 27, 0);
  std::vector<bool> layers = pattern_layers(d.n_layers, 6);
  if (fields.has("attention.sliding_window_pattern")) {
    const std::vector<int> pattern =
        fields.integers("attention.sliding_window_pattern", 0, 512);
    if (pattern.size() == 1 && pattern[0] > 1) {
      layers = pattern_layers(d.n_layers, pattern[0]);
    } else {
      if (pattern.size() != size_t(d.n_layers))
        fields.refuse("attention.sliding_window_pattern",
                      fmt::format("one number, or {} flags, one a layer", d.n_layers));
      for (size_t i = 0; i < layers.size(); ++i) layers[i] = pattern[i] != 0;
    }
  }
  if (window == 0) layers.assign(size_t(d.n_layers), false);
  set_layers(d, layers, window);
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  return build_decoder(d, gguf_decoder_names());
}

}  // namespace ingot
