// smollm3: llama without rotation on every fourth layer (architectures-more.md 6).
#include "base/error.h"
#include "model/derive/families.h"

namespace ingot {
namespace {

constexpr int kNoRopeStep = 4;

// 1 means that the layer rotates, whatever the field's name says.
void read_no_rope(const Fields& config, Decoder& d) {
  const int step = config.integer_or("no_rope_layer_interval", 1, 512, kNoRopeStep);
  std::vector<int> rotates;
  if (config.has("no_rope_layers"))
    rotates = config.integers("no_rope_layers", 0, 1);
  else
    for (int i = 0; i < d.n_layers; ++i) rotates.push_back((i + 1) % step != 0);
  if (rotates.size() != size_t(d.n_layers))
    config.refuse("no_rope_layers", fmt::format("{} entries, one a layer", d.n_layers));
  for (size_t i = 0; i < rotates.size(); ++i) d.layers[i].rope = rotates[i] ? 0 : -1;
}

void read_windows(const Fields& config, Decoder& d) {
  const bool uses = config.boolean_or("use_sliding_window", false);
  const int window = config.integer_or("sliding_window", 1, 1 << 27, 0);
  config.ignore({"max_window_layers"});
  const std::vector<std::string> types =
      layer_types(config, d.n_layers, {"full_attention", "sliding_attention"});
  for (size_t i = 0; i < d.layers.size(); ++i) {
    const bool local = types.empty() ? uses && window > 0 && d.layers[i].rope < 0
                                     : types[i] == "sliding_attention";
    if (!local) continue;
    if (window == 0)
      config.refuse("sliding_window", "a window, since layer_types uses one");
    d.layers[i].window = window;
  }
}

}  // namespace

Recipe derive_smollm3_config(const Checkpoint& checkpoint, const Fields& config,
                             const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type);
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", true);
  d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  d.mlp_bias = config.boolean_or("mlp_bias", false);
  d.ropes = {rope_from_config(
      config,
      {.head_dim = d.head_dim, .theta = 2e6, .max_positions = double(d.max_positions)})};
  read_no_rope(config, d);
  read_windows(config, d);
  check_heads(d, config, "num_key_value_heads", "head_dim");
  config.refuse_unread();
  return build_decoder(checkpoint, d,
                       hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight")));
}

Recipe derive_smollm3_gguf(const Checkpoint& checkpoint, const Fields& fields,
                           const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  refuse_experts(fields);
  d.interleaved_qk = true;  // permuted, as for architecture llama
  d.qkv_bias = checkpoint.find("blk.0.attn_q.bias") != nullptr;
  d.output_bias = checkpoint.find("blk.0.attn_output.bias") != nullptr;
  d.mlp_bias = checkpoint.find("blk.0.ffn_down.bias") != nullptr;
  d.ropes = {
      rope_from_gguf(fields, checkpoint,
                     {.head_dim = d.head_dim, .max_positions = double(d.max_positions)})};
  for (int i = 0; i < d.n_layers; ++i)
    if ((i + 1) % kNoRopeStep == 0) d.layers[size_t(i)].rope = -1;
  fields.only("attention.sliding_window", 0);
  check_heads(d, fields, "attention.head_count_kv", "attention.key_length");
  fields.refuse_unread();
  return build_decoder(checkpoint, d, gguf_decoder_names());
}

}  // namespace ingot
