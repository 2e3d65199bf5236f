// Any bytes as recipe.json: a recipe that can be described, counted, planned for and read
// back the same, or an Error.
#include "base/check.h"
#include "base/error.h"
#include "model/cost.h"
#include "model/describe.h"
#include "model/recipe_file.h"
#include "model/state.h"

namespace ingot {
namespace {

// Small, so that an input that asks for much is refused within the time of a fuzz run.
constexpr RecipeLimits kLimits{.max_entries = 5000};

// A recipe with something of everything to lay a part over.
Recipe make_base() {
  constexpr char kText[] = R"({
    "family": "base", "vocab_size": 32, "hidden_size": 8, "max_positions": 64,
    "embed": {"name": "e", "n_rows": 32, "n_cols": 8},
    "ropes": [{"theta": 1e4, "rotary_dims": 4, "pairing": "half_split",
               "scaling": "none"}],
    "layers": [{
      "mixer": {"kind": "attention", "n_heads": 2, "n_kv_heads": 1, "head_dim": 4,
        "scale": 0.5, "window": 0, "rope": 0,
        "qkv": {"parts": [{"name": "qkv", "n_rows": 16, "n_cols": 8}]},
        "output": {"parts": [{"name": "o", "n_rows": 8, "n_cols": 8}]}},
      "ffn": {"kind": "experts", "intermediate_size": 4, "activation": {"kind": "silu"},
        "routing": {"score": "softmax", "n_experts": 4, "n_used": 2},
        "router": {"parts": [{"name": "r", "n_rows": 4, "n_cols": 8}]},
        "input": {"count": 4, "each": {"parts": [
          {"name": "x.{i}", "n_rows": 8, "n_cols": 8}]}},
        "down": {"count": 4, "each": {"parts": [{"name": "d", "n_rows": 8, "n_cols": 4,
          "slice": {"first": 0, "step": 1}, "n_slices": 4}]}}}}],
    "final_norm": {"kind": "rms", "eps": 1e-5, "weight": {"name": "n", "n": 8}}})";
  return parse_recipe(kText, "base");
}

void use(const Recipe& recipe) {
  for (const RopeRecipe& rope : recipe.ropes) {
    const std::vector<float> ones(size_t(rope.rotary_dims / 2), 1.0f);
    rope_inverse_frequencies(rope, ones);
  }
  describe(recipe);
  count_parameters(recipe);
  state_page_bytes(recipe, KvType::f16);
  state_slot_bytes(recipe);
  const std::string json = recipe_json(recipe);
  const Recipe again = parse_recipe(json, "again");
  CHECK(recipe_json(again) == json);
  CHECK(recipe_changes(recipe, again).empty());
}

}  // namespace
}  // namespace ingot

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  static const Recipe base = make_base();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Recipe recipe = parse_recipe_over(base, text, "recipe.json", kLimits);
    recipe_changes(base, recipe);
    use(recipe);
  } catch (const Error&) {
  }
  return 0;
}
