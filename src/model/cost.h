// What a recipe costs: parameters, bytes of state read, arithmetic.
#pragma once

#include <cstdint>

#include "model/recipe.h"

namespace ingot {

// Values in every matrix and vector that the recipe names; a tied head counts once.
struct ParameterCount {
  uint64_t total = 0;
  uint64_t embedding = 0;       // token and learned position embeddings
  uint64_t head = 0;            // 0 when tied
  uint64_t mtp = 0;             // heads that predict further tokens
  uint64_t layer_matrices = 0;  // what one token is multiplied with, the head left out:
                                // of experts those that it uses
};
ParameterCount count_parameters(const Recipe& recipe);

// Bytes of state that one token at `position` reads: keys and values, windows counted;
// recurrent state.
double state_bytes_read(const Recipe& recipe, KvType type, int position);

// Multiplications and additions of one token at `position`, without the head.
double layer_operations(const Recipe& recipe, int position);

}  // namespace ingot
