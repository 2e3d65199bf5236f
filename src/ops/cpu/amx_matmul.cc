// AMX: 16 tokens meet 32 columns of 16 weight rows (a pair of tiles) in one instruction.
// The whole sums then go through the float steps of avx512_matmul.cc, with its bits.
// Activations are read as they lie: ActGroups of one group are 64 bytes apart, codes
// first.
#include "ops/cpu/avx512.h"

namespace ingot::cpu {
namespace {

constexpr int kBlockTokens = 16;
// Groups whose whole sums are formed side by side: one product alone would wait for its
// loads, and the float steps for it.
constexpr int kGroupsTogether = 4;

// Tiles 0 to 3: whole sums of the groups, [tokens][16 rows] int32; 4 and 5: activations,
// [tokens][32 columns]; 6 and 7: weights, [8 chunks][16 rows][4 columns].
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

void configure(int n_tokens) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = uint16_t(i == 4 || i == 5 ? kGroupCols : 4 * kPairRows);
    config.rows[i] = uint8_t(i < 6 ? n_tokens : kChunks);
  }
  asm volatile("" : : "m"(config) : "memory");  // g++ 12 thinks that 8 bytes are read
  _tile_loadconfig(&config);
}

// The intrinsics want numbers as tiles' names.
#define INGOT_SUM_GROUP(sum, activation, weight) \
  _tile_zero(sum);                               \
  _tile_loadd(activation, y->code, sizeof *y);   \
  _tile_loadd(weight, w.code, sizeof *w.code);   \
  if constexpr (F::is_signed)                    \
    _tile_dpbssd(sum, activation, weight);       \
  else                                           \
    _tile_dpbsud(sum, activation, weight)

// Group k of those together, into tile k.  Nothing tells g++ what a tile is loaded from,
// hence the memory clobber in dot_int8.
template <typename F, int k>
inline void sum_group(const PairGroup& w, const ActGroup* y) {
  if constexpr (k == 0) {
    INGOT_SUM_GROUP(0, 4, 6);
  } else if constexpr (k == 1) {
    INGOT_SUM_GROUP(1, 5, 7);
  } else if constexpr (k == 2) {
    INGOT_SUM_GROUP(2, 4, 6);
  } else {
    INGOT_SUM_GROUP(3, 5, 7);
  }
}
#undef INGOT_SUM_GROUP

// Where a pair's sums are.
struct PairSums {
  float* acc;          // of the first token and tile
  size_t tile_stride;  // floats from the first tile's sums to the second's
  bool both;           // else there is no second tile
};

// n groups of a pair meet n_tokens tokens, at most a block.
template <typename F, int n>
void dot_groups(const PairGroup* w, float zero, const ActGroup* acts, size_t act_stride,
                int n_tokens, const PairSums& out) {
  alignas(64) int32_t sums[n][kBlockTokens][kPairRows];
  constexpr int kRowBytes = sizeof sums[0][0];
  sum_group<F, 0>(w[0], acts);
  if constexpr (n == kGroupsTogether) {
    sum_group<F, 1>(w[1], acts + act_stride);
    sum_group<F, 2>(w[2], acts + 2 * act_stride);
    sum_group<F, 3>(w[3], acts + 3 * act_stride);
  }
  // After all loads: a load waits for stores whose addresses end in the same 12 bits.
  _tile_stored(0, sums[0], kRowBytes);
  if constexpr (n == kGroupsTogether) {
    _tile_stored(1, sums[1], kRowBytes);
    _tile_stored(2, sums[2], kRowBytes);
    _tile_stored(3, sums[3], kRowBytes);
  }
  const __m512 zeros = _mm512_set1_ps(zero);
  __m512 scale[n], offset[n];
#pragma GCC unroll 4
  for (int k = 0; k < n; ++k) {
    scale[k] = _mm512_load_ps(w[k].scale[0]);
    offset[k] = _mm512_load_ps(w[k].offset[0]);
  }
  for (int t = 0; t < n_tokens; ++t) {
    float* acc = out.acc + t * kTileRows;
    __m512 total = load_sums(acc, out.tile_stride, out.both);
#pragma GCC unroll 4
    for (int k = 0; k < n; ++k)
      total = add_scaled<F>(total, _mm512_load_si512(sums[k][t]), scale[k], offset[k],
                            zeros, acts[size_t(k) * act_stride + size_t(t)], 0);
    store_sums(acc, out.tile_stride, out.both, total);
  }
}

template <typename F>
void dot_tiles(const PairGroup (*w)[kChunkGroups], int n_tiles, float zero, int n_groups,
               const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  const size_t tile_stride = size_t(n_tokens) * kTileRows;
  configure(kBlockTokens);
  for (int t = 0; t < n_tokens; t += kBlockTokens) {
    const int n = n_tokens - t < kBlockTokens ? n_tokens - t : kBlockTokens;
    if (n < kBlockTokens) configure(n);
    for (int tile = 0; tile < n_tiles; tile += 2) {
      const PairSums out{acc + size_t(tile) * tile_stride + t * kTileRows, tile_stride,
                         tile + 1 < n_tiles};
      const PairGroup* groups = w[tile / 2];
      const ActGroup* y = acts + t;
      int g = 0;
      for (; g + kGroupsTogether <= n_groups; g += kGroupsTogether)
        dot_groups<F, kGroupsTogether>(groups + g, zero, y + size_t(g) * act_stride,
                                       act_stride, n, out);
      for (; g < n_groups; ++g)
        dot_groups<F, 1>(groups + g, zero, y + size_t(g) * act_stride, act_stride, n,
                         out);
    }
  }
  _tile_release();
}

template <bool is_signed>
auto choose_dot(bool zeros, bool offsets) {
  constexpr bool kHalves = false;
  if (zeros)
    return offsets ? dot_tiles<PairFormat<is_signed, kHalves, true, true>>
                   : dot_tiles<PairFormat<is_signed, kHalves, true, false>>;
  return offsets ? dot_tiles<PairFormat<is_signed, kHalves, false, true>>
                 : dot_tiles<PairFormat<is_signed, kHalves, false, false>>;
}

// Halves would make products of 16 columns with twice the float steps: it was no
// faster than AVX-512.
void dot_int8(const TileGroup* w, int n_tiles, const TileFormat& format, int n_groups,
              const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  if (n_tokens < kBlockTokens || format.halves)
    return avx512_kernels().dot_int8(w, n_tiles, format, n_groups, acts, act_stride,
                                     n_tokens, acc);
  PairGroup pairs[kMostPairs][kChunkGroups];
  pair_tiles(w, n_tiles, format, n_groups, 0, pairs);
  asm volatile("" : : "r"(pairs), "r"(acts) : "memory");
  const auto run = format.range == CodeRange::s8
                       ? choose_dot<true>(format.zero != 0, format.offsets)
                       : choose_dot<false>(format.zero != 0, format.offsets);
  run(pairs, n_tiles, float(format.zero), n_groups, acts, act_stride, n_tokens, acc);
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels table = [] {
    Kernels t = avx512_kernels();
    t.isa = "amx";
    t.dot_int8 = dot_int8;
    return t;
  }();
  return table;
}

}  // namespace ingot::cpu
