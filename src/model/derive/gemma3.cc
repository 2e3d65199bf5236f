// gemma3 (text): norms before and after, scaled embedding, local and global layers with
// their own RoPE (architectures.md 9).
#include <cmath>

#include "model/derive/families.h"

namespace ingot {
namespace {

void set_common(Decoder& d) {
  d.activation.kind = Activation::gelu_tanh;
  d.qk_norm = true;
  d.post_norms = true;
  // In float32, as the reference computes in float32 (a bfloat16 run would round it); so
  // a model is the same from every container.
  d.embed_scale = std::sqrt(float(d.hidden_size));
}

// Layers with a window use rope 1, the others rope 0.
void set_layers(Decoder& d, const std::vector<bool>& local, int window) {
  for (size_t i = 0; i < local.size(); ++i) {
    d.layers[i].window = local[i] ? window : 0;
    d.layers[i].rope = local[i] ? 1 : 0;
  }
}

std::vector<bool> local_layers(const Fields& config, const Decoder& d) {
  const int pattern =
      config.integer_or("sliding_window_pattern", 1, 512,
                        config.integer_or("_sliding_window_pattern", 1, 512, 6));
  const std::vector<std::string> types =
      layer_types(config, d.n_layers, {"full_attention", "sliding_attention"});
  std::vector<bool> local;
  for (int i = 0; i < d.n_layers; ++i)
    local.push_back(types.empty() ? (i + 1) % pattern != 0
                                  : types[size_t(i)] == "sliding_attention");
  return local;
}

// Global rope, then local rope.
std::vector<RopeRecipe> config_ropes(const Fields& config, const Decoder& d) {
  RopeDefaults global{
      .head_dim = d.head_dim, .theta = 1e6, .max_positions = double(d.max_positions)};
  RopeDefaults local = global;
  local.theta = config.real_or("rope_local_base_freq", 1e-3, 1e12, 1e4);
  const std::optional<Fields> parameters = config.object("rope_parameters");
  if (parameters && parameters->has("full_attention")) {
    global.theta = config.real_or("rope_theta", 1e-3, 1e12, global.theta);
    const RopeRecipe full =
        rope_from_parameters(*parameters->object("full_attention"), global);
    const std::optional<Fields> sliding = parameters->object("sliding_attention");
    parameters->refuse_unread();
    return {full, rope_from_parameters(sliding ? *sliding : empty_fields(), local)};
  }
  return {rope_from_config(config, global), rope_from_parameters(empty_fields(), local)};
}

}  // namespace

Recipe derive_gemma3_config(const Checkpoint& checkpoint, const Fields& stated,
                            const std::string& /*model_type*/) {
  // Published multimodal configs leave out what their class has as a default.
  nlohmann::json filled = {{"vocab_size", 262208},
                           {"num_attention_heads", 8},
                           {"num_key_value_heads", 4},
                           {"head_dim", 256}};
  filled.update(stated.raw());
  const Fields config(filled, stated.where());
  Decoder d = decoder_from_config(config, "gemma3");
  set_common(d);
  d.norm_add = 1.0f;  // stored around zero
  for (const std::string_view field : {"hidden_activation", "hidden_act"})
    if (activation_from(config, field, "gelu_pytorch_tanh").kind != Activation::gelu_tanh)
      config.refuse(field, "gelu_pytorch_tanh");
  d.tied = config.boolean_or("tie_word_embeddings", true);
  d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  d.attention_scale = float(1.0 / std::sqrt(config.real_or("query_pre_attn_scalar", 1e-6,
                                                           1e9, double(d.head_dim))));
  d.logit_softcap = float(config.real_or("final_logit_softcapping", 1e-3, 1e6, 0.0));
  config.only("attn_logit_softcapping", nullptr);
  config.only("use_bidirectional_attention", false);
  d.ropes = config_ropes(config, d);
  const std::vector<bool> local = local_layers(config, d);
  set_layers(d, local, config.integer_or("sliding_window", 1, 1 << 27, 4096));
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  DecoderNames names = hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight"));
  names.post_mixer_norm = "post_attention_layernorm";
  names.ffn_norm = "pre_feedforward_layernorm";
  names.post_ffn_norm = "post_feedforward_layernorm";
  return build_decoder(checkpoint, d, names);
}

Recipe derive_gemma3_gguf(const Checkpoint& checkpoint, const Fields& fields,
                          const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  refuse_experts(fields);
  set_common(d);
  // Scale: head_dim^-1/2, except the 27B size, whose 62 layers take hidden / heads.
  const double scalar = d.n_layers == 62 ? double(d.hidden_size) / d.n_heads : d.head_dim;
  d.attention_scale =
      float(fields.real_or("attention.scale", 1e-9, 1e9, 1.0 / std::sqrt(scalar)));
  d.logit_softcap = float(fields.real_or("final_logit_softcapping", 0.0, 1e6, 0.0));
  fields.only("attn_logit_softcapping", 0.0);
  const RopeRecipe global = rope_from_gguf(
      fields, checkpoint,
      {.head_dim = d.head_dim, .theta = 1e6, .max_positions = double(d.max_positions)});
  RopeRecipe local;
  local.theta = fields.real_or("rope.freq_base_swa", 1e-3, 1e12, 1e4);
  local.rotary_dims = d.head_dim;
  d.ropes = {global, local};
  const int window = fields.integer_or("attention.sliding_window", 0, 1 << 27, 0);
  std::vector<bool> layers = local_layers_from_gguf(fields, d.n_layers, 6);
  if (window == 0) layers.assign(size_t(d.n_layers), false);
  set_layers(d, layers, window);
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  return build_decoder(checkpoint, d, gguf_decoder_names());
}

}  // namespace ingot
