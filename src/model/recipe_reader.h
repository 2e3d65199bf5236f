// JSON as recipe_json() writes it, back to a Recipe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/recipe.h"

namespace ingot {

struct RecipeLimits {
  int max_entries = 500'000;  // matrices, vectors and the like, patterns told out
};

// Throws Error "WHEREfield 'layers[3].mixer.rope' is ..., wanted ..." when a field is
// missing, unknown, of the wrong type or out of range.  Whether the fields fit each other
// is check_recipe's matter (recipe_check.h).
Recipe read_recipe(const nlohmann::json& object, const std::string& where,
                   const RecipeLimits& limits = {});

// A value for messages: on one line, cut where it is long.
std::string shown_json(const nlohmann::json& value);

}  // namespace ingot
