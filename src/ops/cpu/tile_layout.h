// How a tile of 8 quantised weight rows lies in memory.  Columns are cut into spans; a
// span is a header (what all its groups share, 8 rows of each) and its groups of 32
// columns, each its own scales and then its codes:
//
//   4 bits    [4][8 rows][4]: low nibbles are chunks 0-3 of 4 columns, high ones 4-7
//   2 bits    [2][8 rows][4]: bits 2j, 2j + 1 of the first half are chunk j, of the
//             second chunk 4 + j
//   1 bit     [8 rows][4]: bit c is chunk c
//   8 bits    [8 chunks][8 rows][4]
//
// 3, 5 and 6 bits are 2, 4 and 4 bits followed by the 1 or 2 high bits.  So a tile is as
// large as the stored rows, or 4 % larger where the file packs 6-bit scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/kernels.h"
#include "tensor/affine.h"
#include "tensor/dtype.h"

namespace ingot::cpu {

enum class ScaleKind : uint8_t {
  f16,           // header: f16 d [8]
  f16_min,       // header: f16 d, m [8] each; offset m
  f16_times_32,  // header: f16 d; group: int8 s [8]; scale d s
  f16_times_16,  // header: f16 d; group: int8 s [2][8], one a half
  k_min,         // header: f16 d, dmin; group: u8 s, m [8] each; d s, offset -(dmin m)
  k_min_16,      // header: f16 d, dmin; group: u8 [2][8], low nibble s, high nibble m
  e8m0_halved,   // header: u8 e [8]; scale 2^(e - 128)
  e4m3_halved,   // group: u8 [2][8], an E4M3 float; half of it
  affine_f16,    // header: f16 scale, bias [8] each
  affine_bf16,
  affine_f32,
  zero_f16,  // header: f16 scale [8], u8 zero [8]; offset -(scale zero), which is exact
  zero_bf16,
};

// Codes that index a table of signed values instead of being numbers.
enum class CodeTable : uint8_t { none, iq4, e2m1 };
const int8_t* code_table(CodeTable table);  // 16 values

struct TileLayout {
  int bits = 0;  // 0: not a tiled type
  CodeTable table = CodeTable::none;
  ScaleKind scales = ScaleKind::f16;
  int span_cols = kGroupCols;
  TileFormat format;

  size_t code_bytes() const { return size_t(bits) * 32; }  // of a group
  size_t header_bytes() const;
  size_t scale_bytes() const;  // of a group
  size_t group_bytes() const { return scale_bytes() + code_bytes(); }
  size_t span_bytes() const {
    return header_bytes() + size_t(span_cols / kGroupCols) * group_bytes();
  }
  // Where group g's span and own bytes begin in a tile.
  size_t header_at(int g) const {
    return size_t(g / (span_cols / kGroupCols)) * span_bytes();
  }
  size_t group_at(int g) const {
    return header_at(g) + header_bytes() +
           size_t(g % (span_cols / kGroupCols)) * group_bytes();
  }
};

// The layout of a ggml type; bits == 0 when it has none and stays as stored.
TileLayout tile_layout(DType type);
// The layout of MLX's affine matrices.
TileLayout affine_layout(int bits, int group_size, DType scale_dtype);
// The layout of a zero_point matrix; bits == 0 when its groups are no multiples of 32
// columns, its columns no multiple of the group, its codes of 7 bits, or its scales
// float32 (then scale * zero is not exact).
TileLayout zero_point_layout(const AffineMatrix& matrix);

// Writes the 32 codes (0 .. 2^bits - 1) of one row into its group's code bytes.
void put_codes(const TileLayout& layout, const uint8_t (&codes)[kGroupCols], int row,
               uint8_t* group_codes);

// Portable UnpackTile for segments with a layout.
void unpack_layout(const WeightSegment& segment, int tile, int first_group, int n_groups,
                   TileGroup* out);

}  // namespace ingot::cpu
