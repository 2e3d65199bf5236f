// A recipe that was derived from a config.json, as the GGUF file of the same model has
// it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/gguf_mix.h"
#include "model/recipe.h"

namespace ingot {

struct GgufForm {
  Metadata metadata;     // general.architecture and the architecture's own keys
  Recipe recipe;         // as derived from them: tensors have their names in GGUF
  MixtureFacts mixture;  // what the choice of types looks at
  // Tensors that stand for fields of a config: divisors of RoPE's frequencies.
  std::map<std::string, std::vector<float>> constants;
  bool head_is_embedding = false;  // the head repeats the embedding's values
};

// Throws Error naming `config` and the field when GGUF has no architecture for the family
// or no place for something that the recipe computes: the keys are derived again, and the
// two recipes compared.
GgufForm to_gguf(const Recipe& recipe, const std::filesystem::path& config);

}  // namespace ingot
