// llama (SmolLM2, Llama 3), mistral, qwen2, qwen3: one shape, few differences
// (architectures.md 4 to 6); in GGUF mixtral too (8).
#include "base/error.h"
#include "model/derive/families.h"

namespace ingot {
namespace {

// Windows per layer: layer_types wins; else the family's own rule.
void read_windows(const Fields& config, const std::string& model_type, Decoder& d) {
  const bool qwen = model_type == "qwen2" || model_type == "qwen3";
  const bool qwen_uses = qwen && config.boolean_or("use_sliding_window", false);
  const int window = config.integer_or("sliding_window", 1, 1 << 27, 0);
  const int first = config.integer_or("max_window_layers", 0, 1 << 16, 28);
  const std::vector<std::string> types =
      layer_types(config, d.n_layers, {"full_attention", "sliding_attention"});
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention") continue;
    if (window == 0)
      config.refuse("sliding_window", "a window, since layer_types uses one");
    d.layers[i].window = window;
  }
  if (!types.empty()) return;
  if (model_type == "mistral") {
    for (LayerPlan& layer : d.layers) layer.window = window;
  } else if (qwen_uses) {
    for (int i = first; i < d.n_layers; ++i) d.layers[size_t(i)].window = window;
  } else if (model_type == "llama" && window != 0) {
    config.refuse("sliding_window", "it absent (this model type has no window)");
  }
}

}  // namespace

Recipe derive_llama_config(const Checkpoint& checkpoint, const Fields& config,
                           const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.ropes = {rope_from_config(
      config, {.head_dim = d.head_dim, .max_positions = double(d.max_positions)})};
  if (model_type == "qwen2") {
    d.qkv_bias = true;  // always there, whatever the field says
    config.ignore({"attention_bias"});
  } else if (model_type != "mistral") {
    d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  }
  d.mlp_bias = model_type == "llama" && config.boolean_or("mlp_bias", false);
  d.qk_norm = model_type == "qwen3";
  read_windows(config, model_type, d);
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  return build_decoder(checkpoint, d,
                       hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight")));
}

Recipe derive_llama_gguf(const Checkpoint& checkpoint, const Fields& fields,
                         const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  // Rows of q and k come permuted in this architecture and are put back in half order
  // when they are read, so the rotation is the half-split one for all.
  d.interleaved_qk = architecture == "llama";
  d.ropes = {
      rope_from_gguf(fields, checkpoint,
                     {.head_dim = d.head_dim, .max_positions = double(d.max_positions)})};
  d.fused_qkv = checkpoint.find("blk.0.attn_qkv.weight") != nullptr;
  d.qkv_bias = checkpoint.find(d.fused_qkv ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias");
  d.output_bias = checkpoint.find("blk.0.attn_output.bias") != nullptr;
  d.mlp_bias = checkpoint.find("blk.0.ffn_down.bias") != nullptr;
  if (architecture == "qwen2" && !d.qkv_bias)
    fail("{}: tensor 'blk.0.attn_q.bias' is missing, wanted by the recipe",
         printable(checkpoint.path));
  d.qk_norm = architecture == "qwen3";
  if (architecture == "llama" && fields.integer_or("expert_count", 0, 4096, 0) > 0) {
    d.experts = experts_from_gguf(fields, d, RouterScore::softmax);
    d.experts->routing.normalise = true;
    for (LayerPlan& layer : d.layers) layer.experts = true;
  } else {
    refuse_experts(fields);
  }
  const int window = fields.integer_or("attention.sliding_window", 0, 1 << 27, 0);
  for (LayerPlan& layer : d.layers) layer.window = window;
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  return build_decoder(checkpoint, d, gguf_decoder_names());
}

}  // namespace ingot
