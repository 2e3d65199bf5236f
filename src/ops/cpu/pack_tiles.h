// Stored rows into tiles (tile_layout.h).
#pragma once

#include "ops/cpu/packed.h"

namespace ingot::cpu {

// Writes row `row` of a segment whose layout is that of its ggml type.
void pack_ggml_row(WeightSegment& segment, int row, const std::byte* source);
// Writes every row of an MLX or zero_point matrix.
void pack_affine_rows(WeightSegment& segment, const AffineMatrix& matrix);

}  // namespace ingot::cpu
