// Every stored matrix and vector that parts of a recipe name, in order.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "model/recipe.h"

namespace ingot {

// Of so many matrices alike, a token meets so many: all, but for experts.
struct Share {
  int n_used = 1;
  int n_alike = 1;
};

// Calls leaf(const MatrixSource&, Share) and leaf(const VectorSource&), and before the
// parts of a layer's matrix, where the leaf has it, leaf.whole(const LinearRecipe&).
template <typename Leaf>
class EverySource {
 public:
  explicit EverySource(Leaf& leaf) : leaf_(leaf) {}

  void add(const MatrixSource& m) { leaf_(m, share_); }
  void add(const VectorSource& v) { leaf_(v); }
  void add(const LinearRecipe& linear) {
    if constexpr (requires { leaf_.whole(linear); }) leaf_.whole(linear);
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
    share_ = {e.routing.n_used, std::max(e.routing.n_experts, 1)};
    add(e.input);
    add(e.down);
    share_ = {};
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
  void add(const MtpRecipe& r) {
    add(r.embed_norm);
    add(r.hidden_norm);
    add(r.project);
    add(r.layer);
    add(r.final_norm);
    add(r.embed);
    add(r.head);
  }
  template <typename Part>
  void add(const std::optional<Part>& part) {
    if (part) add(*part);
  }
  template <typename Part>
  void add(const std::vector<Part>& parts) {
    for (const Part& part : parts) add(part);
  }

 private:
  Leaf& leaf_;
  Share share_;
};

template <typename Leaf>
void for_each_source(const Recipe& recipe, Leaf& leaf) {
  EverySource<Leaf> every(leaf);
  every.add(recipe.embed);
  every.add(recipe.position_embed);
  for (const RopeRecipe& rope : recipe.ropes) {
    every.add(rope.divisors);
    every.add(rope.short_source);
    every.add(rope.long_source);
  }
  every.add(recipe.layers);
  every.add(recipe.final_norm);
  every.add(recipe.head);
  every.add(recipe.mtp);
}

}  // namespace ingot
