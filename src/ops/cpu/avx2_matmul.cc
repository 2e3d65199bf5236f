// AVX2: activations to int8, integer and float dot products over tiles of 8 rows.  One
// float lane belongs to one weight row, so no sum ever crosses lanes, and a token's
// arithmetic is the same instructions however many tokens stand beside it.
#include "ops/cpu/avx2.h"

namespace ingot::cpu {
namespace {

// ---- activations --------------------------------------------------------------------

// Bits of the largest magnitude; 0x7f800000 and more when a value is not finite.
uint32_t largest_bits(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i ab =
      _mm256_max_epu32(_mm256_and_si256(a, magnitude), _mm256_and_si256(b, magnitude));
  const __m256i cd =
      _mm256_max_epu32(_mm256_and_si256(c, magnitude), _mm256_and_si256(d, magnitude));
  const __m256i all = _mm256_max_epu32(ab, cd);
  __m128i four =
      _mm_max_epu32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
  return uint32_t(_mm_cvtsi128_si32(four));
}

__m256i rounded(const float* x, __m256 inverse) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

void quantise_group(const float* x, ActGroup& out) {
  const uint32_t bits = largest_bits(load_bytes(x), load_bytes(x + 8), load_bytes(x + 16),
                                     load_bytes(x + 24));
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  const bool finite = bits < 0x7f800000u;
  const bool codes = finite && largest >= kSmallestActivation;
  const float scale = codes ? largest / 127.0f : finite ? 0.0f : __builtin_nanf("");
  __m256i code = _mm256_setzero_si256();
  if (codes) {
    const __m256 inverse = _mm256_set1_ps(127.0f / largest);
    const __m256i ab = _mm256_packs_epi32(rounded(x, inverse), rounded(x + 8, inverse));
    const __m256i cd =
        _mm256_packs_epi32(rounded(x + 16, inverse), rounded(x + 24, inverse));
    code = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  _mm256_store_si256(reinterpret_cast<__m256i*>(out.code), code);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), code);
  const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  const __m256i eights = _mm256_hadd_epi32(quads, quads);
  const __m256i halves = _mm256_hadd_epi32(eights, eights);
  out.scale = scale;
  out.sum[0] = float(_mm256_extract_epi32(halves, 0));
  out.sum[1] = float(_mm256_extract_epi32(halves, 4));
  for (int h = 0; h < 2; ++h) out.scaled_sum[h] = scale * out.sum[h];
  out.sum_both = out.sum[0] + out.sum[1];
  out.scaled_sum_both = scale * out.sum_both;
  out.unused = 0.0f;
}

void quantise(const float* x, int n_groups, ActGroup* out, size_t out_stride) {
  for (int g = 0; g < n_groups; ++g)
    quantise_group(x + g * kGroupCols, out[size_t(g) * out_stride]);
}

// ---- integer dot products -----------------------------------------------------------
// Unpacked tiles meet a block of tokens: each code and each activation that is loaded
// serves `tokens` or `tiles` products.

template <int tiles, int tokens>
using Sums = __m256i[tiles][tokens];

inline __m256i code(const TileGroup* w, int tile, int chunk) {
  return load_bytes(w[tile * kChunkGroups].code[chunk]);
}

inline __m256i widened(__m256i pairs) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// Whole sums over chunks [first, first + n).  u4: 8 sums of pairs, 2 * 127 * 15 each, fit
// an int16; u5 and u6: two; signed codes: one, |w| * (sign of w) y.
template <CodeRange range, int first, int n, int tiles, int tokens>
inline void sum_chunks(const TileGroup* w, const ActGroup* y, Sums<tiles, tokens>& sums) {
  if constexpr (range == CodeRange::u4) {
    for (int c = first; c < first + n; ++c) {
      __m256i codes[tiles];
      for (int i = 0; i < tiles; ++i) codes[i] = code(w, i, c);
      for (int t = 0; t < tokens; ++t) {
        const __m256i four = broadcast4(y[t].code + 4 * c);
        for (int i = 0; i < tiles; ++i) {
          const __m256i pairs = _mm256_maddubs_epi16(codes[i], four);
          sums[i][t] = c == first ? pairs : _mm256_add_epi16(sums[i][t], pairs);
        }
      }
    }
    for (int i = 0; i < tiles; ++i)
      for (int t = 0; t < tokens; ++t) sums[i][t] = widened(sums[i][t]);
  } else if constexpr (range == CodeRange::s8) {
    for (int c = first; c < first + n; ++c) {
      __m256i codes[tiles], magnitudes[tiles];
      for (int i = 0; i < tiles; ++i) {
        codes[i] = code(w, i, c);
        magnitudes[i] = _mm256_abs_epi8(codes[i]);
      }
      for (int t = 0; t < tokens; ++t) {
        const __m256i four = broadcast4(y[t].code + 4 * c);
        for (int i = 0; i < tiles; ++i) {
          const __m256i wide = widened(
              _mm256_maddubs_epi16(magnitudes[i], _mm256_sign_epi8(four, codes[i])));
          sums[i][t] = c == first ? wide : _mm256_add_epi32(sums[i][t], wide);
        }
      }
    }
  } else {
    for (int c = first; c < first + n; c += 2) {
      __m256i codes[tiles][2];
      for (int i = 0; i < tiles; ++i) {
        codes[i][0] = code(w, i, c);
        codes[i][1] = code(w, i, c + 1);
      }
      for (int t = 0; t < tokens; ++t) {
        const __m256i a = broadcast4(y[t].code + 4 * c);
        const __m256i b = broadcast4(y[t].code + 4 * (c + 1));
        for (int i = 0; i < tiles; ++i) {
          const __m256i wide =
              widened(_mm256_add_epi16(_mm256_maddubs_epi16(codes[i][0], a),
                                       _mm256_maddubs_epi16(codes[i][1], b)));
          sums[i][t] = c == first ? wide : _mm256_add_epi32(sums[i][t], wide);
        }
      }
    }
  }
}

// What a kernel is compiled for.
template <CodeRange range_of, bool halves_of, bool zeros_of, bool offsets_of>
struct Format {
  static constexpr CodeRange range = range_of;
  static constexpr bool halves = halves_of;
  static constexpr bool zeros = zeros_of;
  static constexpr bool offsets = offsets_of;
};

// acc += scale * y.scale * (sum + zero * y_sum) (+ offset * scaled y_sum)
template <typename F>
inline void add_scaled(float* acc, __m256i sum, __m256 scale, const float* offset,
                       float zero, float y_scale, float y_sum, float y_scaled_sum) {
  __m256 whole = _mm256_cvtepi32_ps(sum);
  if constexpr (F::zeros)
    whole = _mm256_fmadd_ps(_mm256_set1_ps(zero), _mm256_set1_ps(y_sum), whole);
  __m256 total = _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(y_scale)), whole,
                                 _mm256_loadu_ps(acc));
  if constexpr (F::offsets)
    total = _mm256_fmadd_ps(_mm256_load_ps(offset), _mm256_set1_ps(y_scaled_sum), total);
  _mm256_storeu_ps(acc, total);
}

// One group of `tiles` tiles meets `tokens` tokens.
template <typename F, int tiles, int tokens>
inline void dot_block(const TileGroup* w, float zero, const ActGroup* y, float* acc,
                      size_t acc_stride) {
  constexpr int kChunks = kGroupCols / 4;
  for (int h = 0; h < (F::halves ? 2 : 1); ++h) {
    Sums<tiles, tokens> sums;
    if constexpr (!F::halves)
      sum_chunks<F::range, 0, kChunks, tiles, tokens>(w, y, sums);
    else if (h == 0)
      sum_chunks<F::range, 0, kChunks / 2, tiles, tokens>(w, y, sums);
    else
      sum_chunks<F::range, kChunks / 2, kChunks / 2, tiles, tokens>(w, y, sums);
    for (int i = 0; i < tiles; ++i) {
      const TileGroup& group = w[i * kChunkGroups];
      const __m256 scale = _mm256_load_ps(group.scale[h]);
      for (int t = 0; t < tokens; ++t)
        add_scaled<F>(acc + size_t(i) * acc_stride + t * kTileRows, sums[i][t], scale,
                      group.offset[h], zero, y[t].scale,
                      F::halves ? y[t].sum[h] : y[t].sum_both,
                      F::halves ? y[t].scaled_sum[h] : y[t].scaled_sum_both);
    }
  }
}

constexpr int kTilesTogether = 2;
constexpr int kTokensTogether = 4;

template <typename F>
void dot_groups(const TileGroup* w, int n_tiles, float zero, int n_groups,
                const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  const size_t acc_stride = size_t(n_tokens) * kTileRows;
  for (int g = 0; g < n_groups; ++g) {
    const ActGroup* y = acts + size_t(g) * act_stride;
    int t = 0;
    for (; t + kTokensTogether <= n_tokens; t += kTokensTogether)
      if (n_tiles == kTilesTogether)
        dot_block<F, kTilesTogether, kTokensTogether>(w + g, zero, y + t,
                                                      acc + t * kTileRows, acc_stride);
      else
        dot_block<F, 1, kTokensTogether>(w + g, zero, y + t, acc + t * kTileRows, 0);
    for (; t < n_tokens; ++t)
      if (n_tiles == kTilesTogether)
        dot_block<F, kTilesTogether, 1>(w + g, zero, y + t, acc + t * kTileRows,
                                        acc_stride);
      else
        dot_block<F, 1, 1>(w + g, zero, y + t, acc + t * kTileRows, 0);
  }
}

using DotGroups = void (*)(const TileGroup*, int, float, int, const ActGroup*, size_t,
                           int, float*);
template <CodeRange range, bool halves>
DotGroups choose_dot(const TileFormat& f) {
  if (f.zero != 0)
    return f.offsets ? dot_groups<Format<range, halves, true, true>>
                     : dot_groups<Format<range, halves, true, false>>;
  return f.offsets ? dot_groups<Format<range, halves, false, true>>
                   : dot_groups<Format<range, halves, false, false>>;
}
template <CodeRange range>
DotGroups choose_dot(const TileFormat& f) {
  return f.halves ? choose_dot<range, true>(f) : choose_dot<range, false>(f);
}
DotGroups choose_dot(const TileFormat& f) {
  switch (f.range) {
    case CodeRange::s8:
      return choose_dot<CodeRange::s8>(f);
    case CodeRange::u4:
      return choose_dot<CodeRange::u4>(f);
    case CodeRange::u5:
    case CodeRange::u6:
      return choose_dot<CodeRange::u6>(f);
  }
  __builtin_unreachable();
}

void dot_int8(const TileGroup* w, int n_tiles, const TileFormat& format, int n_groups,
              const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  choose_dot(format)(w, n_tiles, float(format.zero), n_groups, acts, act_stride, n_tokens,
                     acc);
}

// ---- float dot products -------------------------------------------------------------

// Column b of a chunk as 8 rows of float.
template <int b>
inline __m256 column(__m256i chunk, bool is_signed) {
  const __m256i code =
      is_signed
          ? _mm256_srai_epi32(_mm256_slli_epi32(chunk, 24 - 8 * b), 24)
          : _mm256_and_si256(_mm256_srli_epi32(chunk, 8 * b), _mm256_set1_epi32(255));
  return _mm256_cvtepi32_ps(code);
}

void tile_to_f32(const TileGroup* w, const TileFormat& f, int n_groups, float* out) {
  const __m256 zero = _mm256_set1_ps(float(f.zero));
  const bool is_signed = f.range == CodeRange::s8;
  constexpr int kChunks = kGroupCols / 4;
  for (int i = 0; i < n_groups * kChunks; ++i) {
    const TileGroup& group = w[i / kChunks];
    const int chunk = i % kChunks;
    const int h = f.halves ? chunk / 4 : 0;
    const __m256 scale = _mm256_load_ps(group.scale[h]);
    const __m256i codes = load_bytes(group.code[chunk]);
    const __m256 columns[4] = {column<0>(codes, is_signed), column<1>(codes, is_signed),
                               column<2>(codes, is_signed), column<3>(codes, is_signed)};
    for (int c = 0; c < 4; ++c) {
      __m256 value = _mm256_mul_ps(scale, _mm256_add_ps(columns[c], zero));
      if (f.offsets) value = _mm256_add_ps(value, _mm256_load_ps(group.offset[h]));
      _mm256_storeu_ps(out + (4 * i + c) * kTileRows, value);
    }
  }
}

// n columns (at most 32) of `tiles` tiles meet `tokens` tokens.  Even and odd columns are
// summed apart, so that two multiply-adds a token are in flight; both sums start anew in
// every group, which keeps the rounding error that of short sums.
// Sum i is of tile i % tiles and token i / tiles.
template <int tiles, int tokens>
inline void add_column(const float* w, size_t w_stride, const float* x, size_t x_stride,
                       __m256* sums) {
  __m256 column[tiles];
#pragma GCC unroll 2
  for (int i = 0; i < tiles; ++i) column[i] = _mm256_loadu_ps(w + size_t(i) * w_stride);
#pragma GCC unroll 8
  for (int i = 0; i < tiles * tokens; ++i)
    sums[i] =
        _mm256_fmadd_ps(column[i % tiles],
                        _mm256_broadcast_ss(x + size_t(i / tiles) * x_stride), sums[i]);
  asm volatile("" ::: "memory");  // one column's loads at a time: registers are few
}

template <int tiles, int tokens>
inline void dot_columns(const float* w, size_t w_stride, int n, const float* x,
                        size_t x_stride, float* acc, size_t acc_stride) {
  __m256 even[tiles * tokens], odd[tiles * tokens];
#pragma GCC unroll 8
  for (int i = 0; i < tiles * tokens; ++i) even[i] = odd[i] = _mm256_setzero_ps();
  int c = 0;
  for (; c + 2 <= n; c += 2) {
    add_column<tiles, tokens>(w + c * kTileRows, w_stride, x + c, x_stride, even);
    add_column<tiles, tokens>(w + (c + 1) * kTileRows, w_stride, x + c + 1, x_stride,
                              odd);
  }
  if (c < n)
    add_column<tiles, tokens>(w + c * kTileRows, w_stride, x + c, x_stride, even);
#pragma GCC unroll 8
  for (int i = 0; i < tiles * tokens; ++i) {
    float* sum = acc + size_t(i % tiles) * acc_stride + i / tiles * kTileRows;
    _mm256_storeu_ps(sum,
                     _mm256_add_ps(_mm256_loadu_ps(sum), _mm256_add_ps(even[i], odd[i])));
  }
}

// All columns meet a few tokens, then the next few: the weights stay in the first-level
// cache.
template <int tiles, int tokens>
void dot_tokens(const float* w, size_t w_stride, int n_cols, const float* x,
                size_t x_stride, float* acc, size_t acc_stride) {
  for (int c = 0; c < n_cols; c += kGroupCols)
    dot_columns<tiles, tokens>(w + c * kTileRows, w_stride,
                               n_cols - c < kGroupCols ? n_cols - c : kGroupCols, x + c,
                               x_stride, acc, acc_stride);
}

template <int tiles, int tokens>
void dot_tiles(const float* w, size_t w_stride, int n_cols, const float* x,
               size_t x_stride, int n_tokens, float* acc) {
  const size_t acc_stride = size_t(n_tokens) * kTileRows;
  int t = 0;
  for (; t + tokens <= n_tokens; t += tokens)
    dot_tokens<tiles, tokens>(w, w_stride, n_cols, x + size_t(t) * x_stride, x_stride,
                              acc + t * kTileRows, acc_stride);
  for (; t < n_tokens; ++t)
    dot_tokens<tiles, 1>(w, w_stride, n_cols, x + size_t(t) * x_stride, x_stride,
                         acc + t * kTileRows, acc_stride);
}

void dot_f32(const float* w, int n_tiles, size_t w_stride, int n_cols, const float* x,
             size_t x_stride, int n_tokens, float* acc) {
  if (n_tiles == kTilesTogether)
    dot_tiles<kTilesTogether, 3>(w, w_stride, n_cols, x, x_stride, n_tokens, acc);
  else
    dot_tiles<1, 4>(w, w_stride, n_cols, x, x_stride, n_tokens, acc);
}

void widen_f16(const uint16_t* source, int n, float* out) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    _mm256_storeu_ps(
        out + i,
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i))));
  scalar_kernels().f16_to_f32(source + i, n - i, out + i);
}

void widen_bf16(const uint16_t* source, int n, float* out) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256i wide = _mm256_cvtepu16_epi32(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
    _mm256_storeu_ps(out + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
  }
  scalar_kernels().bf16_to_f32(source + i, n - i, out + i);
}

}  // namespace

void add_avx2_matmul(Kernels& table) {
  table.quantise = quantise;
  table.tiles_together = kTilesTogether;
  table.dot_int8 = dot_int8;
  table.tile_to_f32 = tile_to_f32;
  table.dot_f32 = dot_f32;
  table.f16_to_f32 = widen_f16;
  table.bf16_to_f32 = widen_bf16;
}

}  // namespace ingot::cpu
