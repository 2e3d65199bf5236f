#include "ops/cpu/packed.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/half.h"
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

// ---- groups: affine matrices --------------------------------------------------------

void unpack_tile_groups(const WeightSegment& s, int tile, int first_group, int n_groups,
                        TileGroup* out) {
  std::memcpy(static_cast<void*>(out),
              s.tile(tile) + size_t(first_group) * sizeof(TileGroup),
              size_t(n_groups) * sizeof(TileGroup));
}

void pack_affine(WeightSegment& s, const AffineMatrix& m) {
  s.kind = SegmentKind::groups;
  const int zero = m.bits == 8 ? 128 : 0;
  s.format = {.range = CodeRange::s8, .zero = zero, .halves = true, .offsets = true};
  s.unpack = unpack_tile_groups;
  const int n_groups = s.n_cols / kGroupCols;
  allocate_tiles(s, size_t(n_groups) * sizeof(TileGroup));
  std::vector<uint8_t> codes(size_t(s.n_cols));
  std::vector<float> scales(size_t(m.groups_per_row()));
  std::vector<float> biases(size_t(m.groups_per_row()));
  for (int r = 0; r < s.n_rows; ++r) {
    unpack_affine_codes(m, r, codes);
    unpack_affine_scales(m, r, scales, biases);
    auto* out =
        reinterpret_cast<TileGroup*>(s.data + size_t(r / kTileRows) * s.tile_bytes);
    for (int c = 0; c < s.n_cols; ++c)
      out[c / kGroupCols].code[c % kGroupCols / 4][r % kTileRows][c % 4] =
          uint8_t(codes[size_t(c)] - zero);
    for (int h = 0; h < 2 * n_groups; ++h) {
      const size_t group = size_t(h * 16 / m.group_size);
      out[h / 2].scale[h % 2][r % kTileRows] = scales[group];
      out[h / 2].offset[h % 2][r % kTileRows] = biases[group];
    }
  }
}

WeightSegment pack_segment(const WeightRows& part) {
  WeightSegment s;
  s.dtype = part.dtype;
  s.n_rows = part.n_rows;
  s.n_cols = part.n_cols;
  if (part.affine) {
    if (part.affine->mode == AffineMode::affine)
      pack_affine(s, *part.affine);
    else
      pack_as_f32(s, part);
  } else if (part.dtype == DType::f32) {
    pack_scalars(s, part, SegmentKind::f32, 4);
  } else if (part.dtype == DType::f16) {
    pack_scalars(s, part, SegmentKind::f16, 2);
  } else if (part.dtype == DType::bf16) {
    pack_scalars(s, part, SegmentKind::bf16, 2);
  } else if (is_quantised(part.dtype)) {
    pack_stored(s, part);
  } else {
    pack_as_f32(s, part);
  }
  return s;
}

float scalar_at(const WeightSegment& s, int row, int col) {
  const std::byte* tile = s.tile(row / kTileRows);
  const size_t at = size_t(col) * kTileRows + size_t(row % kTileRows);
  if (s.kind == SegmentKind::f32) {
    float value;
    std::memcpy(&value, tile + at * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, tile + at * 2, 2);
  return s.kind == SegmentKind::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
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
      out[size_t(g0 * kGroupCols + i)] =
          s.format.offsets ? value + group.offset[h][r] : value;
    }
  }
}

}  // namespace

std::unique_ptr<PackedWeight> pack_weight(const Kernels&,
                                          std::span<const WeightRows> parts) {
  auto weight = std::make_unique<PackedWeight>();
  for (const WeightRows& part : parts) {
    CHECK(part.n_rows >= 0 && part.n_cols >= 1);
    if (weight->segments.empty()) weight->n_cols = part.n_cols;
    CHECK(part.n_cols == weight->n_cols);
    WeightSegment segment = pack_segment(part);
    segment.first_row = weight->n_rows;
    weight->n_rows += segment.n_rows;
    weight->n_tiles += segment.n_tiles;
    weight->bytes += size_t(segment.n_tiles) * segment.tile_bytes;
    weight->segments.push_back(std::move(segment));
  }
  return weight;
}

size_t read_row(const PackedWeight& weight, int row, std::span<float> out) {
  CHECK(row >= 0 && row < weight.n_rows && out.size() == size_t(weight.n_cols));
  size_t i = 0;
  while (row >= weight.segments[i].first_row + weight.segments[i].n_rows) ++i;
  const WeightSegment& s = weight.segments[i];
  const int local = row - s.first_row;
  if (s.quantised()) {
    read_tile_row(s, local, out);
  } else {
    for (int c = 0; c < s.n_cols; ++c) out[size_t(c)] = scalar_at(s, local, c);
  }
  return s.tile_bytes / kTileRows;
}

}  // namespace ingot::cpu
