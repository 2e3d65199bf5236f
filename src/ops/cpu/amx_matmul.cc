// AMX: 16 tokens meet 16 weight rows (a pair of tiles), 32 or 16 columns at a time, in
// one instruction.  The whole sums then go through the float steps of avx512_matmul.cc,
// with its bits.  A block of tokens is read as it lies: ActGroups of one group are 64
// bytes apart, codes first.
#include "ops/cpu/avx512.h"

namespace ingot::cpu {
namespace {

constexpr int kBlockTokens = 16;

// Tiles 0 and 1: whole sums of a full block and of the last one, [tokens][16 rows] int32;
// 2 and 3: their activations, [tokens][columns]; 4: weights, [columns / 4][16 rows][4].
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

void configure(bool halves, int last_tokens) {
  TileConfig config;
  const int cols = halves ? kGroupCols / 2 : kGroupCols;
  for (int i = 0; i < 4; ++i) {
    config.row_bytes[i] = uint16_t(i < 2 ? 4 * kPairRows : cols);
    config.rows[i] = uint8_t(i % 2 == 0 ? kBlockTokens : last_tokens);
  }
  config.row_bytes[4] = 4 * kPairRows;
  config.rows[4] = uint8_t(cols / 4);
  asm volatile("" : : "m"(config) : "memory");  // g++ 12 thinks that 8 bytes are read
  _tile_loadconfig(&config);
}

// Whole sums of one block with one half, or all, of a pair's group: [token][16 rows].
// Nothing tells g++ what a tile is loaded from, hence the memory clobbers of dot_int8.
template <typename F, bool full>
inline void sum_block(const PairGroup& w, int half, const ActGroup* y,
                      int32_t (*sums)[kPairRows]) {
  const auto* codes = &w.code[half * kChunks / 2];
  const auto* activations = y->code + half * kGroupCols / 2;
  _tile_loadd(4, codes, sizeof *codes);
  if constexpr (full) {
    _tile_zero(0);
    _tile_loadd(2, activations, sizeof *y);
    if constexpr (F::is_signed)
      _tile_dpbssd(0, 2, 4);
    else
      _tile_dpbsud(0, 2, 4);
    _tile_stored(0, sums, sizeof *sums);
  } else {
    _tile_zero(1);
    _tile_loadd(3, activations, sizeof *y);
    if constexpr (F::is_signed)
      _tile_dpbssd(1, 3, 4);
    else
      _tile_dpbsud(1, 3, 4);
    _tile_stored(1, sums, sizeof *sums);
  }
}

// n_tokens tokens (16 where `full`) meet a pair; acc: of the first token and tile.
template <typename F, bool full>
void dot_block(const PairGroup* w, float zero, int n_groups, const ActGroup* acts,
               size_t act_stride, int n_tokens, float* acc, size_t tile_stride,
               bool both) {
  alignas(64) int32_t sums[2][kBlockTokens][kPairRows];  // in turns: one waits for none
  const __m512 zeros = _mm512_set1_ps(zero);
  __m512 total[kBlockTokens];
#pragma GCC unroll 16
  for (int t = 0; t < kBlockTokens; ++t)
    total[t] = full || t < n_tokens ? load_sums(acc + t * kTileRows, tile_stride, both)
                                    : _mm512_setzero_ps();
  constexpr int kHalves = F::halves ? 2 : 1;
  for (int step = 0; step < n_groups * kHalves; ++step) {
    const int h = step % kHalves;
    const PairGroup& group = w[step / kHalves];
    const ActGroup* y = acts + size_t(step / kHalves) * act_stride;
    sum_block<F, full>(group, h, y, sums[step % 2]);
    const __m512 scale = _mm512_load_ps(group.scale[h]);
    const __m512 offset = _mm512_load_ps(group.offset[h]);
#pragma GCC unroll 16
    for (int t = 0; t < kBlockTokens; ++t)
      if (full || t < n_tokens)
        total[t] = add_scaled<F>(total[t], _mm512_load_si512(sums[step % 2][t]), scale,
                                 offset, zeros, y[t], h);
  }
#pragma GCC unroll 16
  for (int t = 0; t < kBlockTokens; ++t)
    if (full || t < n_tokens)
      store_sums(acc + t * kTileRows, tile_stride, both, total[t]);
}

template <typename F>
void dot_tiles(const PairGroup (*w)[kChunkGroups], int n_tiles, float zero, int n_groups,
               const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  const size_t tile_stride = size_t(n_tokens) * kTileRows;
  const int last = n_tokens % kBlockTokens;
  configure(F::halves, last == 0 ? kBlockTokens : last);
  for (int tile = 0; tile < n_tiles; tile += 2) {
    const PairGroup* pair = w[tile / 2];
    float* sums = acc + size_t(tile) * tile_stride;
    const bool both = tile + 1 < n_tiles;
    int t = 0;
    for (; t + kBlockTokens <= n_tokens; t += kBlockTokens)
      dot_block<F, true>(pair, zero, n_groups, acts + t, act_stride, kBlockTokens,
                         sums + t * kTileRows, tile_stride, both);
    if (last != 0)
      dot_block<F, false>(pair, zero, n_groups, acts + t, act_stride, last,
                          sums + t * kTileRows, tile_stride, both);
  }
  _tile_release();
}

using DotTiles = void (*)(const PairGroup (*)[kChunkGroups], int, float, int,
                          const ActGroup*, size_t, int, float*);
template <bool is_signed, bool halves>
DotTiles choose_dot(bool zeros, bool offsets) {
  if (zeros)
    return offsets ? dot_tiles<PairFormat<is_signed, halves, true, true>>
                   : dot_tiles<PairFormat<is_signed, halves, true, false>>;
  return offsets ? dot_tiles<PairFormat<is_signed, halves, false, true>>
                 : dot_tiles<PairFormat<is_signed, halves, false, false>>;
}

DotTiles choose_dot(const TileFormat& f) {
  const bool zeros = f.zero != 0;
  if (f.range == CodeRange::s8)
    return f.halves ? choose_dot<true, true>(zeros, f.offsets)
                    : choose_dot<true, false>(zeros, f.offsets);
  return f.halves ? choose_dot<false, true>(zeros, f.offsets)
                  : choose_dot<false, false>(zeros, f.offsets);
}

void dot_int8(const TileGroup* w, int n_tiles, const TileFormat& format, int n_groups,
              const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  if (n_tokens < kBlockTokens)
    return avx512_kernels().dot_int8(w, n_tiles, format, n_groups, acts, act_stride,
                                     n_tokens, acc);
  PairGroup pairs[kMostPairs][kChunkGroups];
  pair_tiles(w, n_tiles, format, n_groups, 0, pairs);
  asm volatile("" : : "r"(pairs), "r"(acts) : "memory");
  choose_dot(format)(pairs, n_tiles, float(format.zero), n_groups, acts, act_stride,
                     n_tokens, acc);
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
