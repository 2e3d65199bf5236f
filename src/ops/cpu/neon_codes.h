// NEON: codes and scales of one group of a tile, as tile_layout.h says they lie, into
// registers, 4 of its 8 rows at a time.  One type a kind, so that a kernel is compiled
// for each layout it is worth for.  Included only by cpu/neon_*.cc.
#pragma once

#include "ops/cpu/neon.h"
#include "ops/cpu/tile_layout.h"

namespace ingot::cpu {
namespace {  // each file that includes this has its own copy

constexpr int kVector = 32;    // bytes of 4 columns and 8 rows
constexpr int kHalfTile = 16;  // of 4 columns and 4 rows

// ---- codes --------------------------------------------------------------------------
// pair<v>(p, low, high): 4 rows of chunks v and v + 4, v = 0 .. 3; p is where the group's
// codes begin, plus kHalfTile for rows 4-7.

// Bits `from` of every byte, `mask` wide, moved to bit `to`.
template <int from, int to, int mask>
inline uint8x16_t move_bits(uint8x16_t bytes) {
  if constexpr (from > to)
    bytes = vshrq_n_u8(bytes, from - to);
  else if constexpr (from < to)
    bytes = vshlq_n_u8(bytes, to - from);
  return vandq_u8(bytes, vdupq_n_u8(uint8_t(mask << to)));
}

struct FourBits {
  static constexpr bool kSmall = true;  // below 64
  template <int v>
  static void pair(const uint8_t* p, uint8x16_t& low, uint8x16_t& high) {
    const uint8x16_t both = vld1q_u8(p + kVector * v);
    low = vandq_u8(both, vdupq_n_u8(15));
    high = vshrq_n_u8(both, 4);
  }
};

struct FiveBits {
  static constexpr bool kSmall = true;
  template <int v>
  static void pair(const uint8_t* p, uint8x16_t& low, uint8x16_t& high) {
    const uint8x16_t fifth = vld1q_u8(p + 4 * kVector);
    FourBits::pair<v>(p, low, high);
    low = vorrq_u8(low, move_bits<v, 4, 1>(fifth));
    high = vorrq_u8(high, move_bits<v + 4, 4, 1>(fifth));
  }
};

struct SixBits {
  static constexpr bool kSmall = true;
  template <int v>
  static void pair(const uint8_t* p, uint8x16_t& low, uint8x16_t& high) {
    FourBits::pair<v>(p, low, high);
    low = vorrq_u8(low, move_bits<2 * v, 4, 3>(vld1q_u8(p + 4 * kVector)));
    high = vorrq_u8(high, move_bits<2 * v, 4, 3>(vld1q_u8(p + 5 * kVector)));
  }
};

struct TwoBits {
  static constexpr bool kSmall = true;
  template <int v>
  static void pair(const uint8_t* p, uint8x16_t& low, uint8x16_t& high) {
    low = move_bits<2 * v, 0, 3>(vld1q_u8(p));
    high = move_bits<2 * v, 0, 3>(vld1q_u8(p + kVector));
  }
};

struct ThreeBits {
  static constexpr bool kSmall = true;
  template <int v>
  static void pair(const uint8_t* p, uint8x16_t& low, uint8x16_t& high) {
    const uint8x16_t third = vld1q_u8(p + 2 * kVector);
    TwoBits::pair<v>(p, low, high);
    low = vorrq_u8(low, move_bits<v, 2, 1>(third));
    high = vorrq_u8(high, move_bits<v + 4, 2, 1>(third));
  }
};

struct EightBits {
  static constexpr bool kSmall = false;
  template <int v>
  static void pair(const uint8_t* p, uint8x16_t& low, uint8x16_t& high) {
    low = vld1q_u8(p + kVector * v);
    high = vld1q_u8(p + kVector * (v + 4));
  }
};

// Four bits that index a table of signed values.
template <CodeTable table>
struct TableBits {
  static constexpr bool kSmall = false;
  template <int v>
  static void pair(const uint8_t* p, uint8x16_t& low, uint8x16_t& high) {
    static constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
    static constexpr int8_t kE2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                         0, -1, -2, -3, -4, -6, -8, -12};
    const uint8x16_t values =
        vreinterpretq_u8_s8(vld1q_s8(table == CodeTable::iq4 ? kIq4 : kE2m1));
    FourBits::pair<v>(p, low, high);
    low = vqtbl1q_u8(values, low);
    high = vqtbl1q_u8(values, high);
  }
};

// ---- scales -------------------------------------------------------------------------
// Of one group, rows 4 r .. 4 r + 3: [half] where the kind tells halves apart, else [0].

struct GroupScales {
  float32x4_t scale[2];
  float32x4_t offset[2];
};

inline uint16x4_t load_u16s(const uint8_t* p) {
  uint16x4_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return four;
}
inline float32x4_t f16s(const uint8_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(load_u16s(p)));
}
inline float32x4_t bf16s(const uint8_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(load_u16s(p), 16));
}
inline float32x4_t f32s(const uint8_t* p) { return vreinterpretq_f32_u8(vld1q_u8(p)); }
inline uint32x4_t u8s(const uint8_t* p) {
  uint32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}
inline float32x4_t u8_floats(const uint8_t* p) { return vcvtq_f32_u32(u8s(p)); }
inline float32x4_t s8_floats(const uint8_t* p) {
  uint32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four)))));
}

// 2^(e - 128): subnormal for e = 0 and 1.
inline float32x4_t halved_powers(const uint8_t* p) {
  const uint32x4_t e = u8s(p);
  const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
  const uint32x4_t small = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
  return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
}

// Half of 4 E4M3 floats: exponent and mantissa moved into a float16's places are the
// value times 2^-8, subnormals included.  All bits set but the sign is NaN.
inline float32x4_t halved_e4m3(const uint8_t* p) {
  const uint32x4_t bytes = u8s(p);
  const uint32x4_t magnitude = vandq_u32(bytes, vdupq_n_u32(0x7f));
  const uint32x4_t sign = vandq_u32(bytes, vdupq_n_u32(0x80));
  const uint16x4_t half =
      vmovn_u32(vorrq_u32(vshlq_n_u32(magnitude, 7), vshlq_n_u32(sign, 8)));
  const float32x4_t value = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(half)), 128.0f);
  return vbslq_f32(vceqq_u32(magnitude, vdupq_n_u32(0x7f)),
                   vdupq_n_f32(__builtin_nanf("")), value);
}

template <ScaleKind kind>
struct Scales {
  static constexpr bool kHalves = kind == ScaleKind::f16_times_16 ||
                                  kind == ScaleKind::k_min_16 ||
                                  kind == ScaleKind::e4m3_halved;
  static constexpr bool kOffsets =
      kind == ScaleKind::f16_min || kind == ScaleKind::k_min ||
      kind == ScaleKind::k_min_16 || kind == ScaleKind::affine_f16 ||
      kind == ScaleKind::affine_bf16 || kind == ScaleKind::affine_f32 ||
      kind == ScaleKind::zero_f16 || kind == ScaleKind::zero_bf16;

  // What the groups of a span share: its scales, and its offsets or their unit.
  struct Header {
    float32x4_t scale;
    float32x4_t offset;
  };
  static Header header(const uint8_t* p, int r) {
    constexpr int kR = kTileRows;
    const uint8_t* half = p + 8 * r;  // of 16-bit numbers
    switch (kind) {
      case ScaleKind::f16:
      case ScaleKind::f16_times_32:
      case ScaleKind::f16_times_16:
        return {f16s(half), vdupq_n_f32(0.0f)};
      case ScaleKind::f16_min:
      case ScaleKind::affine_f16:
      case ScaleKind::k_min:
      case ScaleKind::k_min_16:
        return {f16s(half), f16s(half + 2 * kR)};
      case ScaleKind::affine_bf16:
        return {bf16s(half), bf16s(half + 2 * kR)};
      case ScaleKind::affine_f32:
        return {f32s(p + 16 * r), f32s(p + 16 * r + 4 * kR)};
      case ScaleKind::e8m0_halved:
        return {halved_powers(p + 4 * r), vdupq_n_f32(0.0f)};
      case ScaleKind::e4m3_halved:
        return {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
      case ScaleKind::zero_f16:
      case ScaleKind::zero_bf16: {
        const float32x4_t scale = kind == ScaleKind::zero_f16 ? f16s(half) : bf16s(half);
        return {scale, vnegq_f32(vmulq_f32(scale, u8_floats(p + 2 * kR + 4 * r)))};
      }
    }
    __builtin_unreachable();
  }

  static GroupScales group(const Header& h, const uint8_t* own, int r) {
    constexpr int kR = kTileRows;
    own += 4 * r;
    GroupScales out;
    out.scale[0] = out.scale[1] = h.scale;
    out.offset[0] = out.offset[1] = h.offset;
    if constexpr (kind == ScaleKind::f16_times_32) {
      out.scale[0] = vmulq_f32(h.scale, s8_floats(own));
    } else if constexpr (kind == ScaleKind::f16_times_16) {
      out.scale[0] = vmulq_f32(h.scale, s8_floats(own));
      out.scale[1] = vmulq_f32(h.scale, s8_floats(own + kR));
    } else if constexpr (kind == ScaleKind::k_min) {
      out.scale[0] = vmulq_f32(h.scale, u8_floats(own));
      out.offset[0] = vnegq_f32(vmulq_f32(h.offset, u8_floats(own + kR)));
    } else if constexpr (kind == ScaleKind::k_min_16) {
      for (int half = 0; half < 2; ++half) {
        const uint32x4_t both = u8s(own + half * kR);
        const uint32x4_t scale = vandq_u32(both, vdupq_n_u32(15));
        out.scale[half] = vmulq_f32(h.scale, vcvtq_f32_u32(scale));
        out.offset[half] =
            vnegq_f32(vmulq_f32(h.offset, vcvtq_f32_u32(vshrq_n_u32(both, 4))));
      }
    } else if constexpr (kind == ScaleKind::e4m3_halved) {
      out.scale[0] = halved_e4m3(own);
      out.scale[1] = halved_e4m3(own + kR);
    }
    return out;
  }
};

}  // namespace
}  // namespace ingot::cpu
