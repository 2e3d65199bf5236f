// Any bytes as config.json and generation_config.json: a recipe or an Error, nothing
// else.
#include "base/error.h"
#include "model/derive.h"
#include "model/generation_config.h"

namespace {

// Recipes of tens of thousands of matrices take seconds to write as JSON, and say nothing
// new there.
bool is_small(const ingot::Recipe& recipe) {
  size_t n = 0;
  for (const ingot::LayerRecipe& layer : recipe.layers) {
    if (const auto* experts = std::get_if<ingot::ExpertsRecipe>(&layer.ffn))
      n += experts->input.size();
    if (const auto* latent = std::get_if<ingot::LatentAttentionRecipe>(&layer.mixer))
      n += latent->key_up.size();
  }
  return n <= 4096;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  Checkpoint checkpoint;
  checkpoint.path = "fuzz";
  checkpoint.config_json.assign(reinterpret_cast<const char*>(data), size);
  checkpoint.generation_config_json = checkpoint.config_json;
  for (const char* name : {"model.embed_tokens.weight", "transformer.wte.weight"})
    checkpoint.tensors[name].view = {DType::bf16, {512, 64}, {}};
  try {
    const Recipe recipe = derive_recipe(checkpoint);
    for (const RopeRecipe& rope : recipe.ropes)
      rope_inverse_frequencies(rope, rope.short_divisors);
    describe(recipe);
    if (is_small(recipe)) recipe_json(recipe);
  } catch (const Error&) {
  }
  try {
    read_generation_config(checkpoint);
  } catch (const Error&) {
  }
  return 0;
}
