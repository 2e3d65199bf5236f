// olmo3: norms after the blocks alone, q/k norms over the whole projection, windows on
// three of four layers, scaling of the rotation on the others (architectures-more.md 5).
#include "model/derive/families.h"

namespace ingot {
namespace {

void set_common(Decoder& d) {
  d.pre_norms = false;
  d.post_norms = true;
  d.qk_norm = true;
  d.norm_span = HeadNormSpan::projection;
}

// Layers with a window use rope 1, the others rope 0.
void set_layers(Decoder& d, const std::vector<bool>& local, int window) {
  for (size_t i = 0; i < local.size(); ++i)
    d.layers[i] = {.rope = local[i] ? 1 : 0, .window = local[i] ? window : 0};
}

std::vector<RopeRecipe> config_ropes(const Fields& config, const Decoder& d) {
  RopeDefaults defaults{
      .head_dim = d.head_dim, .theta = 5e5, .max_positions = double(d.max_positions)};
  const std::optional<Fields> parameters = config.object("rope_parameters");
  if (parameters && parameters->has("full_attention")) {
    const std::optional<Fields> sliding = parameters->object("sliding_attention");
    const RopeRecipe full =
        rope_from_parameters(*parameters->object("full_attention"), defaults);
    parameters->refuse_unread();
    defaults.theta = full.theta;
    return {full, rope_from_parameters(sliding ? *sliding : empty_fields(), defaults)};
  }
  const RopeRecipe full = rope_from_config(config, defaults);
  defaults.theta = full.theta;
  return {full, rope_from_parameters(empty_fields(), defaults)};
}

}  // namespace

Recipe derive_olmo3_config(const Checkpoint& checkpoint, const Fields& config,
                           const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type);
  set_common(d);
  d.norm_eps = config.real_or("rms_norm_eps", 1e-12, 0.1, 1e-5);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  d.ropes = config_ropes(config, d);
  const std::vector<std::string> types =
      layer_types(config, d.n_layers, {"full_attention", "sliding_attention"});
  std::vector<bool> local;
  for (int i = 0; i < d.n_layers; ++i)
    local.push_back(types.empty() ? (i + 1) % 4 != 0
                                  : types[size_t(i)] == "sliding_attention");
  set_layers(d, local, config.integer_or("sliding_window", 1, 1 << 27, 4096));
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  DecoderNames names = hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight"));
  names.post_mixer_norm = "post_attention_layernorm";
  names.post_ffn_norm = "post_feedforward_layernorm";
  return build_decoder(checkpoint, d, names);
}

// Architecture "olmo2"; Olmo 2 itself has no windows, and is else the same.
Recipe derive_olmo3_gguf(const Checkpoint& checkpoint, const Fields& fields,
                         const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  refuse_experts(fields);
  set_common(d);
  const RopeRecipe full =
      rope_from_gguf(fields, checkpoint,
                     {.head_dim = d.head_dim, .max_positions = double(d.max_positions)});
  RopeRecipe sliding;
  sliding.theta = fields.real_or("rope.freq_base_swa", 1e-3, 1e12, full.theta);
  sliding.rotary_dims = full.rotary_dims;
  d.ropes = {full, sliding};
  const int window = fields.integer_or("attention.sliding_window", 0, 1 << 27, 0);
  std::vector<bool> local = local_layers_from_gguf(fields, d.n_layers, 4);
  if (window == 0) local.assign(size_t(d.n_layers), false);
  set_layers(d, local, window);
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  return build_decoder(checkpoint, d, gguf_decoder_names());
}

}  // namespace ingot
