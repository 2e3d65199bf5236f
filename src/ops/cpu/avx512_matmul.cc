// AVX-512 with VNNI: dot products of pairs of tiles, 16 weight rows a register.  A lane
// forms the sums of avx2_matmul.cc: whole numbers are exact in any order, floats are
// added in the same one, so the bits are AVX2's.
//
// vpdpbusd wants unsigned codes.  Signed ones become code + 128, and 128 less goes into
// the zero that is added to every code: code + zero stays what it was, and all of it is
// whole numbers below 2^24.
#include "ops/cpu/avx512.h"

namespace ingot::cpu {
namespace {

constexpr int kTokensTogether = 6;

inline __m512i broadcast(const int8_t* four_codes) {
  int32_t four;
  __builtin_memcpy(&four, four_codes, sizeof four);
  return _mm512_set1_epi32(four);
}

// ---- integer dot products -----------------------------------------------------------

// Where the sums of a block of tokens are.
struct PairSums {
  float* acc;          // of the block's first token and the first pair's first tile
  size_t tile_stride;  // floats
  int n_tiles;
};

// n_groups groups of `pairs` pairs meet `tokens` tokens; the sums stay in registers.
template <typename F, int pairs, int tokens>
void dot_block(const PairGroup (*w)[kChunkGroups], float zero, int n_groups,
               const ActGroup* acts, size_t act_stride, const PairSums& out) {
  constexpr int kSums = pairs * tokens;  // sum i: pair i % pairs, token i / pairs
  constexpr int kHalves = F::halves ? 2 : 1;
  const __m512 zeros = _mm512_set1_ps(zero);
  __m512 acc[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i)
    acc[i] = load_sums(
        out.acc + size_t(2 * (i % pairs)) * out.tile_stride + i / pairs * kTileRows,
        out.tile_stride, 2 * (i % pairs) + 1 < out.n_tiles);
  for (int g = 0; g < n_groups; ++g) {
    const ActGroup* y = acts + size_t(g) * act_stride;
    for (int h = 0; h < kHalves; ++h) {
      __m512i sums[kSums];
#pragma GCC unroll 12
      for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_si512();
#pragma GCC unroll 8
      for (int k = 0; k < kChunks / kHalves; ++k) {
        const int c = h * kChunks / 2 + k;
        __m512i codes[pairs];
#pragma GCC unroll 2
        for (int p = 0; p < pairs; ++p) codes[p] = _mm512_load_si512(w[p][g].code[c]);
#pragma GCC unroll 12
        for (int i = 0; i < kSums; ++i)
          sums[i] = _mm512_dpbusd_epi32(sums[i], codes[i % pairs],
                                        broadcast(y[i / pairs].code + 4 * c));
      }
#pragma GCC unroll 2
      for (int p = 0; p < pairs; ++p) {
        const __m512 scale = _mm512_load_ps(w[p][g].scale[h]);
        const __m512 offset = _mm512_load_ps(w[p][g].offset[h]);
#pragma GCC unroll 6
        for (int t = 0; t < tokens; ++t) {
          const int i = t * pairs + p;
          acc[i] = add_scaled<F>(acc[i], sums[i], scale, offset, zeros, y[t], h);
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i)
    store_sums(
        out.acc + size_t(2 * (i % pairs)) * out.tile_stride + i / pairs * kTileRows,
        out.tile_stride, 2 * (i % pairs) + 1 < out.n_tiles, acc[i]);
}

template <typename F, int pairs>
void dot_tokens(const PairGroup (*w)[kChunkGroups], float zero, int n_groups,
                const ActGroup* acts, size_t act_stride, int n_tokens, PairSums out) {
  int t = 0;
  for (; t + kTokensTogether <= n_tokens; t += kTokensTogether) {
    dot_block<F, pairs, kTokensTogether>(w, zero, n_groups, acts + t, act_stride, out);
    out.acc += kTokensTogether * kTileRows;
  }
  for (; t + 2 <= n_tokens; t += 2, out.acc += 2 * kTileRows)
    dot_block<F, pairs, 2>(w, zero, n_groups, acts + t, act_stride, out);
  if (t < n_tokens) dot_block<F, pairs, 1>(w, zero, n_groups, acts + t, act_stride, out);
}

template <bool halves, bool zeros, bool offsets>
void dot_tiles(const PairGroup (*w)[kChunkGroups], int n_tiles, float zero, int n_groups,
               const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  using F = PairFormat<false, halves, zeros, offsets>;
  const PairSums out{acc, size_t(n_tokens) * kTileRows, n_tiles};
  (n_tiles > 2 ? dot_tokens<F, 2> : dot_tokens<F, 1>)(w, zero, n_groups, acts, act_stride,
                                                      n_tokens, out);
}

template <bool halves>
auto choose_dot(bool zeros, bool offsets) {
  if (zeros)
    return offsets ? dot_tiles<halves, true, true> : dot_tiles<halves, true, false>;
  return offsets ? dot_tiles<halves, false, true> : dot_tiles<halves, false, false>;
}

void dot_int8(const TileGroup* w, int n_tiles, const TileFormat& format, int n_groups,
              const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  const bool is_signed = format.range == CodeRange::s8;
  const int zero = is_signed ? format.zero - 128 : format.zero;
  PairGroup pairs[kMostPairs][kChunkGroups];
  pair_tiles(w, n_tiles, format, n_groups, is_signed ? 0x80 : 0, pairs);
  const auto run = format.halves ? choose_dot<true>(zero != 0, format.offsets)
                                 : choose_dot<false>(zero != 0, format.offsets);
  run(pairs, n_tiles, float(zero), n_groups, acts, act_stride, n_tokens, acc);
}

// ---- float dot products -------------------------------------------------------------

// Where the tiles' values begin: a pair that lacks its second tile has the first again.
using TileValues = const float* [kMostPairs][2];

template <int pairs, int tokens>
inline void add_column(const TileValues& w, int at, const float* x, size_t x_stride,
                       __m512* sums) {
  __m512 columns[pairs];
#pragma GCC unroll 2
  for (int p = 0; p < pairs; ++p)
    columns[p] = join(_mm256_loadu_ps(w[p][0] + at * kTileRows),
                      _mm256_loadu_ps(w[p][1] + at * kTileRows));
#pragma GCC unroll 12
  for (int i = 0; i < pairs * tokens; ++i)
    sums[i] = _mm512_fmadd_ps(columns[i % pairs],
                              _mm512_set1_ps(x[size_t(i / pairs) * x_stride]), sums[i]);
}

// Columns [first, first + n) with n at most 32: even and odd ones are summed apart from
// zero (avx2_matmul.cc).
template <int pairs, int tokens>
inline void dot_columns(const TileValues& w, int first, int n, const float* x,
                        size_t x_stride, const PairSums& out) {
  constexpr int kSums = pairs * tokens;
  __m512 even[kSums], odd[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) even[i] = odd[i] = _mm512_setzero_ps();
  int c = first;
  for (; c + 2 <= first + n; c += 2) {
    add_column<pairs, tokens>(w, c, x + c, x_stride, even);
    add_column<pairs, tokens>(w, c + 1, x + c + 1, x_stride, odd);
  }
  if (c < first + n) add_column<pairs, tokens>(w, c, x + c, x_stride, even);
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) {
    const bool both = 2 * (i % pairs) + 1 < out.n_tiles;
    float* acc =
        out.acc + size_t(2 * (i % pairs)) * out.tile_stride + i / pairs * kTileRows;
    const __m512 sum = load_sums(acc, out.tile_stride, both);
    store_sums(acc, out.tile_stride, both,
               _mm512_add_ps(sum, _mm512_add_ps(even[i], odd[i])));
  }
}

template <int pairs, int tokens>
void dot_some(const TileValues& w, int n_cols, const float* x, size_t x_stride,
              const PairSums& out) {
  for (int c = 0; c < n_cols; c += kGroupCols)
    dot_columns<pairs, tokens>(w, c, n_cols - c < kGroupCols ? n_cols - c : kGroupCols, x,
                               x_stride, out);
}

template <int pairs>
void dot_floats(const TileValues& w, int n_cols, const float* x, size_t x_stride,
                int n_tokens, PairSums out) {
  int t = 0;
  for (; t + kTokensTogether <= n_tokens; t += kTokensTogether) {
    dot_some<pairs, kTokensTogether>(w, n_cols, x + size_t(t) * x_stride, x_stride, out);
    out.acc += kTokensTogether * kTileRows;
  }
  for (; t < n_tokens; ++t, out.acc += kTileRows)
    dot_some<pairs, 1>(w, n_cols, x + size_t(t) * x_stride, x_stride, out);
}

void dot_f32(const float* w, int n_tiles, size_t w_stride, int n_cols, const float* x,
             size_t x_stride, int n_tokens, float* acc) {
  TileValues tiles;
  for (int i = 0; i < 2 * kMostPairs; ++i)
    tiles[i / 2][i % 2] = w + size_t(i < n_tiles ? i : n_tiles - 1) * w_stride;
  const PairSums out{acc, size_t(n_tokens) * kTileRows, n_tiles};
  (n_tiles > 2 ? dot_floats<2> : dot_floats<1>)(tiles, n_cols, x, x_stride, n_tokens,
                                                out);
}

}  // namespace

void add_avx512_matmul(Kernels& table) {
  table.tiles_together = kMostTilesTogether;
  table.dot_int8 = dot_int8;
  table.dot_f32 = dot_f32;
}

}  // namespace ingot::cpu
