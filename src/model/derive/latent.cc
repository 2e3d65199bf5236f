// Latent attention and its indexer, from matrices stored whole or split by head
// (architectures.md 15, 16).
#include <cmath>

#include "base/check.h"
#include "model/derive/parts.h"

namespace ingot {
namespace {

// The two halves of each head's up-projection; the one of keys works on the other side of
// the score, so it is read transposed.
void add_up(LatentAttentionRecipe& out, const Build& b, const std::string& layer) {
  const int n = b.d.n_heads;
  const Latent& l = *b.d.latent;
  const std::string k_b = layer + b.names.latent.k_b + ".weight";
  const std::string v_b = layer + b.names.latent.v_b + ".weight";
  const std::string kv_b = layer + b.names.latent.kv_b + ".weight";
  const bool split = b.checkpoint.find(k_b) != nullptr;
  const int head_rows = l.nope_dims + l.value_dim;
  for (int h = 0; h < n; ++h) {
    MatrixSource key{
        .name = split ? k_b : kv_b, .n_rows = l.kv_lora_rank, .n_cols = l.nope_dims};
    MatrixSource value{
        .name = split ? v_b : kv_b, .n_rows = l.value_dim, .n_cols = l.kv_lora_rank};
    if (split) {
      key.slice = value.slice = h;
      key.n_slices = value.n_slices = n;
    } else {
      key.transposed = true;
      key.first_col = h * head_rows;
      key.stored_cols = n * head_rows;
      value.order.first = h * head_rows + l.nope_dims;
      value.stored_rows = n * head_rows;
    }
    out.key_up.push_back(std::move(key));
    out.value_up.push_back(std::move(value));
  }
}

IndexerRecipe build_indexer(const Build& b, const std::string& layer) {
  constexpr double kIndexerEps = 1e-6;  // whatever the config's own says
  const Latent& l = *b.d.latent;
  const LatentNames& names = b.names.latent;
  IndexerRecipe out;
  out.n_heads = l.indexer_heads;
  out.head_dim = l.indexer_dim;
  out.top_k = l.indexer_top_k;
  out.rope = l.indexer_rope;
  out.q = plain_linear(layer + names.indexer_q, l.indexer_heads * l.indexer_dim,
                       l.q_lora_rank);
  out.k = plain_linear(layer + names.indexer_k, l.indexer_dim, b.d.hidden_size);
  out.k_norm = plain_norm(layer + names.indexer_k_norm, l.indexer_dim, kIndexerEps);
  out.k_norm.kind = NormKind::layer;
  out.k_norm.bias =
      VectorSource{.name = layer + names.indexer_k_norm + ".bias", .n = l.indexer_dim};
  out.weights =
      plain_linear(layer + names.indexer_weights, l.indexer_heads, b.d.hidden_size);
  return out;
}

}  // namespace

LatentAttentionRecipe build_latent(const Build& b, const std::string& layer,
                                   const LayerPlan& plan) {
  CHECK(b.d.latent.has_value());
  const Latent& l = *b.d.latent;
  const LatentNames& names = b.names.latent;
  const int hidden = b.d.hidden_size;
  LatentAttentionRecipe out;
  out.n_heads = b.d.n_heads;
  out.kv_lora_rank = l.kv_lora_rank;
  out.nope_dims = l.nope_dims;
  out.rope_dims = l.rope_dims;
  out.value_dim = l.value_dim;
  out.scale = b.d.attention_scale;
  out.rope = plan.rope;
  const int q_rows = b.d.n_heads * (l.nope_dims + l.rope_dims);
  if (l.q_lora_rank > 0) {
    out.q_a = plain_linear(layer + names.q_a, l.q_lora_rank, hidden, b.d.qkv_bias);
    out.q_a_norm = plain_norm(layer + names.q_a_norm, l.q_lora_rank, l.norm_eps);
    out.q_b = plain_linear(layer + names.q_b, q_rows, l.q_lora_rank);
  } else {
    out.q_b = plain_linear(layer + names.q, q_rows, hidden);
  }
  out.kv_a = plain_linear(layer + names.kv_a, l.kv_lora_rank + l.rope_dims, hidden,
                          b.d.qkv_bias);
  out.kv_a_norm = plain_norm(layer + names.kv_a_norm, l.kv_lora_rank, l.norm_eps);
  add_up(out, b, layer);
  out.output =
      plain_linear(layer + b.names.o, hidden, b.d.n_heads * l.value_dim, b.d.output_bias);
  if (plan.indexer == LayerIndexer::full) out.indexer = build_indexer(b, layer);
  out.shares_selection = plan.indexer == LayerIndexer::shared;
  return out;
}

}  // namespace ingot
