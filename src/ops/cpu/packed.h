// Weights as the kernels stream them: tiles of 8 rows.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/threads.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/pack_coded.h"
#include "ops/cpu/tile_layout.h"
#include "ops/ops.h"

namespace ingot::cpu {

enum class SegmentKind : uint8_t {
  f32,     // tiles [n_cols, 8] of float32
  f16,     // the same of float16
  bf16,    // the same of bfloat16
  tiles,   // quantised, as tile_layout.h says
  stored,  // quantised, 8 rows as the file has them, one after the other
  mxfp8,   // tiles of E8M0 exponents [n_cols / 32, 8], then E4M3 codes [n_cols, 8]
  coded,   // any other codes under float32 scales, as pack_coded.h says
};

// Rows of one type.
struct WeightSegment {
  SegmentKind kind = SegmentKind::f32;
  DType dtype = DType::f32;
  int first_row = 0;  // in the stacked weight
  int n_rows = 0;
  int n_cols = 0;
  int n_tiles = 0;
  size_t tile_bytes = 0;
  TileLayout layout;            // kind tiles
  TileFormat format;            // of what unpack gives
  UnpackTile unpack = nullptr;  // kinds tiles and stored: those that meet int8
  FewRows few_rows = nullptr;   // the kernel for few rows, where there is one
  CodedLayout coded;            // kind coded
  std::unique_ptr<std::byte[]> owned;
  std::byte* data = nullptr;  // aligned to 64

  const std::byte* tile(int i) const { return data + size_t(i) * tile_bytes; }
  bool has_codes() const { return unpack != nullptr; }
  int rows_in_tile(int i) const {
    return n_rows - i * kTileRows < kTileRows ? n_rows - i * kTileRows : kTileRows;
  }
};

class PackedWeight : public Weight {
 public:
  std::vector<WeightSegment> segments;
  int n_tiles = 0;
};

// Spread over the pool.
std::unique_ptr<PackedWeight> pack_weight(const Kernels& kernels,
                                          std::span<const WeightRows> parts,
                                          ThreadPool& pool);

// values[n_cols][8]: columns first_col and on of a tile whose kind has no codes, exactly.
void tile_values(const Kernels& kernels, const WeightSegment& segment, int tile,
                 int first_col, int n_cols, float* values);

// out[n_cols] = row `row` of the stacked weight.  Returns the bytes read.
size_t read_row(const Kernels& kernels, const PackedWeight& weight, int row,
                std::span<float> out);

}  // namespace ingot::cpu
