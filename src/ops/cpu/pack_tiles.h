// Stored rows into tiles (tile_layout.h).
#pragma once

#include <vector>

#include "ops/cpu/packed.h"

namespace ingot::cpu {

// What the packing of a row may use, one a thread.
struct PackScratch {
  std::vector<float> values;
  std::vector<uint8_t> codes;
};

// Writes row `row` of a segment whose layout is that of its ggml type.
void pack_ggml_row(WeightSegment& segment, int row, const std::byte* source);
// Writes row `row` of an MLX or zero_point matrix.  `codes` is scratch.
void pack_affine_row(WeightSegment& segment, const AffineMatrix& matrix, int row,
                     std::vector<uint8_t>& codes);

}  // namespace ingot::cpu
