// Codes that are no integers, or whose groups no tile of 32 columns fits: E4M3 floats
// under scales of any shape, act-order, odd groups, float32 scales.  A byte a weight,
// widened exactly where the products are formed, so activations stay float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/affine.h"

namespace ingot::cpu {

// A tile of 8 rows: float32 scales [n_groups, 8], then (zero_point) float32 zeros alike,
// then codes [n_cols, 8].
struct CodedLayout {
  AffineMode mode = AffineMode::e4m3;  // or zero_point
  int n_groups = 0;
  std::vector<int32_t> group_of_column;

  bool has_zeros() const { return mode == AffineMode::zero_point; }
  size_t group_bytes() const;  // of all scales and zeros
  size_t tile_bytes() const { return group_bytes() + 8 * group_of_column.size(); }
};
CodedLayout coded_layout(const AffineMatrix& matrix);

// Writes row `row` of the matrix into its tile, which begins at `tile`.
void pack_coded_row(const CodedLayout& layout, const AffineMatrix& matrix, int row,
                    std::byte* tile);

// values[n_cols][8]: columns first_col and on of a tile.  Padding rows give zero times a
// scale of zero.
void coded_values(const CodedLayout& layout, const std::byte* tile, int first_col,
                  int n_cols, float* values);

}  // namespace ingot::cpu
