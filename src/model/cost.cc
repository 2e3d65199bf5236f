#include "model/cost.h"

#include <algorithm>

namespace ingot {
namespace {

// Sums over the parts of a layer.
struct Sum {
  uint64_t values = 0;  // every one stored
  uint64_t used = 0;    // values of the matrices that one token meets
  uint64_t n_used = 1;  // of n_alike matrices alike, so many are met
  uint64_t n_alike = 1;

  void add(const MatrixSource& m) {
    const uint64_t n = uint64_t(m.n_rows) * uint64_t(m.n_cols);
    values += n;
    used += n * n_used / n_alike;
  }
  void add(const VectorSource& v) { values += uint64_t(v.n); }
  void add(const LinearRecipe& linear) {
    for (const MatrixSource& part : linear.parts) add(part);
    for (const VectorSource& part : linear.bias) add(part);
  }
  void add(const NormRecipe& norm) {
    add(norm.weight);
    add(norm.bias);
  }
  void add(const AttentionRecipe& a) {
    add(a.qkv);
    add(a.output);
    add(a.q_norm);
    add(a.k_norm);
    add(a.sinks);
  }
  void add(const IndexerRecipe& i) {
    add(i.q);
    add(i.k);
    add(i.k_norm);
    add(i.weights);
  }
  void add(const LatentAttentionRecipe& a) {
    add(a.q_a);
    add(a.q_a_norm);
    add(a.q_b);
    add(a.kv_a);
    add(a.kv_a_norm);
    add(a.key_up);
    add(a.value_up);
    add(a.output);
    add(a.indexer);
  }
  void add(const GatedDeltaRecipe& d) {
    add(d.input);
    add(d.conv);
    add(d.decay);
    add(d.dt_bias);
    add(d.norm);
    add(d.output);
  }
  void add(const MlpRecipe& m) {
    add(m.input);
    add(m.down);
  }
  void add(const ExpertsRecipe& e) {
    add(e.router);
    add(e.selection_bias);
    n_used = uint64_t(e.routing.n_used);
    n_alike = uint64_t(std::max(e.routing.n_experts, 1));
    add(e.input);
    add(e.down);
    n_used = n_alike = 1;
    add(e.shared);
    add(e.shared_gate);
  }
  void add(const LayerRecipe& layer) {
    for (const auto* norm : {&layer.input_norm, &layer.post_mixer_norm, &layer.ffn_norm,
                             &layer.post_ffn_norm})
      add(*norm);
    std::visit([&](const auto& mixer) { add(mixer); }, layer.mixer);
    std::visit([&](const auto& ffn) { add(ffn); }, layer.ffn);
  }
  template <typename Part>
  void add(const std::optional<Part>& part) {
    if (part) add(*part);
  }
  template <typename Part>
  void add(const std::vector<Part>& parts) {
    for (const Part& part : parts) add(part);
  }
};

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
  Sum embedding, layers, head, mtp;
  embedding.add(recipe.embed);
  embedding.add(recipe.position_embed);
  layers.add(recipe.layers);
  layers.add(recipe.final_norm);
  head.add(recipe.head);
  for (const MtpRecipe& r : recipe.mtp) {
    mtp.add(r.embed_norm);
    mtp.add(r.hidden_norm);
    mtp.add(r.project);
    mtp.add(r.layer);
    mtp.add(r.final_norm);
    mtp.add(r.embed);
    mtp.add(r.head);
  }
  out.embedding = embedding.values;
  out.head = head.values;
  out.mtp = mtp.values;
  out.total = embedding.values + layers.values + head.values + mtp.values;
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
