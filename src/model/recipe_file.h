// recipe.json in a model directory: a recipe by hand, whole or in part (docs/recipe.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "model/recipe.h"
#include "model/recipe_reader.h"

namespace ingot {

// A whole recipe, as recipe_json() writes it.  Throws Error "SOURCE: field ..." where a
// field is missing, unknown, out of range or contradicts another.
Recipe parse_recipe(std::string_view text, const std::string& source,
                    const RecipeLimits& limits = {});

// A whole recipe, or a part of one laid over `derived`: objects by their fields (null
// removes one), lists of objects entry by entry, anything else replaced.
Recipe parse_recipe_over(const Recipe& derived, std::string_view text,
                         const std::string& source, const RecipeLimits& limits = {});

// Whether the model directory has a recipe.json.
bool has_recipe_file(const Checkpoint& checkpoint);
// What its recipe.json makes of the derived recipe, or that itself where there is none.
Recipe load_recipe_override(const Checkpoint& checkpoint, Recipe derived);

// A field that differs.  Values as JSON on one line; empty: the field is absent.
struct RecipeChange {
  std::string field;  // "layers[0-3, 5].mixer.window"
  std::string derived;
  std::string now;
};
std::vector<RecipeChange> recipe_changes(const Recipe& derived, const Recipe& now);

}  // namespace ingot
