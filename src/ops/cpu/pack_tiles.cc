#include "ops/cpu/pack_tiles.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/half.h"
#include "tensor/dequantize.h"

namespace ingot::cpu {
namespace {

constexpr size_t kR = kTileRows;

// Where a stored group keeps its float16 d and, behind it, its minimum.
struct HalfPlace {
  int scale;
  int minimum;
};
HalfPlace halves_of(DType type) {
  switch (type) {
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108, 0};
    case DType::q6_k:
      return {208, 0};
    default:
      return {0, 2};
  }
}

uint16_t load_u16(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

void store_u16(uint8_t* p, uint16_t bits) { std::memcpy(p, &bits, sizeof bits); }

// The small integer that a format multiplied with `unit`: products are exact, so the
// quotient is whole.  Where unit is 0 or not finite any integer gives the same product.
int multiple_of(float product, float unit) {
  const float quotient = product / unit;
  return std::isfinite(quotient) ? int(std::nearbyint(quotient)) : 1;
}

// From values to codes as they are stored: unsigned, or the index in a table.
struct StoredCodes {
  explicit StoredCodes(const TileLayout& l) {
    const int8_t* table = code_table(l.table);
    for (int v = -128; v < 128; ++v)
      code[uint8_t(v)] = table == nullptr ? uint8_t(v - l.format.zero) : uint8_t(0);
    for (int i = 15; table != nullptr && i >= 0; --i)
      code[uint8_t(table[i])] = uint8_t(i);
  }
  uint8_t code[256];
};

void put_header(const TileLayout& l, DType type, const std::byte* source, uint8_t* header,
                size_t row) {
  const HalfPlace place = halves_of(type);
  switch (l.scales) {
    case ScaleKind::f16_min:
    case ScaleKind::k_min:
    case ScaleKind::k_min_16:
      store_u16(header + 2 * kR + 2 * row, load_u16(source + place.minimum));
      [[fallthrough]];
    case ScaleKind::f16:
    case ScaleKind::f16_times_32:
    case ScaleKind::f16_times_16:
      store_u16(header + 2 * row, load_u16(source + place.scale));
      break;
    case ScaleKind::e8m0_halved:
      header[row] = uint8_t(source[0]);
      break;
    default:
      break;
  }
}

// Scales of group u of a span, out of what unpack_groups made of them.
void put_group_scales(const TileLayout& l, DType type, const std::byte* source, int u,
                      const QuantGroup32& group, uint8_t* own, size_t row) {
  const HalfPlace place = halves_of(type);
  switch (l.scales) {
    case ScaleKind::f16_times_32:
      own[row] = uint8_t(
          multiple_of(group.scale[0], f16_to_f32(load_u16(source + place.scale))));
      break;
    case ScaleKind::f16_times_16:
      for (size_t h = 0; h < 2; ++h)
        own[h * kR + row] = uint8_t(
            multiple_of(group.scale[h], f16_to_f32(load_u16(source + place.scale))));
      break;
    case ScaleKind::k_min:
    case ScaleKind::k_min_16: {
      const float d = f16_to_f32(load_u16(source + place.scale));
      const float minimum = f16_to_f32(load_u16(source + place.minimum));
      for (size_t h = 0; h < 2; ++h) {
        const int scale = multiple_of(group.scale[h], d);
        const int offset = multiple_of(-group.offset[h], minimum);
        if (l.scales == ScaleKind::k_min_16) {
          own[h * kR + row] = uint8_t(scale | (offset << 4));
        } else {
          own[row] = uint8_t(scale);
          own[kR + row] = uint8_t(offset);
        }
      }
      break;
    }
    case ScaleKind::e4m3_halved:
      for (size_t h = 0; h < 2; ++h) {
        // ggml's is unsigned, and its 0x7f means zero.
        const auto byte = uint8_t(uint8_t(source[2 * u + int(h)]) & 0x7f);
        own[h * kR + row] = byte == 0x7f ? uint8_t(0) : byte;
      }
      break;
    default:
      break;
  }
}

uint8_t* tile_of(WeightSegment& s, int row) {
  return reinterpret_cast<uint8_t*>(s.data) + size_t(row / kTileRows) * s.tile_bytes;
}

}  // namespace

void pack_ggml_row(WeightSegment& s, int row, const std::byte* source) {
  const TileLayout& l = s.layout;
  const auto r = size_t(row % kTileRows);
  const int in_span = l.span_cols / kGroupCols;
  const size_t source_bytes = row_bytes(s.dtype, uint64_t(l.span_cols)).value();
  const StoredCodes stored(l);
  QuantGroup32 groups[kChunkGroups];
  uint8_t codes[kGroupCols];
  for (int g = 0; g < s.n_cols / kGroupCols; g += in_span, source += source_bytes) {
    unpack_groups(s.dtype, source, l.span_cols, groups);
    put_header(l, s.dtype, source, tile_of(s, row) + l.header_at(g), r);
    for (int u = 0; u < in_span; ++u) {
      uint8_t* own = tile_of(s, row) + l.group_at(g + u);
      put_group_scales(l, s.dtype, source, u, groups[u], own, r);
      for (int c = 0; c < kGroupCols; ++c)
        codes[c] = stored.code[uint8_t(groups[u].code[c])];
      put_codes(l, codes, int(r), own + l.scale_bytes());
    }
  }
}

void pack_affine_row(WeightSegment& s, const AffineMatrix& m, int row,
                     std::vector<uint8_t>& codes) {
  const TileLayout& l = s.layout;
  codes.resize(size_t(s.n_cols));
  // Scales are copied as their bytes: header or group, 8 rows of each.
  const bool wide = m.mode == AffineMode::affine || m.mode == AffineMode::zero_point;
  const size_t size = wide ? size_t(info(m.scale_dtype).group_bytes) : 1;
  const size_t bias_size = m.mode == AffineMode::zero_point ? 1 : size;
  unpack_affine_codes(m, row, codes);
  const auto r = size_t(row % kTileRows);
  for (int g = 0; g < s.n_cols / kGroupCols; ++g) {
    uint8_t group[kGroupCols];
    for (int c = 0; c < kGroupCols; ++c)
      group[c] =
          uint8_t(codes[size_t(g) * kGroupCols + size_t(c)] ^ (l.bits == 8 ? 128 : 0));
    put_codes(l, group, int(r), tile_of(s, row) + l.group_at(g) + l.scale_bytes());
  }
  for (int i = 0; i < m.groups_per_row(); ++i) {
    const size_t from = (size_t(row) * size_t(m.groups_per_row()) + size_t(i)) * size;
    const int g = i * m.group_size / kGroupCols;
    if (m.mode == AffineMode::nvfp4) {  // two scales a group of 32
      tile_of(s, row)[l.group_at(g) + size_t(i % 2) * kR + r] = uint8_t(m.scales[from]);
      continue;
    }
    uint8_t* header = tile_of(s, row) + l.header_at(g);
    std::memcpy(header + r * size, m.scales.data() + from, size);
    if (!m.biases.empty())
      std::memcpy(header + kR * size + r * bias_size,
                  m.biases.data() + from / size * bias_size, bias_size);
  }
}

}  // namespace ingot::cpu
