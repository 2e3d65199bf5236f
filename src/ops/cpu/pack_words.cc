// A tile keeps 4 neighbouring columns of a row in one 32-bit word (tile_layout.h), as the
// stored blocks do: codes move from one to the other as words, by shifts and masks.
// "Word k" of a block's bytes is its columns 4 k ... 4 k + 3.
#include "ops/cpu/pack_words.h"

#include <cstring>

namespace ingot::cpu {
namespace {

constexpr size_t kVector = 32;  // bytes of 8 rows' words
constexpr uint32_t kNibbles = 0x0f0f0f0f;

uint32_t load(const uint8_t* p, int word) {
  uint32_t value;
  std::memcpy(&value, p + 4 * word, sizeof value);
  return value;
}

void store(uint8_t* p, int vector, uint32_t value) {
  std::memcpy(p + kVector * size_t(vector), &value, sizeof value);
}

// One row of a tile, walked group by group.
struct Target {
  Target(WeightSegment& s, int row)
      : bytes(reinterpret_cast<uint8_t*>(s.data) +
              size_t(row / kTileRows) * s.tile_bytes),
        row(size_t(row % kTileRows)),
        header_bytes(s.layout.header_bytes()),
        scale_bytes(s.layout.scale_bytes()),
        group_bytes(s.layout.group_bytes()) {}

  uint8_t* bytes;
  size_t row;
  size_t header_bytes, scale_bytes, group_bytes;
};

// The fifth bits of 32 columns, bit c being column c's: bit k of byte i is column 4 k +
// i.
uint32_t spread_fifth_bits(uint32_t bits) {
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t x = (bits >> i) & 0x11111111u;
    x = (x | (x >> 3)) & 0x03030303u;
    x = (x | (x >> 6)) & 0x000f000fu;
    x = (x | (x >> 12)) & 0x000000ffu;
    out |= x << (8 * i);
  }
  return out;
}

// Blocks of 32 columns: d (and m), the fifth bits, 16 bytes of nibbles or 32 of codes.
// Byte j of the nibbles is columns j and j + 16, as in a tile.
template <bool minimum, bool fifth, bool eight>
void pack_simple(WeightSegment& s, int row, const std::byte* stored) {
  const Target to(s, row);
  const auto* from = reinterpret_cast<const uint8_t*>(stored);
  uint8_t* header = to.bytes;
  for (int g = 0; g < s.n_cols / kGroupCols; ++g) {
    std::memcpy(header + 2 * to.row, from, 2);
    from += 2;
    if constexpr (minimum) {
      std::memcpy(header + 2 * kTileRows + 2 * to.row, from, 2);
      from += 2;
    }
    uint8_t* codes = header + to.header_bytes + 4 * to.row;
    if constexpr (fifth) {
      store(codes, 4, spread_fifth_bits(load(from, 0)));
      from += 4;
    }
    constexpr int kWords = eight ? 8 : 4;
    for (int v = 0; v < kWords; ++v) store(codes, v, load(from, v));
    from += 4 * kWords;
    header += to.header_bytes + to.group_bytes;
  }
}

// The 6-bit scale and minimum of group g of a q4_k or q5_k block.
struct KScale {
  uint8_t scale, minimum;
};
KScale k_scale(const uint8_t* packed, int g) {
  if (g < 4) return {uint8_t(packed[g] & 63), uint8_t(packed[g + 4] & 63)};
  const int low = packed[g + 4];
  return {uint8_t((low & 15) | ((packed[g - 4] >> 6) << 4)),
          uint8_t((low >> 4) | ((packed[g] >> 6) << 4))};
}

// q4_k and q5_k: d, dmin, 12 bytes of scales, 32 bytes of fifth bits (bit g of byte c is
// group g's column c), then 32 bytes a pair of groups: low nibbles one, high the other.
template <bool fifth>
void pack_k(WeightSegment& s, int row, const std::byte* stored) {
  const Target to(s, row);
  const auto* from = reinterpret_cast<const uint8_t*>(stored);
  uint8_t* header = to.bytes;
  for (int span = 0; span < s.n_cols / 256; ++span) {
    std::memcpy(header + 2 * to.row, from, 2);
    std::memcpy(header + 2 * kTileRows + 2 * to.row, from + 2, 2);
    const uint8_t* scales = from + 4;
    const uint8_t* high = from + 16;
    const uint8_t* nibbles = high + (fifth ? 32 : 0);
    uint8_t* own = header + to.header_bytes;
    for (int g = 0; g < 8; ++g, own += to.group_bytes) {
      const KScale scale = k_scale(scales, g);
      own[to.row] = scale.scale;
      own[kTileRows + to.row] = scale.minimum;
      uint8_t* codes = own + to.scale_bytes + 4 * to.row;
      const uint8_t* pair = nibbles + 32 * (g / 2);
      const int shift = g % 2 * 4;
      for (int v = 0; v < 4; ++v) {
        const uint32_t low = (load(pair, v) >> shift) & kNibbles;
        const uint32_t upper = (load(pair, v + 4) >> shift) & kNibbles;
        store(codes, v, low | (upper << 4));
      }
      if constexpr (fifth) {
        uint32_t bits = 0;
        for (int k = 0; k < 8; ++k) bits |= ((load(high, k) >> g) & 0x01010101u) << k;
        store(codes, 4, bits);
      }
    }
    header = own;
    from = nibbles + 128;
  }
}

// q6_k: 128 bytes of low nibbles, 64 of the two bits above, 16 int8 scales of 16 columns,
// d.  In each half of 128 columns, groups 0 and 1 are the low nibbles of its two runs of
// 32 bytes and groups 2 and 3 the high ones; bits 2 u and 2 u + 1 of the 32 bytes above
// are group u's.
void pack_q6_k(WeightSegment& s, int row, const std::byte* stored) {
  const Target to(s, row);
  const auto* from = reinterpret_cast<const uint8_t*>(stored);
  uint8_t* header = to.bytes;
  for (int span = 0; span < s.n_cols / 256; ++span, from += 210) {
    std::memcpy(header + 2 * to.row, from + 208, 2);
    uint8_t* own = header + to.header_bytes;
    for (int g = 0; g < 8; ++g, own += to.group_bytes) {
      const int half = g / 4, u = g % 4;
      own[to.row] = from[192 + 2 * g];
      own[kTileRows + to.row] = from[192 + 2 * g + 1];
      uint8_t* codes = own + to.scale_bytes + 4 * to.row;
      const uint8_t* nibbles = from + 64 * half + 32 * (u % 2);
      const int shift = u / 2 * 4;
      for (int v = 0; v < 4; ++v) {
        const uint32_t low = (load(nibbles, v) >> shift) & kNibbles;
        const uint32_t upper = (load(nibbles, v + 4) >> shift) & kNibbles;
        store(codes, v, low | (upper << 4));
      }
      const uint8_t* above = from + 128 + 32 * half;
      for (int p = 0; p < 2; ++p) {
        uint32_t bits = 0;
        for (int j = 0; j < 4; ++j)
          bits |= ((load(above, 4 * p + j) >> (2 * u)) & 0x03030303u) << (2 * j);
        store(codes, 4 + p, bits);
      }
    }
    header = own;
  }
}

}  // namespace

PackWords pack_words(DType type) {
  switch (type) {
    case DType::q4_0:
      return pack_simple<false, false, false>;
    case DType::q4_1:
      return pack_simple<true, false, false>;
    case DType::q5_0:
      return pack_simple<false, true, false>;
    case DType::q5_1:
      return pack_simple<true, true, false>;
    case DType::q8_0:
      return pack_simple<false, false, true>;
    case DType::q4_k:
      return pack_k<false>;
    case DType::q5_k:
      return pack_k<true>;
    case DType::q6_k:
      return pack_q6_k;
    default:
      return nullptr;
  }
}

}  // namespace ingot::cpu
