// AVX2: tiles of quantised weights into TileGroups (tile_layout.h says how they lie).
#include "ops/cpu/avx2.h"
#include "ops/cpu/packed.h"

namespace ingot::cpu {
namespace {

constexpr int kVector = 32;

// ---- codes --------------------------------------------------------------------------

void put(TileGroup& out, int chunk, __m256i codes) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(out.code[chunk]), codes);
}

// Low and high nibbles: chunks v and v + 4.
struct Nibbles {
  __m256i low, high;
};
Nibbles nibbles(const uint8_t* p, int vector) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i both = load_bytes(p + kVector * vector);
  return {_mm256_and_si256(both, mask),
          _mm256_and_si256(_mm256_srli_epi16(both, 4), mask)};
}

// Bits `from` of every byte, `mask` wide, moved to bit `to`.  The compiler knows from and
// to once the loops below are unrolled.
__m256i move_bits(__m256i bytes, int from, int to, int mask) {
  const __m256i moved = from > to ? _mm256_srli_epi16(bytes, from - to)
                                  : _mm256_slli_epi16(bytes, to - from);
  return _mm256_and_si256(moved, _mm256_set1_epi8(char(mask << to)));
}

void unpack_nibbles(const uint8_t* p, TileGroup& out) {
  for (int v = 0; v < 4; ++v) {
    const Nibbles codes = nibbles(p, v);
    put(out, v, codes.low);
    put(out, v + 4, codes.high);
  }
}

void unpack_table(const uint8_t* p, const int8_t* table, TileGroup& out) {
  const __m256i values = _mm256_broadcastsi128_si256(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  for (int v = 0; v < 4; ++v) {
    const Nibbles codes = nibbles(p, v);
    put(out, v, _mm256_shuffle_epi8(values, codes.low));
    put(out, v + 4, _mm256_shuffle_epi8(values, codes.high));
  }
}

void unpack_5_bits(const uint8_t* p, TileGroup& out) {
  const __m256i high = load_bytes(p + 4 * kVector);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const Nibbles codes = nibbles(p, v);
    put(out, v, _mm256_or_si256(codes.low, move_bits(high, v, 4, 1)));
    put(out, v + 4, _mm256_or_si256(codes.high, move_bits(high, v + 4, 4, 1)));
  }
}

void unpack_6_bits(const uint8_t* p, TileGroup& out) {
  const __m256i first = load_bytes(p + 4 * kVector);
  const __m256i second = load_bytes(p + 5 * kVector);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const Nibbles codes = nibbles(p, v);
    put(out, v, _mm256_or_si256(codes.low, move_bits(first, 2 * v, 4, 3)));
    put(out, v + 4, _mm256_or_si256(codes.high, move_bits(second, 2 * v, 4, 3)));
  }
}

// 2 bits, or 3 when `high` holds the third.
void unpack_2_bits(const uint8_t* p, const uint8_t* high, TileGroup& out) {
  const __m256i thirds = high == nullptr ? _mm256_setzero_si256() : load_bytes(high);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m256i codes = load_bytes(p + kVector * half);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      put(out, 4 * half + j,
          _mm256_or_si256(move_bits(codes, 2 * j, 0, 3),
                          move_bits(thirds, 4 * half + j, 2, 1)));
  }
}

void unpack_codes(const TileLayout& l, const uint8_t* p, const int8_t* table,
                  TileGroup& out) {
  if (table != nullptr) return unpack_table(p, table, out);
  switch (l.bits) {
    case 2:
      return unpack_2_bits(p, nullptr, out);
    case 3:
      return unpack_2_bits(p, p + 2 * kVector, out);
    case 4:
      return unpack_nibbles(p, out);
    case 5:
      return unpack_5_bits(p, out);
    case 6:
      return unpack_6_bits(p, out);
    default:
      for (int v = 0; v < 8; ++v) put(out, v, load_bytes(p + kVector * v));
  }
}

// ---- scales -------------------------------------------------------------------------

__m256 f16s(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

__m128i load_8(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
__m256 s8s(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8(p)));
}
__m256i u8s(const uint8_t* p) { return _mm256_cvtepu8_epi32(load_8(p)); }

__m256 affine_values(ScaleKind kind, const uint8_t* p) {
  if (kind == ScaleKind::affine_f16 || kind == ScaleKind::zero_f16) return f16s(p);
  if (kind == ScaleKind::affine_f32)
    return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
  const __m256i wide =
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

__m256 negated(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

// 2^(e - 128): subnormal for e = 0 and 1.
__m256 halved_powers(const uint8_t* p) {
  const __m256i e = u8s(p);
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

// Half of 8 E4M3 floats: exponent and mantissa moved into a float16's places are the
// value times 2^-8, subnormals included.
__m256 halved_e4m3(const uint8_t* p) {
  const __m128i bytes = _mm_cvtepu8_epi16(load_8(p));
  const __m128i magnitude = _mm_slli_epi16(_mm_and_si128(bytes, _mm_set1_epi16(0x7f)), 7);
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(bytes, _mm_set1_epi16(0x80)), 8);
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(magnitude, sign)),
                       _mm256_set1_ps(128.0f));
}

void unpack_scales(ScaleKind kind, const uint8_t* header, const uint8_t* own,
                   TileGroup& out) {
  constexpr int kR = kTileRows;
  const auto set_scale = [&](int h, __m256 v) { _mm256_store_ps(out.scale[h], v); };
  const auto set_offset = [&](int h, __m256 v) { _mm256_store_ps(out.offset[h], v); };
  switch (kind) {
    case ScaleKind::f16:
      return set_scale(0, f16s(header));
    case ScaleKind::f16_min:
      set_scale(0, f16s(header));
      return set_offset(0, f16s(header + 2 * kR));
    case ScaleKind::f16_times_32:
      return set_scale(0, _mm256_mul_ps(f16s(header), s8s(own)));
    case ScaleKind::f16_times_16:
      set_scale(0, _mm256_mul_ps(f16s(header), s8s(own)));
      return set_scale(1, _mm256_mul_ps(f16s(header), s8s(own + kR)));
    case ScaleKind::k_min: {
      const __m256 minimum =
          _mm256_mul_ps(f16s(header + 2 * kR), _mm256_cvtepi32_ps(u8s(own + kR)));
      set_scale(0, _mm256_mul_ps(f16s(header), _mm256_cvtepi32_ps(u8s(own))));
      return set_offset(0, negated(minimum));
    }
    case ScaleKind::k_min_16:
      for (int h = 0; h < 2; ++h) {
        const __m256i both = u8s(own + h * kR);
        const __m256i scale = _mm256_and_si256(both, _mm256_set1_epi32(15));
        const __m256i minimum = _mm256_srli_epi32(both, 4);
        set_scale(h, _mm256_mul_ps(f16s(header), _mm256_cvtepi32_ps(scale)));
        set_offset(h, negated(_mm256_mul_ps(f16s(header + 2 * kR),
                                            _mm256_cvtepi32_ps(minimum))));
      }
      return;
    case ScaleKind::e8m0_halved:
      return set_scale(0, halved_powers(header));
    case ScaleKind::e4m3_halved:
      set_scale(0, halved_e4m3(own));
      return set_scale(1, halved_e4m3(own + kR));
    case ScaleKind::affine_f16:
    case ScaleKind::affine_bf16:
    case ScaleKind::affine_f32: {
      const int size = kind == ScaleKind::affine_f32 ? 4 : 2;
      set_scale(0, affine_values(kind, header));
      return set_offset(0, affine_values(kind, header + size * kR));
    }
    case ScaleKind::zero_f16:
    case ScaleKind::zero_bf16: {
      const __m256 scale = affine_values(kind, header);
      const __m256 zero = _mm256_cvtepi32_ps(u8s(header + 2 * kR));
      set_scale(0, scale);
      return set_offset(0, negated(_mm256_mul_ps(scale, zero)));
    }
  }
}

void unpack(const WeightSegment& s, int tile, int first_group, int n_groups,
            TileGroup* out) {
  const TileLayout& l = s.layout;
  const int8_t* table = code_table(l.table);
  const auto* bytes =
      reinterpret_cast<const uint8_t*>(s.data) + size_t(tile) * s.tile_bytes;
  const int in_span = l.span_cols / kGroupCols;
  const size_t group_bytes = l.group_bytes(), scale_bytes = l.scale_bytes();
  const uint8_t* header = bytes + l.header_at(first_group);
  const uint8_t* own = bytes + l.group_at(first_group);
  int left = in_span - first_group % in_span;  // groups of this span
  for (int i = 0; i < n_groups; ++i, own += group_bytes) {
    if (left-- == 0) {
      header = own;
      own += l.header_bytes();
      left = in_span - 1;
    }
    unpack_scales(l.scales, header, own, out[i]);
    unpack_codes(l, own + scale_bytes, table, out[i]);
  }
}

}  // namespace

void add_avx2_unpack(Kernels& table) { table.unpack = unpack; }

}  // namespace ingot::cpu
