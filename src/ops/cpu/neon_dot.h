// The integer kernel for NEON over unpacked tiles: each code that is loaded serves a
// block of tokens.  How a block's products are formed is Products'.
#pragma once

#include "ops/cpu/neon.h"

namespace ingot::cpu {
namespace {  // each file that includes this is compiled for its own machine

constexpr int kHalfChunks = kGroupCols / 8;

// The compiler loads nothing of the next step before this one: registers are few.
[[gnu::always_inline]] inline void end_step() { asm volatile("" ::: "memory"); }

// Whole sums of `tokens` tokens: rows 0-3 and 4-7.
template <int tokens>
using Sums = int32x4_t[tokens][2];

// Rows of 4 weights meet a token by its own instructions.  Add::two adds chunks v and v +
// 1 of 16 columns, small: codes are below 64.
template <typename Add>
struct ByRows {
  static constexpr int kTokens = 4;

  template <bool small, int v, int tokens>
  [[gnu::always_inline]] static void add_chunks(const TileGroup& w, int h,
                                                const int8x16_t (&y)[tokens],
                                                Sums<tokens>& sums) {
    const auto* a = reinterpret_cast<const int8_t*>(w.code[h * kHalfChunks + v]);
    const auto* b = reinterpret_cast<const int8_t*>(w.code[h * kHalfChunks + v + 1]);
    for (int r = 0; r < 2; ++r) {
      const int8x16_t first = vld1q_s8(a + 16 * r), second = vld1q_s8(b + 16 * r);
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t)
        sums[t][r] = Add::template two<small, v>(sums[t][r], first, second, y[t]);
      end_step();
    }
  }

  // Halves [first, first + n) of a group.
  template <bool small, int n, int tokens>
  static void sum(const TileGroup& w, int first, const ActGroup* y, Sums<tokens>& sums) {
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) sums[t][0] = sums[t][1] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int h = first; h < first + n; ++h) {
      int8x16_t acts[tokens];
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) acts[t] = vld1q_s8(y[t].code + 16 * h);
      add_chunks<small, 0>(w, h, acts, sums);
      add_chunks<small, 2>(w, h, acts, sums);
    }
  }
};

// acc[4 rows] + scale * y_scale * (sum + zero * y_sum) (+ offset * y_scaled_sum)
template <bool offsets>
inline float32x4_t add_scaled(float32x4_t acc, int32x4_t sum, float32x4_t scale,
                              float32x4_t offset, float zero, float y_scale, float y_sum,
                              float y_scaled_sum) {
  const float32x4_t whole =
      vfmaq_f32(vcvtq_f32_s32(sum), vdupq_n_f32(zero), vdupq_n_f32(y_sum));
  acc = vfmaq_f32(acc, vmulq_n_f32(scale, y_scale), whole);
  if constexpr (offsets) acc = vfmaq_f32(acc, offset, vdupq_n_f32(y_scaled_sum));
  return acc;
}

// What a kernel is compiled for.
template <bool small_of, bool halves_of, bool offsets_of>
struct Format {
  static constexpr bool small = small_of;  // codes are below 64
  static constexpr bool halves = halves_of;
  static constexpr bool offsets = offsets_of;
};

// One group meets `tokens` tokens.
template <typename Products, typename F, int tokens>
inline void dot_block(const TileGroup& w, float zero, const ActGroup* y, float* acc) {
  for (int h = 0; h < (F::halves ? 2 : 1); ++h) {
    Sums<tokens> sums;
    Products::template sum<F::small, F::halves ? 1 : 2>(w, h, y, sums);
    for (int r = 0; r < 2; ++r) {
      const float32x4_t scale = vld1q_f32(w.scale[h] + 4 * r);
      const float32x4_t offset =
          F::offsets ? vld1q_f32(w.offset[h] + 4 * r) : vdupq_n_f32(0.0f);
#pragma GCC unroll 8
      for (int t = 0; t < tokens; ++t) {
        float* at = acc + t * kTileRows + 4 * r;
        vst1q_f32(at, add_scaled<F::offsets>(
                          vld1q_f32(at), sums[t][r], scale, offset, zero, y[t].scale,
                          F::halves ? y[t].sum[h] : y[t].sum_both,
                          F::halves ? y[t].scaled_sum[h] : y[t].scaled_sum_both));
      }
    }
  }
}

template <typename Products, typename F>
void dot_groups(const TileGroup* w, float zero, int n_groups, const ActGroup* acts,
                size_t act_stride, int n_tokens, float* acc) {
  constexpr int kTokens = Products::kTokens;
  for (int g = 0; g < n_groups; ++g) {
    const ActGroup* y = acts + size_t(g) * act_stride;
    int t = 0;
    for (; t + kTokens <= n_tokens; t += kTokens)
      dot_block<Products, F, kTokens>(w[g], zero, y + t, acc + t * kTileRows);
    for (; t + 2 <= n_tokens; t += 2)
      dot_block<Products, F, 2>(w[g], zero, y + t, acc + t * kTileRows);
    if (t < n_tokens) dot_block<Products, F, 1>(w[g], zero, y + t, acc + t * kTileRows);
  }
}

using DotGroups = void (*)(const TileGroup*, float, int, const ActGroup*, size_t, int,
                           float*);
template <typename Products, bool small>
DotGroups choose_dot(const TileFormat& f) {
  if (f.halves)
    return f.offsets ? dot_groups<Products, Format<small, true, true>>
                     : dot_groups<Products, Format<small, true, false>>;
  return f.offsets ? dot_groups<Products, Format<small, false, true>>
                   : dot_groups<Products, Format<small, false, false>>;
}

template <typename Products>
void dot_int8_by(const TileGroup* w, int /*n_tiles*/, const TileFormat& f, int n_groups,
                 const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  const DotGroups run = f.range == CodeRange::s8 ? choose_dot<Products, false>(f)
                                                 : choose_dot<Products, true>(f);
  run(w, float(f.zero), n_groups, acts, act_stride, n_tokens, acc);
}

}  // namespace
}  // namespace ingot::cpu
