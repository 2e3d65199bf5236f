// Whether the parts of a recipe fit each other.
#pragma once

#include <string>

#include "model/recipe.h"

namespace ingot {

// Throws Error "WHEREfield 'layers[3].mixer.rope' is 7, wanted -1 to 1" at the first
// field that contradicts another one.  A recipe that passes, each of whose numbers is in
// its own range (recipe_fields.h), can be described, counted, loaded and run without
// reaching a CHECK; whether the checkpoint has the tensors shows when it is loaded.
void check_recipe(const Recipe& recipe, const std::string& where);

}  // namespace ingot
