#include "model/synth_tensors.h"

#include <set>

#include "base/check.h"

namespace ingot {
namespace {

class Collector {
 public:
  Collector(Container container,
            const std::map<std::string, std::vector<float>>& constants)
      : container_(container), constants_(constants) {}

  void add(const Recipe& recipe) {
    add(recipe.embed);
    add(recipe.position_embed);
    for (const RopeRecipe& rope : recipe.ropes)
      for (const auto* source : {&rope.divisors, &rope.short_source, &rope.long_source})
        if (*source) vector(**source, SynthKind::constant);
    for (const LayerRecipe& layer : recipe.layers) add(layer);
    add(recipe.final_norm);
    add(recipe.head);
    CHECK(recipe.mtp.empty());  // tensors tell of those heads, and there are none yet
  }
  std::vector<SynthTensor> take() { return std::move(tensors_); }

 private:
  void put(SynthTensor tensor, int n_slices) {
    if (!seen_.insert(tensor.name).second) return;  // another part or slice of it
    if (n_slices > 0) tensor.shape.insert(tensor.shape.begin(), n_slices);
    tensors_.push_back(std::move(tensor));
  }
  void add(const MatrixSource& m) {
    const int rows = m.stored_rows > 0 ? m.stored_rows : m.n_rows;
    const int cols = m.stored_cols > 0 ? m.stored_cols : m.n_cols;
    Shape shape = m.transposed ? Shape{cols, rows} : Shape{rows, cols};
    // A matrix of one row is a vector in GGUF.
    if (container_ == Container::gguf && rows == 1) shape = {cols};
    put({.name = m.name, .shape = std::move(shape), .n_in = m.n_cols}, m.n_slices);
  }
  // [channels, 1, kernel] where it is a layer's own weight (architectures.md 11.2).
  void add_convolution(const MatrixSource& m) {
    Shape shape{m.n_rows, m.n_cols};
    if (container_ == Container::safetensors) shape.insert(shape.begin() + 1, 1);
    put({.name = m.name, .shape = std::move(shape), .n_in = m.n_cols}, m.n_slices);
  }
  void vector(const VectorSource& v, SynthKind kind) {
    SynthTensor tensor{.name = v.name,
                       .shape = {v.stored_n > 0 ? v.stored_n : v.n},
                       .kind = kind,
                       .add = v.add};
    if (kind == SynthKind::constant) {
      const auto it = constants_.find(v.name);
      CHECK(it != constants_.end() && it->second.size() == size_t(v.n));
      tensor.values = it->second;
    }
    put(std::move(tensor), v.n_slices);
  }
  void add(const NormRecipe& norm) {
    vector(norm.weight, SynthKind::norm);
    if (norm.bias) vector(*norm.bias, SynthKind::bias);
  }
  void add(const LinearRecipe& linear) {
    for (const MatrixSource& part : linear.parts) add(part);
    for (const VectorSource& part : linear.bias) vector(part, SynthKind::bias);
  }
  template <class Part>
  void add(const std::optional<Part>& part) {
    if (part) add(*part);
  }
  template <class Part>
  void add(const std::vector<Part>& parts) {
    for (const Part& part : parts) add(part);
  }

  void add(const AttentionRecipe& a) {
    add(a.qkv);
    add(a.q_norm);
    add(a.k_norm);
    if (a.sinks) vector(*a.sinks, SynthKind::bias);
    add(a.output);
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
    add(a.indexer);
    add(a.output);
  }
  void add(const GatedDeltaRecipe& d) {
    add(d.input);
    add_convolution(d.conv);
    vector(d.decay,
           d.decay.map == VectorMap::minus_exp ? SynthKind::log_decay : SynthKind::decay);
    vector(d.dt_bias, SynthKind::dt_bias);
    add(d.norm);
    add(d.output);
  }
  void add(const MlpRecipe& m) {
    add(m.input);
    add(m.down);
  }
  void add(const ExpertsRecipe& e) {
    add(e.router);
    if (e.selection_bias) vector(*e.selection_bias, SynthKind::bias);
    add(e.input);
    add(e.down);
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

  Container container_;
  const std::map<std::string, std::vector<float>>& constants_;
  std::set<std::string> seen_;
  std::vector<SynthTensor> tensors_;
};

}  // namespace

std::vector<SynthTensor> synth_tensors(
    const Recipe& recipe, Container container,
    const std::map<std::string, std::vector<float>>& constants) {
  Collector collector(container, constants);
  collector.add(recipe);
  return collector.take();
}

}  // namespace ingot
