// phi3 (Phi-3, Phi-4-mini): fused projections, longrope, a window on every layer.
#include "model/derive/families.h"

namespace ingot {
namespace {

void set_common(Decoder& d, int window) {
  d.fused_qkv = true;
  d.fused_gate_up = true;
  for (LayerPlan& layer : d.layers) layer.window = window;
}

}  // namespace

Recipe derive_phi3_config(const Checkpoint& checkpoint, const Fields& config,
                          const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type);
  const int window = config.integer_or("sliding_window", 1, 1 << 27, 0);
  set_common(d, window);
  layer_types(config, d.n_layers, {window > 0 ? "sliding_attention" : "full_attention"});
  d.norm_eps = config.real_or("rms_norm_eps", 1e-12, 0.1, 1e-5);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  RopeDefaults rope{.head_dim = d.head_dim, .max_positions = double(d.max_positions)};
  rope.partial = config.real_or("partial_rotary_factor", 1e-6, 1.0, 1.0);
  d.ropes = {rope_from_config(config, rope)};
  config.only("lm_head_bias", false);
  config.only("full_attn_mod", 1);  // of the code in the checkpoint's own repository
  config.only("interpolate_factor", 1);
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  return build_decoder(checkpoint, d,
                       hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight")));
}

Recipe derive_phi3_gguf(const Checkpoint& checkpoint, const Fields& fields,
                        const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  refuse_experts(fields);
  set_common(d, fields.integer_or("attention.sliding_window", 0, 1 << 27, 0));
  d.ropes = {
      rope_from_gguf(fields, checkpoint,
                     {.head_dim = d.head_dim, .max_positions = double(d.max_positions)})};
  d.fused_qkv = checkpoint.find("blk.0.attn_q.weight") == nullptr;
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  return build_decoder(checkpoint, d, gguf_decoder_names());
}

}  // namespace ingot
