#include "model/cost.h"

#include <algorithm>

#include "model/every_source.h"

namespace ingot {
namespace {

struct Sum {
  uint64_t values = 0;  // every one stored
  uint64_t used = 0;    // of matrices, those that one token meets

  void operator()(const MatrixSource& m, Share share) {
    const uint64_t n = uint64_t(m.n_rows) * uint64_t(m.n_cols);
    values += n;
    used += n * uint64_t(share.n_used) / uint64_t(share.n_alike);
  }
  void operator()(const VectorSource& v) { values += uint64_t(v.n); }
};

template <typename Part>
Sum sum_of(const Part& part) {
  Sum sum;
  EverySource<Sum>(sum).add(part);
  return sum;
}

int keys_seen(int window, int position) {
  return window > 0 ? std::min(window, position + 1) : position + 1;
}

// Of the delta rule: the state, and on average half a page of rows.
double state_values(const GatedDeltaRecipe& r) {
  const double rows = kPageTokens / 2.0;
  return double(r.n_value_heads) * r.value_dim * (r.key_dim + rows) +
         rows * r.n_key_heads * r.key_dim;
}

struct Reads {
  KvType type;
  int position;

  double bytes(const KvLayout& layout, int seen) const {
    return double(kv_page_bytes(layout)) / kPageTokens * seen;
  }
  double operator()(const AttentionRecipe& r) const {
    return bytes({r.n_kv_heads, r.head_dim, r.head_dim, type},
                 keys_seen(r.window, position));
  }
  double operator()(const LatentAttentionRecipe& r) const {
    const int rank = r.kv_lora_rank;
    double sum = bytes({1, rank + r.rope_dims, rank, type, true}, position + 1);
    if (r.indexer) sum += bytes({1, r.indexer->head_dim, 0, type}, position + 1);
    return sum;
  }
  double operator()(const GatedDeltaRecipe& r) const {
    return state_values(r) * sizeof(float);
  }
};

struct Arithmetic {
  int position;

  double operator()(const AttentionRecipe& r) const {
    return 4.0 * r.n_heads * r.head_dim * keys_seen(r.window, position);
  }
  double operator()(const LatentAttentionRecipe& r) const {
    const int seen = r.indexer ? std::min(r.indexer->top_k, position + 1) : position + 1;
    const double scores =
        r.indexer ? 2.0 * r.indexer->n_heads * r.indexer->head_dim * (position + 1) : 0.0;
    return scores + 2.0 * r.n_heads * (2.0 * r.kv_lora_rank + r.rope_dims) * seen;
  }
  double operator()(const GatedDeltaRecipe& r) const { return 4.0 * state_values(r); }
};

}  // namespace

ParameterCount count_parameters(const Recipe& recipe) {
  ParameterCount out;
  const Sum layers = sum_of(recipe.layers);
  out.embedding = sum_of(recipe.embed).values + sum_of(recipe.position_embed).values;
  out.head = sum_of(recipe.head).values;
  out.mtp = sum_of(recipe.mtp).values;
  out.total = out.embedding + layers.values + sum_of(recipe.final_norm).values +
              out.head + out.mtp;
  out.layer_matrices = layers.used;
  return out;
}

double state_bytes_read(const Recipe& recipe, KvType type, int position) {
  double bytes = 0;
  for (const LayerRecipe& layer : recipe.layers)
    bytes += std::visit(Reads{type, position}, layer.mixer);
  return bytes;
}

double layer_operations(const Recipe& recipe, int position) {
  double operations = 2.0 * double(count_parameters(recipe).layer_matrices);
  for (const LayerRecipe& layer : recipe.layers)
    operations += std::visit(Arithmetic{position}, layer.mixer);
  return operations;
}

}  // namespace ingot
