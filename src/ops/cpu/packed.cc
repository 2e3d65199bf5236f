#include "ops/cpu/packed.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/error.h"
#include "base/half.h"
#include "ops/cpu/pack_coded.h"
#include "ops/cpu/pack_tiles.h"
#include "ops/cpu/pack_words.h"
#include "ops/testing_faults.h"
#include "tensor/dequantize.h"

namespace ingot::cpu {
namespace {

constexpr size_t kAlign = 64;

void allocate_tiles(WeightSegment& s, size_t tile_bytes) {
  s.n_tiles = (s.n_rows + kTileRows - 1) / kTileRows;
  s.tile_bytes = tile_bytes;
  const size_t bytes = size_t(s.n_tiles) * tile_bytes + kAlign;
  s.owned = std::make_unique_for_overwrite<std::byte[]>(bytes);  // pack_rows() clears
  const auto address = reinterpret_cast<uintptr_t>(s.owned.get());
  s.data = s.owned.get() + (kAlign - address % kAlign) % kAlign;
  if (switched("huge_pages")) {
    constexpr uintptr_t kPage = 4096;
    const uintptr_t first = (address + kPage - 1) / kPage * kPage;
    if (first + kPage < address + bytes)
      ::madvise(reinterpret_cast<void*>(first), address + bytes - first, MADV_HUGEPAGE);
  }
}

// Tiles [n_cols, 8] of a scalar type: element `size` bytes.
void interleave_row(WeightSegment& s, int row, const std::byte* source, size_t size) {
  std::byte* out =
      s.data + size_t(row / kTileRows) * s.tile_bytes + size_t(row % kTileRows) * size;
  for (int c = 0; c < s.n_cols; ++c)
    std::memcpy(out + size_t(c) * kTileRows * size, source + size_t(c) * size, size);
}

// Writes one row of a segment into its tile; rows of other tiles may be written
// meanwhile.
using PackRow = std::function<void(WeightSegment&, int row, PackScratch&)>;

PackRow prepare_scalars(WeightSegment& s, const WeightRows& part, SegmentKind kind,
                        size_t size) {
  s.kind = kind;
  allocate_tiles(s, size_t(s.n_cols) * kTileRows * size);
  return [&part, size](WeightSegment& segment, int row, PackScratch&) {
    interleave_row(segment, row, part.row(row), size);
  };
}

// Every other float type becomes float32.
PackRow prepare_as_f32(WeightSegment& s, const WeightRows& part) {
  s.kind = SegmentKind::f32;
  allocate_tiles(s, size_t(s.n_cols) * kTileRows * sizeof(float));
  return [&part](WeightSegment& segment, int row, PackScratch& scratch) {
    scratch.values.resize(size_t(segment.n_cols));
    if (part.affine)
      dequantize_affine_row(*part.affine, row, scratch.values);
    else
      dequantize_row(part.dtype, part.row(row), scratch.values);
    const auto* bytes = reinterpret_cast<const std::byte*>(scratch.values.data());
    interleave_row(segment, row, bytes, sizeof(float));
  };
}

// ---- stored: any ggml type through unpack_groups ------------------------------------

void place_group(const QuantGroup32& group, int row, TileGroup& out) {
  for (int c = 0; c < kGroupCols; ++c)
    out.code[c / 4][row][c % 4] = uint8_t(group.code[c]);
  for (int h = 0; h < 2; ++h) {
    out.scale[h][row] = group.scale[h];
    out.offset[h][row] = group.offset[h];
  }
}

void unpack_stored(const WeightSegment& s, int tile, int first_group, int n_groups,
                   TileGroup* out) {
  QuantGroup32 groups[kChunkGroups];
  const size_t row_size = s.tile_bytes / kTileRows;
  const size_t offset = row_bytes(s.dtype, uint64_t(first_group) * kGroupCols).value();
  const int n_rows = s.rows_in_tile(tile);
  for (int r = 0; r < kTileRows; ++r) {
    if (r < n_rows)
      unpack_groups(s.dtype, s.tile(tile) + size_t(r) * row_size + offset,
                    int64_t{n_groups} * kGroupCols, groups);
    else
      std::memset(groups, 0, sizeof groups);
    for (int g = 0; g < n_groups; ++g) place_group(groups[g], r, out[g]);
  }
}

PackRow prepare_stored(WeightSegment& s, const WeightRows& part) {
  const auto row_size = row_bytes(part.dtype, uint64_t(s.n_cols));
  CHECK(row_size.has_value());
  s.kind = SegmentKind::stored;
  s.format = {.range = CodeRange::s8, .zero = 0, .halves = true, .offsets = true};
  s.unpack = unpack_stored;
  allocate_tiles(s, *row_size * kTileRows);
  return [&part, size = *row_size](WeightSegment& segment, int row, PackScratch&) {
    std::memcpy(segment.data + size_t(row) * size, part.row(row), size);
  };
}

// ---- tiles --------------------------------------------------------------------------

void use_layout(WeightSegment& s, const Kernels& kernels, const TileLayout& layout) {
  s.kind = SegmentKind::tiles;
  s.layout = layout;
  s.format = layout.format;
  s.unpack = kernels.unpack;
  allocate_tiles(s, size_t(s.n_cols / layout.span_cols) * layout.span_bytes());
}

void pack_mxfp8_row(WeightSegment& s, const AffineMatrix& m, int row) {
  const auto r = size_t(row);
  const auto n_scales = size_t(m.groups_per_row());
  std::byte* tile = s.data + r / kTileRows * s.tile_bytes + r % kTileRows;
  const std::byte* scales = m.scales.data() + r * n_scales;
  const std::byte* codes = m.codes.data() + r * size_t(s.n_cols);
  for (size_t i = 0; i < n_scales; ++i) tile[i * kTileRows] = scales[i];
  for (size_t c = 0; c < size_t(s.n_cols); ++c)
    tile[(n_scales + c) * kTileRows] = codes[c];
}

PackRow prepare_mxfp8(WeightSegment& s, const AffineMatrix& m) {
  s.kind = SegmentKind::mxfp8;
  allocate_tiles(s, size_t(m.groups_per_row() + s.n_cols) * kTileRows);
  return [&m](WeightSegment& segment, int row, PackScratch&) {
    pack_mxfp8_row(segment, m, row);
  };
}

void mxfp8_values(const WeightSegment& s, int tile, int first_col, int n_cols,
                  float* values) {
  static const auto code_values = [] {
    std::array<float, 256> table;
    for (int i = 0; i < 256; ++i) table[size_t(i)] = f8_e4m3_to_f32(uint8_t(i));
    return table;
  }();
  const std::byte* scales = s.tile(tile);
  const std::byte* codes = scales + size_t(s.n_cols / kGroupCols) * kTileRows;
  for (int c = first_col; c < first_col + n_cols; ++c)
    for (int r = 0; r < kTileRows; ++r) {
      const auto exponent = uint8_t(scales[c / kGroupCols * kTileRows + r]);
      const auto code = uint8_t(codes[c * kTileRows + r]);
      values[(c - first_col) * kTileRows + r] =
          f8_e8m0_to_f32(exponent) * code_values[code];
    }
}

PackRow prepare_coded(WeightSegment& s, const AffineMatrix& m) {
  s.kind = SegmentKind::coded;
  s.coded = coded_layout(m);
  allocate_tiles(s, s.coded.tile_bytes());
  return [&m](WeightSegment& segment, int row, PackScratch&) {
    pack_coded_row(segment.coded, m, row,
                   segment.data + size_t(row / kTileRows) * segment.tile_bytes);
  };
}

PackRow prepare_affine(WeightSegment& s, const Kernels& kernels, const WeightRows& part) {
  const AffineMatrix& m = *part.affine;
  TileLayout layout;
  switch (m.mode) {
    case AffineMode::mxfp8:
      return prepare_mxfp8(s, m);
    case AffineMode::e4m3:
      return prepare_coded(s, m);
    case AffineMode::zero_point:
      layout = zero_point_layout(m);
      if (layout.bits == 0) return prepare_coded(s, m);
      break;
    case AffineMode::mxfp4:
      layout = tile_layout(DType::mxfp4);
      break;
    case AffineMode::nvfp4:
      layout = tile_layout(DType::nvfp4);
      layout.span_cols = kGroupCols;
      break;
    case AffineMode::affine:
      layout = affine_layout(m.bits, m.group_size, m.scale_dtype);
      break;
  }
  // A row that ends within a group of 32: nvfp4 groups have 16.
  if (s.n_cols % kGroupCols != 0) return prepare_as_f32(s, part);
  use_layout(s, kernels, layout);
  return [&m](WeightSegment& segment, int row, PackScratch& scratch) {
    pack_affine_row(segment, m, row, scratch.codes);
  };
}

// Chooses the form and makes room.
PackRow prepare(WeightSegment& s, const Kernels& kernels, const WeightRows& part) {
  if (part.affine) return prepare_affine(s, kernels, part);
  if (part.dtype == DType::f32) return prepare_scalars(s, part, SegmentKind::f32, 4);
  if (part.dtype == DType::f16) return prepare_scalars(s, part, SegmentKind::f16, 2);
  if (part.dtype == DType::bf16) return prepare_scalars(s, part, SegmentKind::bf16, 2);
  if (const TileLayout layout = tile_layout(part.dtype); layout.bits != 0) {
    use_layout(s, kernels, layout);
    if (const PackWords pack = pack_words(part.dtype);
        pack != nullptr && !switched("no_words"))
      return [&part, pack](WeightSegment& segment, int row, PackScratch&) {
        pack(segment, row, part.row(row));
      };
    return [&part](WeightSegment& segment, int row, PackScratch&) {
      pack_ggml_row(segment, row, part.row(row));
    };
  }
  if (is_quantised(part.dtype)) return prepare_stored(s, part);
  return prepare_as_f32(s, part);
}

// Tile by tile, over the pool.
void pack_rows(WeightSegment& s, const PackRow& pack_row, ThreadPool& pool) {
  constexpr int kGrain = 4;  // tiles
  const bool writes_all = s.kind == SegmentKind::tiles && pack_words(s.dtype) != nullptr;
  pool.parallel_for(s.n_tiles, kGrain, [&](WorkRange range) {
    PackScratch scratch;
    for (int tile = range.begin; tile < range.end; ++tile) {
      if (!writes_all || s.rows_in_tile(tile) < kTileRows)
        std::memset(s.data + size_t(tile) * s.tile_bytes, 0, s.tile_bytes);
      for (int r = 0; r < s.rows_in_tile(tile); ++r)
        pack_row(s, tile * kTileRows + r, scratch);
    }
  });
}

WeightSegment pack_segment(const Kernels& kernels, const WeightRows& part,
                           ThreadPool& pool) {
  WeightSegment s;
  s.dtype = part.dtype;
  s.n_rows = part.n_rows;
  s.n_cols = part.n_cols;
  pack_rows(s, prepare(s, kernels, part), pool);
  s.few_rows = kernels.few_rows(s);
  return s;
}

// A row out of its tile, exactly: scale * (code + zero) + offset as the format defines
// it.
void read_tile_row(const WeightSegment& s, int row, std::span<float> out) {
  TileGroup groups[kChunkGroups];
  const int n_groups = s.n_cols / kGroupCols;
  const int r = row % kTileRows;
  for (int g0 = 0; g0 < n_groups; g0 += kChunkGroups) {
    const int n = n_groups - g0 < kChunkGroups ? n_groups - g0 : kChunkGroups;
    s.unpack(s, row / kTileRows, g0, n, groups);
    for (int i = 0; i < n * kGroupCols; ++i) {
      const TileGroup& group = groups[i / kGroupCols];
      const int c = i % kGroupCols;
      const int h = s.format.halves ? c / 16 : 0;
      const uint8_t byte = group.code[c / 4][r][c % 4];
      const int code = (s.format.range == CodeRange::s8 ? int(int8_t(byte)) : int(byte)) +
                       s.format.zero;
      const float value = group.scale[h][r] * float(code);
      out[size_t(g0) * kGroupCols + size_t(i)] =
          s.format.offsets ? value + group.offset[h][r] : value;
    }
  }
}

}  // namespace

void tile_values(const Kernels& kernels, const WeightSegment& s, int tile, int first_col,
                 int n_cols, float* values) {
  if (s.kind == SegmentKind::mxfp8)
    return mxfp8_values(s, tile, first_col, n_cols, values);
  if (s.kind == SegmentKind::coded)
    return coded_values(s.coded, s.tile(tile), first_col, n_cols, values);
  const size_t skip = size_t(first_col) * kTileRows;
  const size_t count = size_t(n_cols) * kTileRows;
  if (s.kind == SegmentKind::f32) {
    std::memcpy(values, s.tile(tile) + skip * sizeof(float), count * sizeof(float));
    return;
  }
  const auto widen =
      s.kind == SegmentKind::f16 ? kernels.f16_to_f32 : kernels.bf16_to_f32;
  widen(reinterpret_cast<const uint16_t*>(s.tile(tile)) + skip, int(count), values);
}

std::unique_ptr<PackedWeight> pack_weight(const Kernels& kernels,
                                          std::span<const WeightRows> parts,
                                          ThreadPool& pool) {
  auto weight = std::make_unique<PackedWeight>();
  for (const WeightRows& part : parts) {
    CHECK(part.n_rows >= 0 && part.n_cols >= 1);
    if (weight->segments.empty()) weight->n_cols = part.n_cols;
    CHECK(part.n_cols == weight->n_cols);
    WeightSegment segment = pack_segment(kernels, part, pool);
    segment.first_row = weight->n_rows;
    weight->n_rows += segment.n_rows;
    weight->n_tiles += segment.n_tiles;
    weight->bytes += size_t(segment.n_tiles) * segment.tile_bytes;
    weight->segments.push_back(std::move(segment));
  }
  return weight;
}

size_t read_row(const Kernels& kernels, const PackedWeight& weight, int row,
                std::span<float> out) {
  CHECK(row >= 0 && row < weight.n_rows && out.size() == size_t(weight.n_cols));
  size_t i = 0;
  while (row >= weight.segments[i].first_row + weight.segments[i].n_rows) ++i;
  const WeightSegment& s = weight.segments[i];
  const int local = row - s.first_row;
  if (s.has_codes()) {
    read_tile_row(s, local, out);
    return s.tile_bytes / kTileRows;
  }
  float values[kChunkCols * kTileRows];
  for (int c0 = 0; c0 < s.n_cols; c0 += kChunkCols) {
    const int n = std::min(kChunkCols, s.n_cols - c0);
    tile_values(kernels, s, local / kTileRows, c0, n, values);
    for (int c = 0; c < n; ++c)
      out[size_t(c0) + size_t(c)] = values[c * kTileRows + local % kTileRows];
  }
  return s.tile_bytes / kTileRows;
}

}  // namespace ingot::cpu
