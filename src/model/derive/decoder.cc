#include "model/derive/decoder.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace ingot {
namespace {

NormRecipe norm(const Decoder& d, const std::string& name, int width) {
  NormRecipe out{
      d.norm_kind, float(d.norm_eps), {name + ".weight", width, d.norm_add, 0}, {}};
  if (d.norm_kind == NormKind::layer)
    out.bias = VectorSource{name + ".bias", width, 0.0f, 0};
  return out;
}

void add_part(LinearRecipe& linear, const Decoder& d, const std::string& name, int n_rows,
              int n_cols, bool bias, int interleaved_heads = 0) {
  linear.parts.push_back(
      {name + ".weight", n_rows, n_cols, d.transposed, interleaved_heads});
  if (bias) linear.bias.push_back({name + ".bias", n_rows, 0.0f, interleaved_heads});
}

AttentionRecipe attention(const Decoder& d, const DecoderNames& names,
                          const std::string& layer, size_t i) {
  AttentionRecipe out;
  out.n_heads = d.n_heads;
  out.n_kv_heads = d.n_kv_heads;
  out.head_dim = d.head_dim;
  out.scale = d.attention_scale > 0 ? d.attention_scale
                                    : float(1.0 / std::sqrt(double(d.head_dim)));
  out.window = d.layer_window[i];
  out.rope = d.layer_rope[i];
  const int q_rows = d.n_heads * d.head_dim;
  const int kv_rows = d.n_kv_heads * d.head_dim;
  if (d.fused_qkv) {
    add_part(out.qkv, d, layer + names.qkv, q_rows + 2 * kv_rows, d.hidden_size,
             d.qkv_bias);
  } else {
    const int q_heads = d.interleaved_qk ? d.n_heads : 0;
    const int k_heads = d.interleaved_qk ? d.n_kv_heads : 0;
    add_part(out.qkv, d, layer + names.q, q_rows, d.hidden_size, d.qkv_bias, q_heads);
    add_part(out.qkv, d, layer + names.k, kv_rows, d.hidden_size, d.qkv_bias, k_heads);
    add_part(out.qkv, d, layer + names.v, kv_rows, d.hidden_size, d.qkv_bias);
  }
  add_part(out.output, d, layer + names.o, d.hidden_size, q_rows, d.output_bias);
  if (d.qk_norm) {
    out.q_norm = norm(d, layer + names.q_norm, d.head_dim);
    out.k_norm = norm(d, layer + names.k_norm, d.head_dim);
  }
  return out;
}

MlpRecipe mlp(const Decoder& d, const DecoderNames& names, const std::string& layer) {
  MlpRecipe out;
  out.intermediate_size = d.intermediate_size;
  out.activation = d.activation;
  out.gated = d.gated;
  if (d.gated)
    add_part(out.input, d, layer + names.gate, d.intermediate_size, d.hidden_size,
             d.mlp_bias);
  add_part(out.input, d, layer + names.up, d.intermediate_size, d.hidden_size,
           d.mlp_bias);
  add_part(out.down, d, layer + names.down, d.hidden_size, d.intermediate_size,
           d.mlp_bias);
  return out;
}

}  // namespace

DecoderNames hf_decoder_names(const std::string& prefix) {
  DecoderNames n;
  n.embed = prefix + "embed_tokens.weight";
  n.final_norm = prefix + "norm";
  // The head stands beside the model: "model.norm" and "lm_head".
  n.head = prefix.ends_with("model.")
               ? prefix.substr(0, prefix.size() - 6) + "lm_head.weight"
               : "lm_head.weight";
  n.layer = prefix + "layers.";
  n.input_norm = "input_layernorm";
  n.ffn_norm = "post_attention_layernorm";
  n.q = "self_attn.q_proj";
  n.k = "self_attn.k_proj";
  n.v = "self_attn.v_proj";
  n.o = "self_attn.o_proj";
  n.q_norm = "self_attn.q_norm";
  n.k_norm = "self_attn.k_norm";
  n.gate = "mlp.gate_proj";
  n.up = "mlp.up_proj";
  n.down = "mlp.down_proj";
  return n;
}

DecoderNames gguf_decoder_names() {
  DecoderNames n;
  n.embed = "token_embd.weight";
  n.position_embed = "position_embd.weight";
  n.final_norm = "output_norm";
  n.head = "output.weight";
  n.layer = "blk.";
  n.input_norm = "attn_norm";
  n.ffn_norm = "ffn_norm";
  n.q = "attn_q";
  n.k = "attn_k";
  n.v = "attn_v";
  n.qkv = "attn_qkv";
  n.o = "attn_output";
  n.q_norm = "attn_q_norm";
  n.k_norm = "attn_k_norm";
  n.post_mixer_norm = "post_attention_norm";
  n.post_ffn_norm = "post_ffw_norm";
  n.gate = "ffn_gate";
  n.up = "ffn_up";
  n.down = "ffn_down";
  n.rope_freqs = "rope_freqs.weight";
  return n;
}

Recipe build_decoder(const Decoder& d, const DecoderNames& names) {
  Recipe recipe;
  recipe.family = d.family;
  recipe.vocab_size = d.vocab_size;
  recipe.hidden_size = d.hidden_size;
  recipe.max_positions = d.max_positions;
  recipe.embed = {names.embed, d.vocab_size, d.hidden_size, false, 0};
  recipe.embed_scale = d.embed_scale;
  recipe.ropes = d.ropes;
  if (d.learned_positions)
    recipe.position_embed =
        MatrixSource{names.position_embed, d.max_positions, d.hidden_size, false, 0};
  for (size_t i = 0; i < size_t(d.n_layers); ++i) {
    const std::string prefix = names.layer + std::to_string(i) + ".";
    LayerRecipe layer;
    layer.input_norm = norm(d, prefix + names.input_norm, d.hidden_size);
    layer.mixer = attention(d, names, prefix, i);
    layer.ffn_norm = norm(d, prefix + names.ffn_norm, d.hidden_size);
    layer.ffn = mlp(d, names, prefix);
    if (d.post_norms) {
      layer.post_mixer_norm = norm(d, prefix + names.post_mixer_norm, d.hidden_size);
      layer.post_ffn_norm = norm(d, prefix + names.post_ffn_norm, d.hidden_size);
    }
    recipe.layers.push_back(std::move(layer));
  }
  recipe.final_norm = norm(d, names.final_norm, d.hidden_size);
  if (!d.tied)
    recipe.head = LinearRecipe{{{names.head, d.vocab_size, d.hidden_size, false, 0}}, {}};
  recipe.logit_softcap = d.logit_softcap;
  return recipe;
}

void check_heads(const Decoder& d, const Fields& fields, std::string_view kv_field,
                 std::string_view head_dim_field) {
  if (d.n_heads % d.n_kv_heads != 0)
    fields.refuse(kv_field,
                  fmt::format("a divisor of the {} attention heads", d.n_heads));
  if (d.head_dim % 2 != 0 && !d.ropes.empty())
    fields.refuse(head_dim_field, "an even head size (rotary pairs)");
}

Activation activation_from(const Fields& config, std::string_view field,
                           std::string_view fallback) {
  const std::string name = config.text_or(field, fallback);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu_erf;
  config.refuse(field, "silu, gelu_pytorch_tanh, gelu_new or gelu");
}

std::string hf_prefix(const Checkpoint& checkpoint, std::string_view embed_name) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"model.",
                                                         "transformer.",
                                                         "",
                                                         "language_model.model.",
                                                         "model.language_model.",
                                                         "model.text_model."};
  for (const std::string_view prefix : kPrefixes)
    if (checkpoint.find(std::string(prefix) + std::string(embed_name)))
      return std::string(prefix);
  fail("{}: tensor 'model.{}' is missing, wanted by the recipe",
       printable(checkpoint.path), embed_name);
}

Decoder decoder_from_config(const Fields& config, const std::string& model_type) {
  Decoder d;
  d.family = model_type;
  d.vocab_size = config.integer("vocab_size", 1, 1 << 22);
  d.hidden_size = config.integer("hidden_size", 1, 1 << 17);
  d.intermediate_size = config.integer("intermediate_size", 1, 1 << 20);
  d.n_layers = config.integer("num_hidden_layers", 1, 512);
  d.n_heads = config.integer("num_attention_heads", 1, 4096);
  d.n_kv_heads = config.integer_or("num_key_value_heads", 1, d.n_heads, d.n_heads);
  if (config.has("head_dim")) {
    d.head_dim = config.integer("head_dim", 1, 4096);
  } else {
    if (d.hidden_size % d.n_heads != 0) {
      config.refuse(
          "num_attention_heads",
          fmt::format("a divisor of hidden_size {}, since head_dim is not given",
                      d.hidden_size));
    }
    d.head_dim = d.hidden_size / d.n_heads;
  }
  d.max_positions = config.integer_or("max_position_embeddings", 1, 1 << 27, 2048);
  d.norm_eps = config.real_or("rms_norm_eps", 1e-12, 0.1, 1e-6);
  d.layer_rope.assign(size_t(d.n_layers), 0);
  d.layer_window.assign(size_t(d.n_layers), 0);
  config.ignore({"architectures",
                 "model_type",
                 "torch_dtype",
                 "dtype",
                 "use_cache",
                 "initializer_range",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "transformers_version",
                 "attention_dropout",
                 "hidden_dropout",
                 "resid_pdrop",
                 "embd_pdrop",
                 "attn_pdrop",
                 "pretraining_tp",
                 "tie_word_embeddings",
                 "_name_or_path",
                 "auto_map",
                 "rope_interleaved",
                 "layer_types",
                 "quantization",
                 "quantization_config",
                 "mlp_bias",
                 "attention_bias",
                 "cache_implementation",
                 "_attn_implementation"});
  return d;
}

Decoder decoder_from_gguf(const Checkpoint& checkpoint, const Fields& fields,
                          const std::string& architecture) {
  Decoder d;
  d.family = architecture;
  d.hidden_size = fields.integer("embedding_length", 1, 1 << 17);
  d.n_layers = fields.integer("block_count", 1, 512);
  d.max_positions = fields.integer("context_length", 1, 1 << 27);
  const std::vector<int> ffn =
      fields.per_layer("feed_forward_length", d.n_layers, 1, 1 << 20);
  const std::vector<int> heads =
      fields.per_layer("attention.head_count", d.n_layers, 1, 4096);
  std::vector<int> kv = heads;
  if (fields.has("attention.head_count_kv"))
    kv = fields.per_layer("attention.head_count_kv", d.n_layers, 1, 4096);
  for (size_t i = 1; i < ffn.size(); ++i) {
    if (ffn[i] != ffn[0])
      fields.refuse("feed_forward_length", "the same for every layer");
    if (heads[i] != heads[0])
      fields.refuse("attention.head_count", "the same for every layer");
    if (kv[i] != kv[0])
      fields.refuse("attention.head_count_kv", "the same for every layer");
  }
  d.intermediate_size = ffn[0];
  d.n_heads = heads[0];
  d.n_kv_heads = kv[0];
  if (fields.has("attention.key_length")) {
    d.head_dim = fields.integer("attention.key_length", 1, 4096);
  } else {
    if (d.hidden_size % d.n_heads != 0)
      fields.refuse("attention.head_count",
                    fmt::format("a divisor of embedding_length {}", d.hidden_size));
    d.head_dim = d.hidden_size / d.n_heads;
  }
  if (fields.integer_or("attention.value_length", 1, 4096, d.head_dim) != d.head_dim)
    fields.refuse("attention.value_length",
                  fmt::format("the key length, {}", d.head_dim));
  const StoredTensor& embed = checkpoint.require("token_embd.weight");
  if (embed.view.shape.size() != 2 || embed.view.shape[0] > (1 << 22))
    fail("{}: tensor 'token_embd.weight' is {}, wanted [vocabulary, {}]",
         printable(checkpoint.path), to_string(embed.view.shape), d.hidden_size);
  d.vocab_size = int(embed.view.shape[0]);
  const int stated = fields.integer_or("vocab_size", 1, 1 << 22, d.vocab_size);
  if (stated != d.vocab_size)
    fields.refuse("vocab_size",
                  fmt::format("the {} rows of token_embd.weight", d.vocab_size));
  d.tied = checkpoint.find("output.weight") == nullptr;
  d.layer_rope.assign(size_t(d.n_layers), 0);
  d.layer_window.assign(size_t(d.n_layers), 0);
  if (fields.integer_or("expert_count", 0, 1024, 0) != 0)
    fields.refuse("expert_count",
                  "0: experts are not supported for this architecture yet");
  fields.ignore({"expert_used_count", "attention.causal", "tensor_data_layout"});
  fields.only("attention.causal", true);
  return d;
}

}  // namespace ingot
