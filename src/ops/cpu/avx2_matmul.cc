// AVX2: activations to int8, integer and float dot products over tiles of 8 rows.  One
// float lane belongs to one weight row, so no sum ever crosses lanes, and a token's
// arithmetic is the same instructions however many tokens stand beside it.
#include "ops/cpu/avx2.h"

namespace ingot::cpu {
namespace {

constexpr int kChunks = kGroupCols / 4;  // of 4 columns

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

// Largest unsigned code of a range, and how many products of code pairs fit an int16:
// 2 * 127 * code * n <= 32767.
template <CodeRange range>
constexpr int kSumsInInt16 = range == CodeRange::u4   ? 8
                             : range == CodeRange::u5 ? 4
                                                      : 2;

// Codes of one group in registers.
struct Codes {
  __m256i w[kChunks];
  __m256i magnitude[kChunks];  // s8 only
};

template <CodeRange range>
inline __m256i product(const Codes& codes, int chunk, const int8_t* y) {
  const __m256i four = broadcast4(y + 4 * chunk);
  if constexpr (range == CodeRange::s8)  // |w| * (sign of w) y: at most 2 * 128 * 127
    return _mm256_maddubs_epi16(codes.magnitude[chunk],
                                _mm256_sign_epi8(four, codes.w[chunk]));
  else
    return _mm256_maddubs_epi16(codes.w[chunk], four);
}

// Sum over chunks [first, first + n) for 8 rows, as int32.
template <CodeRange range, int first, int n>
inline __m256i sum_chunks(const Codes& codes, const int8_t* y) {
  constexpr int kMost = range == CodeRange::s8 ? 1 : kSumsInInt16<range>;
  constexpr int kRun = kMost < n ? kMost : n;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i total = _mm256_setzero_si256();
  for (int c = first; c < first + n; c += kRun) {
    __m256i run = product<range>(codes, c, y);
    for (int i = 1; i < kRun; ++i)
      run = _mm256_add_epi16(run, product<range>(codes, c + i, y));
    const __m256i wide = _mm256_madd_epi16(run, ones);
    total = c == first ? wide : _mm256_add_epi32(total, wide);
  }
  return total;
}

// acc += scale * y.scale * (sum + zero * y_sum) (+ offset * scaled y_sum)
template <bool offsets>
inline __m256 add_scaled(__m256 acc, __m256i sum, const float* scale, const float* offset,
                         float zero, float y_scale, float y_sum, float y_scaled_sum) {
  const __m256 whole = _mm256_fmadd_ps(_mm256_set1_ps(zero), _mm256_set1_ps(y_sum),
                                       _mm256_cvtepi32_ps(sum));
  const __m256 factor = _mm256_mul_ps(_mm256_load_ps(scale), _mm256_set1_ps(y_scale));
  acc = _mm256_fmadd_ps(factor, whole, acc);
  if constexpr (offsets)
    acc = _mm256_fmadd_ps(_mm256_load_ps(offset), _mm256_set1_ps(y_scaled_sum), acc);
  return acc;
}

template <CodeRange range, bool halves, bool offsets>
void dot_groups(const TileGroup* w, float zero, int n_groups, const ActGroup* acts,
                size_t act_stride, int n_tokens, float* acc) {
  for (int g = 0; g < n_groups; ++g) {
    const TileGroup& group = w[g];
    Codes codes;
    for (int c = 0; c < kChunks; ++c) {
      codes.w[c] = load_bytes(group.code[c]);
      if constexpr (range == CodeRange::s8)
        codes.magnitude[c] = _mm256_abs_epi8(codes.w[c]);
    }
    const ActGroup* y = acts + size_t(g) * act_stride;
    for (int t = 0; t < n_tokens; ++t, ++y) {
      __m256 sum = _mm256_loadu_ps(acc + t * kTileRows);
      if constexpr (halves) {
        const __m256i low = sum_chunks<range, 0, kChunks / 2>(codes, y->code);
        const __m256i high = sum_chunks<range, kChunks / 2, kChunks / 2>(codes, y->code);
        sum = add_scaled<offsets>(sum, low, group.scale[0], group.offset[0], zero,
                                  y->scale, y->sum[0], y->scaled_sum[0]);
        sum = add_scaled<offsets>(sum, high, group.scale[1], group.offset[1], zero,
                                  y->scale, y->sum[1], y->scaled_sum[1]);
      } else {
        const __m256i all = sum_chunks<range, 0, kChunks>(codes, y->code);
        sum = add_scaled<offsets>(sum, all, group.scale[0], group.offset[0], zero,
                                  y->scale, y->sum_both, y->scaled_sum_both);
      }
      _mm256_storeu_ps(acc + t * kTileRows, sum);
    }
  }
}

template <CodeRange range>
void dot_range(const TileGroup* w, const TileFormat& f, int n_groups,
               const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  const auto run =
      f.halves
          ? (f.offsets ? dot_groups<range, true, true> : dot_groups<range, true, false>)
          : (f.offsets ? dot_groups<range, false, true>
                       : dot_groups<range, false, false>);
  run(w, float(f.zero), n_groups, acts, act_stride, n_tokens, acc);
}

void dot_int8(const TileGroup* w, const TileFormat& format, int n_groups,
              const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  switch (format.range) {
    case CodeRange::s8:
      return dot_range<CodeRange::s8>(w, format, n_groups, acts, act_stride, n_tokens,
                                      acc);
    case CodeRange::u4:
      return dot_range<CodeRange::u4>(w, format, n_groups, acts, act_stride, n_tokens,
                                      acc);
    case CodeRange::u5:
      return dot_range<CodeRange::u5>(w, format, n_groups, acts, act_stride, n_tokens,
                                      acc);
    case CodeRange::u6:
      return dot_range<CodeRange::u6>(w, format, n_groups, acts, act_stride, n_tokens,
                                      acc);
  }
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

// n columns (at most 32) meet `tokens` tokens.  Even and odd columns are summed apart, so
// that two multiply-adds a token are in flight; both sums start anew in every group,
// which keeps the rounding error that of short sums.
template <int tokens>
inline void dot_columns(const float* w, int n, const float* x, size_t x_stride,
                        float* acc) {
  __m256 even[tokens], odd[tokens];
  for (int t = 0; t < tokens; ++t) even[t] = odd[t] = _mm256_setzero_ps();
  int c = 0;
  for (; c + 2 <= n; c += 2) {
    const __m256 w0 = _mm256_loadu_ps(w + c * kTileRows);
    const __m256 w1 = _mm256_loadu_ps(w + (c + 1) * kTileRows);
    for (int t = 0; t < tokens; ++t) {
      const float* row = x + size_t(t) * x_stride + c;
      even[t] = _mm256_fmadd_ps(w0, _mm256_broadcast_ss(row), even[t]);
      odd[t] = _mm256_fmadd_ps(w1, _mm256_broadcast_ss(row + 1), odd[t]);
    }
  }
  if (c < n)
    for (int t = 0; t < tokens; ++t)
      even[t] =
          _mm256_fmadd_ps(_mm256_loadu_ps(w + c * kTileRows),
                          _mm256_broadcast_ss(x + size_t(t) * x_stride + c), even[t]);
  for (int t = 0; t < tokens; ++t) {
    float* sum = acc + t * kTileRows;
    _mm256_storeu_ps(sum,
                     _mm256_add_ps(_mm256_loadu_ps(sum), _mm256_add_ps(even[t], odd[t])));
  }
}

// All columns meet 4 tokens, then the next 4: the weights stay in the first-level cache.
template <int tokens>
void dot_tokens(const float* w, int n_cols, const float* x, size_t x_stride, float* acc) {
  for (int c = 0; c < n_cols; c += kGroupCols)
    dot_columns<tokens>(w + c * kTileRows,
                        n_cols - c < kGroupCols ? n_cols - c : kGroupCols, x + c,
                        x_stride, acc);
}

void dot_f32(const float* w, int n_cols, const float* x, size_t x_stride, int n_tokens,
             float* acc) {
  constexpr int kTokens = 4;
  int t = 0;
  for (; t + kTokens <= n_tokens; t += kTokens)
    dot_tokens<kTokens>(w, n_cols, x + size_t(t) * x_stride, x_stride,
                        acc + t * kTileRows);
  for (; t < n_tokens; ++t)
    dot_tokens<1>(w, n_cols, x + size_t(t) * x_stride, x_stride, acc + t * kTileRows);
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
  table.dot_int8 = dot_int8;
  table.tile_to_f32 = tile_to_f32;
  table.dot_f32 = dot_f32;
  table.f16_to_f32 = widen_f16;
  table.bf16_to_f32 = widen_bf16;
}

}  // namespace ingot::cpu
