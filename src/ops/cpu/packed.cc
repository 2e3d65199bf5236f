#include "ops/cpu/packed.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/half.h"
#include "ops/cpu/pack_coded.h"
#include "ops/cpu/pack_tiles.h"
#include "tensor/dequantize.h"

namespace ingot::cpu {
namespace {

constexpr size_t kAlign = 64;

void allocate_tiles(WeightSegment& s, size_t tile_bytes) {
  s.n_tiles = (s.n_rows + kTileRows - 1) / kTileRows;
  s.tile_bytes = tile_bytes;
  const size_t bytes = size_t(s.n_tiles) * tile_bytes + kAlign;
  s.owned = std::make_unique<std::byte[]>(bytes);
  const auto address = reinterpret_cast<uintptr_t>(s.owned.get());
  s.data = s.owned.get() + (kAlign - address % kAlign) % kAlign;
}

// Tiles [n_cols, 8] of a scalar type: element `size` bytes.
void interleave_row(WeightSegment& s, int row, const std::byte* source, size_t size) {
  std::byte* out =
      s.data + size_t(row / kTileRows) * s.tile_bytes + size_t(row % kTileRows) * size;
  for (int c = 0; c < s.n_cols; ++c)
    std::memcpy(out + size_t(c) * kTileRows * size, source + size_t(c) * size, size);
}

void pack_scalars(WeightSegment& s, const WeightRows& part, SegmentKind kind,
                  size_t size) {
  s.kind = kind;
  allocate_tiles(s, size_t(s.n_cols) * kTileRows * size);
  for (int r = 0; r < s.n_rows; ++r) interleave_row(s, r, part.row(r), size);
}

// Every other float type becomes float32.
void pack_as_f32(WeightSegment& s, const WeightRows& part) {
  s.kind = SegmentKind::f32;
  allocate_tiles(s, size_t(s.n_cols) * kTileRows * sizeof(float));
  std::vector<float> row(size_t(s.n_cols));
  for (int r = 0; r < s.n_rows; ++r) {
    if (part.affine)
      dequantize_affine_row(*part.affine, r, row);
    else
      dequantize_row(part.dtype, part.row(r), row);
    interleave_row(s, r, reinterpret_cast<const std::byte*>(row.data()), sizeof(float));
  }
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

void pack_stored(WeightSegment& s, const WeightRows& part) {
  const auto row_size = row_bytes(part.dtype, uint64_t(s.n_cols));
  CHECK(row_size.has_value());
  s.kind = SegmentKind::stored;
  s.format = {.range = CodeRange::s8, .zero = 0, .halves = true, .offsets = true};
  s.unpack = unpack_stored;
  allocate_tiles(s, *row_size * kTileRows);
  for (int r = 0; r < s.n_rows; ++r)
    std::memcpy(s.data + size_t(r) * *row_size, part.row(r), *row_size);
}

// ---- tiles --------------------------------------------------------------------------

void use_layout(WeightSegment& s, const Kernels& kernels, const TileLayout& layout) {
  s.kind = SegmentKind::tiles;
  s.layout = layout;
  s.format = layout.format;
  s.unpack = kernels.unpack;
  allocate_tiles(s, size_t(s.n_cols / layout.span_cols) * layout.span_bytes());
}

void pack_mxfp8(WeightSegment& s, const AffineMatrix& m) {
  s.kind = SegmentKind::mxfp8;
  const size_t n_scales = size_t(m.groups_per_row());
  allocate_tiles(s, (n_scales + size_t(s.n_cols)) * kTileRows);
  for (int r = 0; r < s.n_rows; ++r) {
    std::byte* tile = s.data + size_t(r / kTileRows) * s.tile_bytes + r % kTileRows;
    const std::byte* scales = m.scales.data() + size_t(r) * n_scales;
    const std::byte* codes = m.codes.data() + size_t(r) * size_t(s.n_cols);
    for (size_t i = 0; i < n_scales; ++i) tile[i * kTileRows] = scales[i];
    for (size_t c = 0; c < size_t(s.n_cols); ++c)
      tile[(n_scales + c) * kTileRows] = codes[c];
  }
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

void pack_coded(WeightSegment& s, const AffineMatrix& m) {
  s.kind = SegmentKind::coded;
  s.coded = coded_layout(m);
  allocate_tiles(s, s.coded.tile_bytes());
  for (int r = 0; r < s.n_rows; ++r)
    pack_coded_row(s.coded, m, r, s.data + size_t(r / kTileRows) * s.tile_bytes);
}

void pack_zero_point(WeightSegment& s, const Kernels& kernels, const AffineMatrix& m) {
  const TileLayout layout = zero_point_layout(m);
  if (layout.bits == 0) return pack_coded(s, m);
  use_layout(s, kernels, layout);
  pack_affine_rows(s, m);
}

void pack_affine(WeightSegment& s, const Kernels& kernels, const WeightRows& part) {
  const AffineMatrix& m = *part.affine;
  if (m.mode == AffineMode::mxfp8) return pack_mxfp8(s, m);
  if (m.mode == AffineMode::e4m3) return pack_coded(s, m);
  if (m.mode == AffineMode::zero_point) return pack_zero_point(s, kernels, m);
  if (s.n_cols % kGroupCols != 0) return pack_as_f32(s, part);  // an odd half of nvfp4
  TileLayout layout = affine_layout(m.bits, m.group_size, m.scale_dtype);
  if (m.mode == AffineMode::mxfp4) layout = tile_layout(DType::mxfp4);
  if (m.mode == AffineMode::nvfp4) {
    layout = tile_layout(DType::nvfp4);
    layout.span_cols = kGroupCols;
  }
  use_layout(s, kernels, layout);
  pack_affine_rows(s, m);
}

WeightSegment pack_segment(const Kernels& kernels, const WeightRows& part) {
  WeightSegment s;
  s.dtype = part.dtype;
  s.n_rows = part.n_rows;
  s.n_cols = part.n_cols;
  if (part.affine) {
    pack_affine(s, kernels, part);
  } else if (part.dtype == DType::f32) {
    pack_scalars(s, part, SegmentKind::f32, 4);
  } else if (part.dtype == DType::f16) {
    pack_scalars(s, part, SegmentKind::f16, 2);
  } else if (part.dtype == DType::bf16) {
    pack_scalars(s, part, SegmentKind::bf16, 2);
  } else if (const TileLayout layout = tile_layout(part.dtype); layout.bits != 0) {
    use_layout(s, kernels, layout);
    for (int r = 0; r < s.n_rows; ++r) pack_ggml_row(s, r, part.row(r));
  } else if (is_quantised(part.dtype)) {
    pack_stored(s, part);
  } else {
    pack_as_f32(s, part);
  }
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
                                          std::span<const WeightRows> parts) {
  auto weight = std::make_unique<PackedWeight>();
  for (const WeightRows& part : parts) {
    CHECK(part.n_rows >= 0 && part.n_cols >= 1);
    if (weight->segments.empty()) weight->n_cols = part.n_cols;
    CHECK(part.n_cols == weight->n_cols);
    WeightSegment segment = pack_segment(kernels, part);
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
