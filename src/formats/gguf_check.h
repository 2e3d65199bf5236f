// What a GGUF file's metadata says about its model, checked without knowing the model
// (formats.md 2.5): counts in range, per-layer arrays as long as the layers, token ids
// inside the vocabulary.  Missing keys are the recipe's business.
#pragma once

#include <string_view>

#include "formats/checkpoint.h"

namespace ingot {

// Throws Error "SOURCE: key 'KEY': found, wanted (RULE)".
void check_gguf_model(const Checkpoint& checkpoint, std::string_view source);

}  // namespace ingot
