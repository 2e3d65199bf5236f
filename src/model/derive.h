// config.json or GGUF metadata to a Recipe.  The one place that knows models' names.
#pragma once

#include "formats/checkpoint.h"
#include "model/recipe.h"

namespace ingot {

// Throws Error naming the file and the field when the model type is unknown, or a field
// is missing, out of range, contradictory, or of a kind that would change the arithmetic
// in a way this engine does not compute.
Recipe derive_from_metadata(const Checkpoint& checkpoint);
// The recipe of a config.json whose weights are not there: tensors have the names that
// the family's checkpoints use, and there is no MTP head, since tensors tell of those.
Recipe derive_from_config_alone(const std::filesystem::path& file);
// derive_from_metadata() with what a recipe.json beside the weights makes of it
// (recipe_file.h).
Recipe derive_recipe(const Checkpoint& checkpoint);

}  // namespace ingot
