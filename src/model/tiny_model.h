// A seeded random decoder in memory, small enough to run in every test: two KV heads
// under four, head norms, a window on one layer, tied head.
#pragma once

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "model/derive.h"
#include "model/every_source.h"
#include "model/model.h"

namespace ingot {

struct TinyCheckpoint {
  std::vector<std::unique_ptr<std::vector<float>>> storage;
  Checkpoint checkpoint;

  std::vector<float>& add(const std::string& name, const Shape& shape,
                          std::mt19937& random) {
    auto values = std::make_unique<std::vector<float>>(size_t(element_count(shape)));
    std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(float(shape.back())));
    for (float& value : *values) value = shape.size() == 1 ? 1.0f : normal(random);
    checkpoint.tensors[name].view = {DType::f32, shape,
                                     std::as_bytes(std::span(*values))};
    storage.push_back(std::move(values));
    return *storage.back();
  }

  std::vector<float>& values(const std::string& name) {
    const std::byte* data = checkpoint.tensors.at(name).view.bytes.data();
    for (const auto& values : storage)
      if (reinterpret_cast<const std::byte*>(values->data()) == data) return *values;
    throw std::out_of_range(name);
  }
};

// hidden 64, 3 layers, vocabulary 97 (no multiple of anything).
inline TinyCheckpoint tiny_checkpoint(unsigned seed) {
  TinyCheckpoint tiny;
  tiny.checkpoint.path = "tiny";
  tiny.checkpoint.config_json =
      R"({"model_type": "qwen3", "vocab_size": 97, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 10000,
    "max_position_embeddings": 4096, "tie_word_embeddings": true, "sliding_window": 9,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"]})";
  std::mt19937 random(seed);
  tiny.add("model.embed_tokens.weight", {97, 64}, random);
  tiny.add("model.norm.weight", {64}, random);
  for (int i = 0; i < 3; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    tiny.add(layer + "input_layernorm.weight", {64}, random);
    tiny.add(layer + "post_attention_layernorm.weight", {64}, random);
    tiny.add(layer + "self_attn.q_proj.weight", {128, 64}, random);
    tiny.add(layer + "self_attn.k_proj.weight", {64, 64}, random);
    tiny.add(layer + "self_attn.v_proj.weight", {64, 64}, random);
    tiny.add(layer + "self_attn.o_proj.weight", {64, 128}, random);
    tiny.add(layer + "self_attn.q_norm.weight", {32}, random);
    tiny.add(layer + "self_attn.k_norm.weight", {32}, random);
    tiny.add(layer + "mlp.gate_proj.weight", {96, 64}, random);
    tiny.add(layer + "mlp.up_proj.weight", {96, 64}, random);
    tiny.add(layer + "mlp.down_proj.weight", {64, 96}, random);
  }
  return tiny;
}

// Adds every tensor that a recipe names, in its stored shape.
struct TinyFiller {
  TinyCheckpoint& tiny;
  std::mt19937& random;

  void add(const std::string& name, Shape shape, int slice, int n_slices) {
    if (slice >= 0) shape.insert(shape.begin(), n_slices);
    if (tiny.checkpoint.find(name) == nullptr) tiny.add(name, shape, random);
  }
  void operator()(const MatrixSource& m, Share) {
    const int rows = m.stored_rows == 0 ? m.n_rows : m.stored_rows;
    const int cols = m.stored_cols == 0 ? m.n_cols : m.stored_cols;
    add(m.name, m.transposed ? Shape{cols, rows} : Shape{rows, cols}, m.slice,
        m.n_slices);
  }
  void operator()(const VectorSource& v) {
    add(v.name, {v.stored_n == 0 ? v.n : v.stored_n}, v.slice, v.n_slices);
  }
};

// The same of any family: config_json has vocab_size 97 and hidden_size 64.
inline TinyCheckpoint tiny_checkpoint(const std::string& config_json, unsigned seed) {
  TinyCheckpoint tiny;
  tiny.checkpoint.path = "tiny";
  tiny.checkpoint.config_json = config_json;
  std::mt19937 random(seed);
  tiny.add("model.embed_tokens.weight", {97, 64}, random);
  const Recipe recipe = derive_recipe(tiny.checkpoint);
  TinyFiller filler{tiny, random};
  for_each_source(recipe, filler);
  return tiny;
}

}  // namespace ingot
