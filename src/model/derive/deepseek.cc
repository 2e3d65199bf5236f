// deepseek_v3, deepseek_v32, glm_moe_dsa: latent attention, sigmoid routing, and in the
// last two a choice of keys by an indexer (architectures.md 15, 16).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/derive/families.h"

namespace ingot {
namespace {

double score_scale(const Latent& l, double factor, double mscale_all_dim) {
  const double g = factor <= 1.0 ? 1.0 : 0.1 * mscale_all_dim * std::log(factor) + 1.0;
  return g * g / std::sqrt(double(l.nope_dims + l.rope_dims));
}

// Only some of the layers choose keys; the others share the choice of the last that did.
void read_indexer_types(const Fields& config, Decoder& d) {
  const int freq = config.integer_or("index_topk_freq", 1, 512, 1);
  const int offset = config.integer_or("index_skip_topk_offset", 0, 512, 2);
  std::vector<std::string> types;
  if (config.has("indexer_types")) {
    types = config.texts("indexer_types");
    config.ignore({"index_topk_pattern"});
  } else if (config.has("index_topk_pattern")) {
    for (const char c : config.text("index_topk_pattern"))
      types.push_back(c == 'F' ? "full" : c == 'S' ? "shared" : "?");
  } else {
    for (int i = 0; i < d.n_layers; ++i)
      types.push_back(std::max(i - offset + 1, 0) % freq == 0 ? "full" : "shared");
  }
  const std::string_view field =
      config.has("indexer_types") ? "indexer_types" : "index_topk_pattern";
  if (types.size() != size_t(d.n_layers))
    config.refuse(field, fmt::format("{} entries, one a layer", d.n_layers));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full" && types[i] != "shared")
      config.refuse(field, "full or shared only");
    d.layers[i].indexer = types[i] == "full" ? LayerIndexer::full : LayerIndexer::shared;
  }
  if (types[0] != "full") config.refuse(field, "the first layer full");
}

// The indexer turns by the same angles, in pairs of its own kind.
void add_indexer_rope(Decoder& d, RopePairing pairing) {
  RopeRecipe rope = d.ropes[0];
  rope.pairing = pairing;
  d.ropes.push_back(rope);
  d.latent->indexer_rope = 1;
  d.mtp_layer.indexer = LayerIndexer::full;
}

void check_latent(const Fields& fields, const Decoder& d, std::string_view heads_field,
                  std::string_view rope_field) {
  constexpr int kMaxMatrices = 1 << 16;
  if (d.n_heads * d.n_layers > kMaxMatrices)
    fields.refuse(heads_field,
                  fmt::format("at most {} heads in {} layers", kMaxMatrices, d.n_layers));
  const Latent& l = *d.latent;
  if (l.rope_dims % 2 != 0) fields.refuse(rope_field, "an even number (rotary pairs)");
}

void read_indexer(const Fields& config, const std::string& model_type, Decoder& d) {
  Latent& l = *d.latent;
  const bool glm = model_type == "glm_moe_dsa";
  l.indexer_heads = config.integer("index_n_heads", 1, 4096);
  l.indexer_dim = config.integer("index_head_dim", 2, 4096);
  l.indexer_top_k = config.integer("index_topk", 1, 1 << 27);
  if (l.indexer_dim < l.rope_dims)
    config.refuse("index_head_dim",
                  fmt::format("at least the {} rotary dimensions", l.rope_dims));
  if (l.q_lora_rank == 0)
    config.refuse("q_lora_rank", "a number: the indexer reads the query latent");
  for (LayerPlan& layer : d.layers) layer.indexer = LayerIndexer::full;
  if (glm) read_indexer_types(config, d);
  const bool interleaved = config.boolean_or("indexer_rope_interleave", glm);
  add_indexer_rope(d, interleaved ? RopePairing::interleaved : RopePairing::half_split);
}

Latent latent_from_config(const Fields& config) {
  Latent l;
  l.q_lora_rank = config.integer_or("q_lora_rank", 1, 1 << 17, 0);
  l.kv_lora_rank = config.integer("kv_lora_rank", 1, 1 << 17);
  l.nope_dims = config.integer("qk_nope_head_dim", 1, 4096);
  l.rope_dims = config.integer("qk_rope_head_dim", 2, 4096);
  l.value_dim = config.integer("v_head_dim", 1, 4096);
  if (config.integer_or("qk_head_dim", 1, 1 << 16, l.nope_dims + l.rope_dims) !=
      l.nope_dims + l.rope_dims)
    config.refuse("qk_head_dim", fmt::format("{}, qk_nope_head_dim + qk_rope_head_dim",
                                             l.nope_dims + l.rope_dims));
  return l;
}

double mscale_all_dim(const Fields& config) {
  for (const std::string_view name : {"rope_parameters", "rope_scaling"})
    if (const std::optional<Fields> scaling = config.object(name))
      return scaling->real_or("mscale_all_dim", 0.0, 1e3, 0.0);
  return 0.0;
}

}  // namespace

Recipe derive_deepseek_config(const Checkpoint& checkpoint, const Fields& config,
                              const std::string& model_type) {
  Decoder d = decoder_from_config(config, model_type, 64);
  if (d.n_kv_heads != d.n_heads)
    config.refuse("num_key_value_heads",
                  fmt::format("{}, as many as attention heads", d.n_heads));
  d.activation = activation_from(config, "hidden_act", "silu");
  d.tied = config.boolean_or("tie_word_embeddings", false);
  d.latent = latent_from_config(config);
  d.head_dim = d.latent->rope_dims;
  d.qkv_bias = d.output_bias = config.boolean_or("attention_bias", false);
  RopeRecipe rope = rope_from_config(config, {.head_dim = d.latent->rope_dims,
                                              .max_positions = double(d.max_positions)});
  if (rope.rotary_dims != d.latent->rope_dims)
    config.refuse("rope_parameters", "no partial_rotary_factor: all rotary dimensions");
  if (config.boolean_or("rope_interleave", true)) rope.pairing = RopePairing::interleaved;
  const bool yarn = rope.scaling == RopeScalingKind::yarn;
  d.attention_scale =
      float(score_scale(*d.latent, yarn ? rope.factor : 1.0, mscale_all_dim(config)));
  d.ropes = {rope};
  if (model_type != "deepseek_v3") {
    read_indexer(config, model_type, d);
    layer_types(config, d.n_layers, {"deepseek_sparse_attention", "full_attention"});
  } else {
    layer_types(config, d.n_layers, {"full_attention"});
  }
  check_latent(config, d, "num_attention_heads", "qk_rope_head_dim");
  d.experts = noaux_experts_from_config(config, d);
  leading_dense_layers(config, d);
  d.mtp_chains_normed = model_type == "glm_moe_dsa";
  config.refuse_unread();
  return build_decoder(checkpoint, d,
                       hf_decoder_names(hf_prefix(checkpoint, "embed_tokens.weight")));
}

namespace {

Latent latent_from_gguf(const Fields& fields) {
  Latent l;
  l.q_lora_rank = fields.integer_or("attention.q_lora_rank", 0, 1 << 17, 0);
  l.kv_lora_rank = fields.integer("attention.kv_lora_rank", 1, 1 << 17);
  l.rope_dims = fields.integer("rope.dimension_count", 2, 4096);
  // Files from before the split matrices state the sizes of whole heads alone.
  const bool split = fields.has("attention.key_length_mla");
  const std::string_view key =
      split ? "attention.key_length_mla" : "attention.key_length";
  const std::string_view value =
      split ? "attention.value_length_mla" : "attention.value_length";
  l.nope_dims = fields.integer(key, 2, 4096) - l.rope_dims;
  l.value_dim = fields.integer(value, 1, 4096);
  if (l.nope_dims < 1)
    fields.refuse(key, fmt::format("more than the {} rotary dimensions", l.rope_dims));
  if (split) {
    const int latent = l.kv_lora_rank + l.rope_dims;
    if (fields.integer_or("attention.key_length", 1, 1 << 17, latent) != latent)
      fields.refuse("attention.key_length",
                    fmt::format("{}, the latent and the rotary dimensions", latent));
    if (fields.integer_or("attention.value_length", 1, 1 << 17, l.kv_lora_rank) !=
        l.kv_lora_rank)
      fields.refuse("attention.value_length", fmt::format("{}", l.kv_lora_rank));
  }
  return l;
}

void read_gguf_indexer(const Fields& fields, const std::string& architecture,
                       Decoder& d) {
  Latent& l = *d.latent;
  const bool glm = architecture == "glm-dsa";
  l.indexer_heads = fields.integer("attention.indexer.head_count", 1, 4096);
  l.indexer_dim = fields.integer("attention.indexer.key_length", 2, 4096);
  l.indexer_top_k = fields.integer("attention.indexer.top_k", 1, 1 << 27);
  if (l.indexer_dim < l.rope_dims)
    fields.refuse("attention.indexer.key_length",
                  fmt::format("at least the {} rotary dimensions", l.rope_dims));
  if (l.q_lora_rank == 0)
    fields.refuse("attention.q_lora_rank", "a number: the indexer reads its latent");
  for (LayerPlan& layer : d.layers) layer.indexer = LayerIndexer::full;
  if (glm && fields.has("attention.indexer.types")) {
    const std::vector<int> full = fields.integers("attention.indexer.types", 0, 1);
    if (full.size() < d.layers.size() || full[0] == 0)
      fields.refuse("attention.indexer.types", "one flag a layer, the first 1");
    for (size_t i = 0; i < d.layers.size(); ++i)
      if (full[i] == 0) d.layers[i].indexer = LayerIndexer::shared;
  }
  add_indexer_rope(d, glm ? RopePairing::interleaved : RopePairing::half_split);
}

}  // namespace

Recipe derive_deepseek_gguf(const Checkpoint& checkpoint, const Fields& fields,
                            const std::string& architecture) {
  Decoder d = sizes_from_gguf(checkpoint, fields, architecture);
  d.latent = latent_from_gguf(fields);
  d.n_kv_heads = fields.integer_or("attention.head_count_kv", 1, 4096, 1);
  if (d.n_kv_heads != 1 && d.n_kv_heads != d.n_heads)
    fields.refuse("attention.head_count_kv", "1, or as many as heads");
  d.head_dim = d.latent->rope_dims;
  RopeRecipe rope = rope_from_gguf(
      fields, checkpoint,
      {.head_dim = d.latent->rope_dims, .max_positions = double(d.max_positions)},
      RopePairing::interleaved);
  // Stored as 0.1 times mscale_all_dim, which is taken for mscale too: what it does to
  // cos and sin cancels.
  const double all_dims =
      10.0 * fields.real_or("rope.scaling.yarn_log_multiplier", 0.0, 1e3, 0.0);
  const bool yarn = rope.scaling == RopeScalingKind::yarn;
  if (yarn && all_dims != 0.0) rope.attention_factor = 1.0f;
  d.attention_scale = float(score_scale(*d.latent, yarn ? rope.factor : 1.0, all_dims));
  d.ropes = {rope};
  if (architecture != "deepseek2") read_gguf_indexer(fields, architecture, d);
  check_latent(fields, d, "attention.head_count", "rope.dimension_count");
  // deepseek2 without this key is DeepSeek-V2, which chooses by softmax.
  if (architecture == "deepseek2" &&
      fields.integer_or("expert_gating_func", 0, 8, 0) == 0)
    fields.refuse("expert_gating_func", "2 (sigmoid)");
  d.experts = noaux_experts_from_gguf(fields, d);
  d.mtp_chains_normed = architecture == "glm-dsa";
  fields.refuse_unread();
  return build_decoder(checkpoint, d, gguf_decoder_names());
}

}  // namespace ingot
