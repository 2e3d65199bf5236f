// What the AVX-512 and AMX files share: pairs of tiles, 16 weight rows in the lanes of
// one register.  Included only by cpu/avx512_*.cc, compiled with -mavx512f -mavx512bw
// -mavx512dq -mavx512vl -mavx512vnni beside AVX2's flags, and cpu/amx_*.cc.  As in the
// AVX2 files, no inline function of other headers is used.
#pragma once

#include "ops/cpu/avx2.h"

namespace ingot::cpu {
namespace {  // each file that includes this has its own copy

constexpr int kPairRows = 2 * kTileRows;
constexpr int kMostPairs = kMostTilesTogether / 2;
constexpr int kChunks = kGroupCols / 4;

// Two TileGroups side by side, each chunk of 4 columns one register: also what AMX wants
// of a tile of weights.
struct alignas(64) PairGroup {
  uint8_t code[kChunks][kPairRows][4];
  float scale[2][kPairRows];
  float offset[2][kPairRows];
};

// The 8 floats of two tiles in one register.
inline __m512 join(__m256 first, __m256 second) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1);
}
inline __m512i join(__m256i first, __m256i second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

// Sums of one token with a pair of tiles; the pair's second tile may be missing.
inline __m512 load_sums(const float* acc, size_t tile_stride, bool both) {
  const __m256 first = _mm256_loadu_ps(acc);
  return join(first, both ? _mm256_loadu_ps(acc + tile_stride) : first);
}
inline void store_sums(float* acc, size_t tile_stride, bool both, __m512 sums) {
  _mm256_storeu_ps(acc, _mm512_castps512_ps256(sums));
  if (both) _mm256_storeu_ps(acc + tile_stride, _mm512_extractf32x8_ps(sums, 1));
}

inline void join_rows(const float* first, const float* second, float* out) {
  _mm512_store_ps(out, join(_mm256_load_ps(first), _mm256_load_ps(second)));
}

// n_groups groups of tiles [0, n_tiles) to out[pair][group], codes xor `flip`.  An odd
// tile is its own neighbour.
inline void pair_tiles(const TileGroup* w, int n_tiles, const TileFormat& format,
                       int n_groups, uint8_t flip, PairGroup (*out)[kChunkGroups]) {
  const __m512i flips = _mm512_set1_epi8(char(flip));
  for (int tile = 0; tile < n_tiles; tile += 2)
    for (int g = 0; g < n_groups; ++g) {
      const TileGroup& first = w[tile * kChunkGroups + g];
      const TileGroup& second = tile + 1 < n_tiles ? (&first)[kChunkGroups] : first;
      PairGroup& pair = out[tile / 2][g];
      for (int c = 0; c < kChunks; ++c) {
        const __m512i codes = join(load_bytes(first.code[c]), load_bytes(second.code[c]));
        _mm512_store_si512(pair.code[c], _mm512_xor_si512(codes, flips));
      }
      for (int h = 0; h < (format.halves ? 2 : 1); ++h) {
        join_rows(first.scale[h], second.scale[h], pair.scale[h]);
        if (format.offsets) join_rows(first.offset[h], second.offset[h], pair.offset[h]);
      }
    }
}

// What a kernel is compiled for.
template <bool signed_of, bool halves_of, bool zeros_of, bool offsets_of>
struct PairFormat {
  static constexpr bool is_signed = signed_of;  // the codes that the products meet
  static constexpr bool halves = halves_of;
  static constexpr bool zeros = zeros_of;
  static constexpr bool offsets = offsets_of;
};

// acc + scale * y.scale * (sum + zero * y's sum) (+ offset * y's scaled sum)
template <typename F>
inline __m512 add_scaled(__m512 acc, __m512i sum, __m512 scale, __m512 offset,
                         __m512 zero, const ActGroup& y, int half) {
  __m512 whole = _mm512_cvtepi32_ps(sum);
  if constexpr (F::zeros)
    whole = _mm512_fmadd_ps(zero, _mm512_set1_ps(F::halves ? y.sum[half] : y.sum_both),
                            whole);
  acc = _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(y.scale)), whole, acc);
  if constexpr (F::offsets)
    acc = _mm512_fmadd_ps(
        offset, _mm512_set1_ps(F::halves ? y.scaled_sum[half] : y.scaled_sum_both), acc);
  return acc;
}

}  // namespace

// The rows of the table that each file holds.
void add_avx512_matmul(Kernels& table);
void add_avx512_few_rows(Kernels& table);

}  // namespace ingot::cpu
