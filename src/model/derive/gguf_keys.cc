#include "model/derive/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace ingot {
namespace {

// Keys of one architecture.
class Keys {
 public:
  explicit Keys(std::string_view architecture) : prefix_(architecture) {
    metadata_["general.architecture"] = prefix_;
    prefix_ += ".";
  }
  void count(std::string_view key, int64_t value) { put(key, uint64_t(value)); }
  void real(std::string_view key, double value) { put(key, value); }
  void put(std::string_view key, MetadataValue value) {
    metadata_[prefix_ + std::string(key)] = std::move(value);
  }
  Metadata take() { return std::move(metadata_); }

 private:
  std::string prefix_;
  Metadata metadata_;
};

void norm_keys(Keys& keys, const NormRecipe& norm) {
  keys.real(norm.kind == NormKind::layer ? "attention.layer_norm_epsilon"
                                         : "attention.layer_norm_rms_epsilon",
            double(norm.eps));
}

void attention_keys(Keys& keys, const AttentionRecipe& a) {
  keys.count("attention.head_count", a.n_heads);
  keys.count("attention.head_count_kv", a.n_kv_heads);
  keys.count("attention.key_length", a.head_dim);
  keys.count("attention.value_length", a.head_dim);
  if (a.scale != float(1.0 / std::sqrt(double(a.head_dim))))
    keys.real("attention.scale", double(a.scale));
}

// One window for all layers, or a flag a layer.
void window_keys(Keys& keys, const Recipe& recipe, const Architecture& architecture) {
  int window = 0;
  std::vector<bool> local;
  for (const LayerRecipe& layer : recipe.layers) {
    const auto* a = std::get_if<AttentionRecipe>(&layer.mixer);
    local.push_back(a && a->window > 0);
    if (local.back()) window = a->window;
  }
  if (window == 0 && !architecture.states_window) return;
  keys.count("attention.sliding_window", window);
  if (architecture.window_pattern)
    keys.put("attention.sliding_window_pattern", std::move(local));
}

void scaling_keys(Keys& keys, const RopeRecipe& rope) {
  if (rope.scaling == RopeScalingKind::linear) {
    keys.put("rope.scaling.type", std::string("linear"));
    keys.real("rope.scaling.factor", rope.factor);
  }
  if (rope.scaling == RopeScalingKind::yarn) {
    keys.put("rope.scaling.type", std::string("yarn"));
    keys.real("rope.scaling.factor", rope.factor);
    keys.count("rope.scaling.original_context_length", int64_t(rope.original_context));
    keys.real("rope.scaling.yarn_beta_fast", rope.beta_fast);
    keys.real("rope.scaling.yarn_beta_slow", rope.beta_slow);
  }
  if (rope.scaling == RopeScalingKind::longrope) {
    keys.count("rope.scaling.original_context_length", int64_t(rope.original_context));
    keys.real("rope.scaling.attn_factor", double(rope.attention_factor));
  }
}

// ropes[0] is that of layers without a window, ropes[1] that of the others.
void rope_keys(Keys& keys, const Recipe& recipe, const Architecture& architecture) {
  if (recipe.ropes.empty()) return;
  const RopeRecipe& rope = recipe.ropes[0];
  keys.real("rope.freq_base", rope.theta);
  if (recipe.ropes.size() > 1) keys.real("rope.freq_base_swa", recipe.ropes[1].theta);
  keys.count("rope.dimension_count", rope.rotary_dims);
  scaling_keys(keys, rope);
  if (!architecture.rope_sections) return;
  // Pairs for time, height and width; of text the three positions are equal.
  const int64_t pairs = rope.rotary_dims / 2;
  keys.put("rope.dimension_sections",
           std::vector<int64_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
}

// `of_experts`: feed_forward_length is the experts' own, as in the first architecture
// that had them; later ones have a key for that, and here a dense layer of as many
// values.
void expert_keys(Keys& keys, const ExpertsRecipe& e, bool of_experts) {
  const RouterArgs& r = e.routing;
  keys.count("expert_count", r.n_experts);
  keys.count("expert_used_count", r.n_used);
  keys.count("feed_forward_length",
             of_experts ? e.intermediate_size : e.intermediate_size * r.n_used);
  if (of_experts) return;
  keys.count("expert_feed_forward_length", e.intermediate_size);
  if (!r.normalise) keys.put("expert_weights_norm", false);
  if (e.shared)
    keys.count("expert_shared_feed_forward_length", e.shared->intermediate_size);
}

void delta_keys(Keys& keys, const Recipe& recipe, const GatedDeltaRecipe& d) {
  keys.count("ssm.conv_kernel", d.conv_kernel);
  keys.count("ssm.state_size", d.key_dim);
  keys.count("ssm.group_count", d.n_key_heads);
  keys.count("ssm.time_step_rank", d.n_value_heads);
  keys.count("ssm.inner_size", int64_t(d.n_value_heads) * d.value_dim);
  std::vector<bool> recurrent;
  for (const LayerRecipe& layer : recipe.layers)
    recurrent.push_back(std::holds_alternative<GatedDeltaRecipe>(layer.mixer));
  // Older readers know the interval alone.
  const auto attention = std::find(recurrent.begin(), recurrent.end(), false);
  if (attention != recurrent.end())
    keys.count("full_attention_interval", attention - recurrent.begin() + 1);
  keys.put("attention.recurrent_layers", std::move(recurrent));
}

}  // namespace

Metadata gguf_keys(const Recipe& recipe, const Architecture& architecture) {
  Keys keys(architecture.name);
  keys.count("block_count", int64_t(recipe.layers.size()));
  keys.count("context_length", recipe.max_positions);
  keys.count("embedding_length", recipe.hidden_size);
  keys.count("vocab_size", recipe.vocab_size);
  norm_keys(keys, recipe.final_norm);
  window_keys(keys, recipe, architecture);
  rope_keys(keys, recipe, architecture);
  if (recipe.logit_softcap > 0)
    keys.real("final_logit_softcapping", double(recipe.logit_softcap));
  const GatedDeltaRecipe* delta = nullptr;
  const ExpertsRecipe* experts = nullptr;
  for (const LayerRecipe& layer : recipe.layers) {
    if (const auto* a = std::get_if<AttentionRecipe>(&layer.mixer))
      attention_keys(keys, *a);
    if (const auto* d = std::get_if<GatedDeltaRecipe>(&layer.mixer)) delta = d;
    if (const auto* e = std::get_if<ExpertsRecipe>(&layer.ffn)) experts = e;
    if (const auto* m = std::get_if<MlpRecipe>(&layer.ffn))
      keys.count("feed_forward_length", m->intermediate_size);
  }
  if (delta) delta_keys(keys, recipe, *delta);
  if (experts) expert_keys(keys, *experts, architecture.name == "llama");
  return keys.take();
}

}  // namespace ingot
