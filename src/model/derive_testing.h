// What tests of derivations share: checkpoints without weights, and what a recipe reads.
#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "model/derive.h"

namespace ingot {

// A checkpoint with the given config and an embedding, which is all that most derivations
// look at.
inline Checkpoint with_config(const nlohmann::json& config,
                              const std::string& embed = "model.embed_tokens.weight") {
  Checkpoint checkpoint;
  checkpoint.path = "models/tiny";
  checkpoint.config_json = config.dump();
  checkpoint.tensors[embed].view = {DType::bf16, {512, 64}, {}};
  return checkpoint;
}

// GGUF metadata out of JSON: numbers, booleans, strings and lists of them.
inline MetadataValue metadata_value(const nlohmann::json& v) {
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number_integer()) return v.get<int64_t>();
  if (v.is_number()) return v.get<double>();
  if (v.is_string()) return v.get<std::string>();
  if (v.at(0).is_boolean()) return v.get<std::vector<bool>>();
  if (v.at(0).is_string()) return v.get<std::vector<std::string>>();
  if (v.at(0).is_number_integer()) return v.get<std::vector<int64_t>>();
  return v.get<std::vector<double>>();
}

inline Checkpoint with_metadata(const nlohmann::json& metadata) {
  Checkpoint checkpoint;
  checkpoint.container = Container::gguf;
  checkpoint.path = "tiny.gguf";
  for (const auto& [key, value] : metadata.items())
    checkpoint.metadata[key] = metadata_value(value);
  checkpoint.tensors["token_embd.weight"].view = {DType::bf16, {512, 64}, {}};
  return checkpoint;
}

// Config, tensor shapes and GGUF metadata of every fixture, by its name.
inline const nlohmann::json& fixture_listing() {
  static const nlohmann::json all = [] {
    std::ifstream in(std::string(INGOT_SOURCE_DIR) + "/tests/data/recipe_tensors.json");
    return nlohmann::json::parse(in);
  }();
  return all;
}

// The tensors of a listing, without their bytes.
inline void set_tensors(Checkpoint& checkpoint, const nlohmann::json& tensors) {
  checkpoint.tensors.clear();
  for (const auto& [name, shape] : tensors.items())
    checkpoint.tensors[name].view = {DType::f32, shape.get<Shape>(), {}};
}

inline std::string refusal(const Checkpoint& checkpoint) {
  try {
    derive_recipe(checkpoint);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// Every tensor that a recipe reads, with the shape it wants, dimensions of one left out.
class ReadTensors {
 public:
  explicit ReadTensors(const Recipe& recipe) {
    add(recipe.embed);
    if (recipe.position_embed) add(*recipe.position_embed);
    for (const RopeRecipe& rope : recipe.ropes)
      for (const auto* source : {&rope.divisors, &rope.short_source, &rope.long_source})
        if (*source) add(**source);
    for (const LayerRecipe& layer : recipe.layers) add(layer);
    add(recipe.final_norm);
    if (recipe.head) add(*recipe.head);
    for (const MtpRecipe& head : recipe.mtp) add(head);
  }
  const std::map<std::string, Shape>& shapes() const { return shapes_; }

 private:
  void put(const std::string& name, Shape shape, int n_slices) {
    if (n_slices > 0) shape.insert(shape.begin(), n_slices);
    std::erase(shape, 1);
    const auto [it, fresh] = shapes_.emplace(name, shape);
    if (!fresh && it->second != shape)
      fail("{} is read as {} and as {}", name, to_string(it->second), to_string(shape));
  }
  // The stored rows that are read must lie within the stored matrix.
  static void check(const RowOrder& order, int n, int stored, const std::string& name) {
    int64_t count = 1;
    for (const RowAxis& axis : order.axes) count *= axis.count;
    if (!order.axes.empty() && count != n)
      fail("{}: axes count {} rows of {}", name, count, n);
    for (int i = 0; i < n; ++i)
      if (order.stored(i) < 0 || order.stored(i) >= stored)
        fail("{}: row {} stands at {} of {}", name, i, order.stored(i), stored);
  }
  void add(const MatrixSource& m) {
    const int rows = m.stored_rows > 0 ? m.stored_rows : m.n_rows;
    const int cols = m.stored_cols > 0 ? m.stored_cols : m.n_cols;
    check(m.order, m.n_rows, rows, m.name);
    put(m.name, m.transposed ? Shape{cols, rows} : Shape{rows, cols}, m.n_slices);
  }
  void add(const VectorSource& v) {
    const int n = v.stored_n > 0 ? v.stored_n : v.n;
    check(v.order, v.n, n, v.name);
    put(v.name, {n}, v.n_slices);
  }
  void add(const NormRecipe& norm) {
    add(norm.weight);
    if (norm.bias) add(*norm.bias);
  }
  void add(const LinearRecipe& linear) {
    for (const MatrixSource& part : linear.parts) add(part);
    for (const VectorSource& part : linear.bias) add(part);
  }
  template <class T>
  void add(const std::optional<T>& part) {
    if (part) add(*part);
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
    for (const MatrixSource& m : a.key_up) add(m);
    for (const MatrixSource& m : a.value_up) add(m);
    add(a.output);
    add(a.indexer);
  }
  void add(const GatedDeltaRecipe& g) {
    add(g.input);
    add(g.conv);
    add(g.decay);
    add(g.dt_bias);
    add(g.norm);
    add(g.output);
  }
  void add(const MlpRecipe& m) {
    add(m.input);
    add(m.down);
  }
  void add(const ExpertsRecipe& e) {
    add(e.router);
    add(e.selection_bias);
    for (const LinearRecipe& one : e.input) add(one);
    for (const LinearRecipe& one : e.down) add(one);
    add(e.shared);
    add(e.shared_gate);
  }
  void add(const LayerRecipe& layer) {
    add(layer.input_norm);
    std::visit([this](const auto& mixer) { add(mixer); }, layer.mixer);
    add(layer.post_mixer_norm);
    add(layer.ffn_norm);
    std::visit([this](const auto& ffn) { add(ffn); }, layer.ffn);
    add(layer.post_ffn_norm);
  }
  void add(const MtpRecipe& head) {
    add(head.embed_norm);
    add(head.hidden_norm);
    add(head.project);
    add(head.layer);
    add(head.final_norm);
    add(head.embed);
    add(head.head);
  }
  std::map<std::string, Shape> shapes_;
};

}  // namespace ingot
