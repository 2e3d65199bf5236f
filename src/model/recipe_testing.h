// For tests: recipes with a bit of everything, and what equality means for them.
#pragma once

#include <cstdint>

#include "model/recipe.h"

namespace ingot {

// A recipe whose parts fit each other, of sizes and kinds that the seed decides.
Recipe random_recipe(uint64_t seed);

// Field by field, by the structs themselves; a field more in one of them does not
// compile.
bool same_recipe(const Recipe& a, const Recipe& b);

}  // namespace ingot
