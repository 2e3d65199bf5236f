// Stored rows of the common ggml types into tiles, four codes at a time.
#pragma once

#include "ops/cpu/packed.h"

namespace ingot::cpu {

// Writes one row of a segment into its tile.
using PackWords = void (*)(WeightSegment& segment, int row, const std::byte* source);

// The way for a type, or null: then pack_ggml_row() serves it.  Both write the same
// bytes.
PackWords pack_words(DType type);

}  // namespace ingot::cpu
