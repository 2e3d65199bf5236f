// What describe() says of a layer: its mixer, its MLP or experts, its norms.
#pragma once

#include <string>

#include "model/recipe.h"

namespace ingot {

// On one line, without the layer's index; equal for layers that compute alike.
std::string describe_layer(const LayerRecipe& layer, const Recipe& recipe);

}  // namespace ingot
