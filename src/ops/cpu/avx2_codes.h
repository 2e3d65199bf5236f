// AVX2: codes and scales of one group of a tile, as tile_layout.h says they lie, into
// registers.  One type a kind, so that a kernel is compiled for each layout it is worth
// for.  Included only by cpu/avx2_*.cc and cpu/avx512_*.cc.
#pragma once

#include "ops/cpu/avx2.h"
#include "ops/cpu/tile_layout.h"

namespace ingot::cpu {
namespace {  // each file that includes this has its own copy

constexpr int kVector = 32;

// ---- codes --------------------------------------------------------------------------
// pair(p, v, low, high): chunks v and v + 4 of the group whose codes begin at p, v = 0 ..
// 3.

// Bits `from` of every byte, `mask` wide, moved to bit `to`.  The compiler knows from and
// to once the loops around are unrolled.
inline __m256i move_bits(__m256i bytes, int from, int to, int mask) {
  const __m256i moved = from > to ? _mm256_srli_epi16(bytes, from - to)
                                  : _mm256_slli_epi16(bytes, to - from);
  return _mm256_and_si256(moved, _mm256_set1_epi8(char(mask << to)));
}

struct FourBits {
  static constexpr CodeRange kRange = CodeRange::u4;
  static constexpr int kBits = 4;
  static void pair(const uint8_t* p, int v, __m256i& low, __m256i& high) {
    const __m256i both = load_bytes(p + kVector * v);
    low = _mm256_and_si256(both, _mm256_set1_epi8(15));
    high = _mm256_and_si256(_mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
  }
};

struct FiveBits {
  static constexpr CodeRange kRange = CodeRange::u5;
  static constexpr int kBits = 5;
  static void pair(const uint8_t* p, int v, __m256i& low, __m256i& high) {
    const __m256i fifth = load_bytes(p + 4 * kVector);
    FourBits::pair(p, v, low, high);
    low = _mm256_or_si256(low, move_bits(fifth, v, 4, 1));
    high = _mm256_or_si256(high, move_bits(fifth, v + 4, 4, 1));
  }
};

struct SixBits {
  static constexpr CodeRange kRange = CodeRange::u6;
  static constexpr int kBits = 6;
  static void pair(const uint8_t* p, int v, __m256i& low, __m256i& high) {
    FourBits::pair(p, v, low, high);
    low = _mm256_or_si256(low, move_bits(load_bytes(p + 4 * kVector), 2 * v, 4, 3));
    high = _mm256_or_si256(high, move_bits(load_bytes(p + 5 * kVector), 2 * v, 4, 3));
  }
};

struct TwoBits {
  static constexpr CodeRange kRange = CodeRange::u4;
  static constexpr int kBits = 2;
  static void pair(const uint8_t* p, int v, __m256i& low, __m256i& high) {
    low = move_bits(load_bytes(p), 2 * v, 0, 3);
    high = move_bits(load_bytes(p + kVector), 2 * v, 0, 3);
  }
};

struct ThreeBits {
  static constexpr CodeRange kRange = CodeRange::u4;
  static constexpr int kBits = 3;
  static void pair(const uint8_t* p, int v, __m256i& low, __m256i& high) {
    const __m256i third = load_bytes(p + 2 * kVector);
    TwoBits::pair(p, v, low, high);
    low = _mm256_or_si256(low, move_bits(third, v, 2, 1));
    high = _mm256_or_si256(high, move_bits(third, v + 4, 2, 1));
  }
};

struct EightBits {
  static constexpr CodeRange kRange = CodeRange::s8;
  static constexpr int kBits = 8;
  static void pair(const uint8_t* p, int v, __m256i& low, __m256i& high) {
    low = load_bytes(p + kVector * v);
    high = load_bytes(p + kVector * (v + 4));
  }
};

// Four bits that index a table of signed values.
template <CodeTable table>
struct TableBits {
  static constexpr CodeRange kRange = CodeRange::s8;
  static constexpr int kBits = 4;
  static void pair(const uint8_t* p, int v, __m256i& low, __m256i& high) {
    const __m256i values =
        table == CodeTable::iq4
            ? _mm256_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38,
                               53, 69, 89, 113, -127, -104, -83, -65, -49, -35, -22, -10,
                               1, 13, 25, 38, 53, 69, 89, 113)
            : _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12, 0,
                               1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    FourBits::pair(p, v, low, high);
    low = _mm256_shuffle_epi8(values, low);
    high = _mm256_shuffle_epi8(values, high);
  }
};

// ---- scales -------------------------------------------------------------------------
// Of one group, 8 rows: [half] where the kind tells halves apart, else [0].

struct GroupScales {
  __m256 scale[2];
  __m256 offset[2];
};

inline __m256 f16s(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline __m256 bf16s(const uint8_t* p) {
  const __m256i wide =
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline __m128i load_8(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
inline __m256 s8s(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8(p)));
}
inline __m256i u8s(const uint8_t* p) { return _mm256_cvtepu8_epi32(load_8(p)); }
inline __m256 negated(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

// 2^(e - 128): subnormal for e = 0 and 1.
inline __m256 halved_powers(const uint8_t* p) {
  const __m256i e = u8s(p);
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

// Half of 8 E4M3 floats: exponent and mantissa moved into a float16's places are the
// value times 2^-8, subnormals included.  0x7f and 0xff are NaN.
inline __m256 halved_e4m3(const uint8_t* p) {
  const __m128i bytes = _mm_cvtepu8_epi16(load_8(p));
  const __m128i low = _mm_and_si128(bytes, _mm_set1_epi16(0x7f));
  const __m128i is_nan = _mm_cmpeq_epi16(low, _mm_set1_epi16(0x7f));
  const __m128i magnitude =
      _mm_or_si128(_mm_slli_epi16(low, 7), _mm_and_si128(is_nan, _mm_set1_epi16(0x7e00)));
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(bytes, _mm_set1_epi16(0x80)), 8);
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(magnitude, sign)),
                       _mm256_set1_ps(128.0f));
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

  static constexpr bool kOneHalf = kind == ScaleKind::f16 ||
                                   kind == ScaleKind::f16_times_32 ||
                                   kind == ScaleKind::f16_times_16;
  static constexpr bool kZeroPoint =
      kind == ScaleKind::zero_f16 || kind == ScaleKind::zero_bf16;
  static constexpr size_t kHeaderBytes = kTileRows * (kOneHalf                         ? 2
                                                      : kind == ScaleKind::affine_f32  ? 8
                                                      : kind == ScaleKind::e8m0_halved ? 1
                                                      : kind == ScaleKind::e4m3_halved ? 0
                                                      : kZeroPoint                     ? 3
                                                                   : 4);
  static constexpr size_t kGroupBytes =
      kTileRows * (kind == ScaleKind::f16_times_32       ? 1
                   : kHalves || kind == ScaleKind::k_min ? 2
                                                         : 0);

  // What the groups of a span share: its scales, and its offsets or their unit.
  struct Header {
    __m256 scale;
    __m256 offset;
  };
  static Header header(const uint8_t* p) {
    constexpr int kR = kTileRows;
    switch (kind) {
      case ScaleKind::f16:
      case ScaleKind::f16_times_32:
      case ScaleKind::f16_times_16:
        return {f16s(p), _mm256_setzero_ps()};
      case ScaleKind::f16_min:
      case ScaleKind::affine_f16:
      case ScaleKind::k_min:
      case ScaleKind::k_min_16:
        return {f16s(p), f16s(p + 2 * kR)};
      case ScaleKind::affine_bf16:
        return {bf16s(p), bf16s(p + 2 * kR)};
      case ScaleKind::affine_f32:
        return {_mm256_loadu_ps(reinterpret_cast<const float*>(p)),
                _mm256_loadu_ps(reinterpret_cast<const float*>(p + 4 * kR))};
      case ScaleKind::e8m0_halved:
        return {halved_powers(p), _mm256_setzero_ps()};
      case ScaleKind::e4m3_halved:
        return {_mm256_setzero_ps(), _mm256_setzero_ps()};
      case ScaleKind::zero_f16:
      case ScaleKind::zero_bf16: {
        const __m256 scale = kind == ScaleKind::zero_f16 ? f16s(p) : bf16s(p);
        const __m256 zero = _mm256_cvtepi32_ps(u8s(p + 2 * kR));
        return {scale, negated(_mm256_mul_ps(scale, zero))};
      }
    }
    __builtin_unreachable();
  }

  static GroupScales group(const Header& h, const uint8_t* own) {
    constexpr int kR = kTileRows;
    GroupScales out;
    out.scale[0] = h.scale;
    out.offset[0] = h.offset;
    if constexpr (kind == ScaleKind::f16_times_32) {
      out.scale[0] = _mm256_mul_ps(h.scale, s8s(own));
    } else if constexpr (kind == ScaleKind::f16_times_16) {
      out.scale[0] = _mm256_mul_ps(h.scale, s8s(own));
      out.scale[1] = _mm256_mul_ps(h.scale, s8s(own + kR));
    } else if constexpr (kind == ScaleKind::k_min) {
      out.scale[0] = _mm256_mul_ps(h.scale, _mm256_cvtepi32_ps(u8s(own)));
      out.offset[0] = negated(_mm256_mul_ps(h.offset, _mm256_cvtepi32_ps(u8s(own + kR))));
    } else if constexpr (kind == ScaleKind::k_min_16) {
      for (int half = 0; half < 2; ++half) {
        const __m256i both = u8s(own + half * kR);
        const __m256i scale = _mm256_and_si256(both, _mm256_set1_epi32(15));
        const __m256i minimum = _mm256_srli_epi32(both, 4);
        out.scale[half] = _mm256_mul_ps(h.scale, _mm256_cvtepi32_ps(scale));
        out.offset[half] = negated(_mm256_mul_ps(h.offset, _mm256_cvtepi32_ps(minimum)));
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
