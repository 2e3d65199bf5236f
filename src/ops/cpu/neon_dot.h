// The integer kernel for NEON, over how 16 products become 4 sums.  Integer sums are
// exact, so both of its instances give the same bits.
#pragma once

#include "ops/cpu/neon.h"

namespace ingot::cpu {
namespace {  // each file that includes this is compiled for its own machine

constexpr int kChunks = kGroupCols / 4;

// 8 rows of sums: rows 0-3 and 4-7.
struct RowSums {
  int32x4_t low, high;
};

template <typename Dot>
inline RowSums sum_chunks(const TileGroup& w, int first, int n, const int8_t* y) {
  RowSums sums{vdupq_n_s32(0), vdupq_n_s32(0)};
  for (int c = first; c < first + n; ++c) {
    int32_t four;
    __builtin_memcpy(&four, y + 4 * c, sizeof four);
    const int8x16_t activations = vreinterpretq_s8_s32(vdupq_n_s32(four));
    const auto* codes = reinterpret_cast<const int8_t*>(w.code[c]);
    sums.low = Dot::add(sums.low, vld1q_s8(codes), activations);
    sums.high = Dot::add(sums.high, vld1q_s8(codes + 16), activations);
  }
  return sums;
}

// acc[4 rows] += scale * y_scale * (sum + zero * y_sum) (+ offset * y_scaled_sum)
inline float32x4_t add_scaled(float32x4_t acc, int32x4_t sum, const float* scale,
                              const float* offset, float zero, float y_scale, float y_sum,
                              float y_scaled_sum) {
  const float32x4_t whole =
      vfmaq_f32(vcvtq_f32_s32(sum), vdupq_n_f32(zero), vdupq_n_f32(y_sum));
  acc = vfmaq_f32(acc, vmulq_n_f32(vld1q_f32(scale), y_scale), whole);
  if (offset != nullptr)
    acc = vfmaq_f32(acc, vld1q_f32(offset), vdupq_n_f32(y_scaled_sum));
  return acc;
}

inline void add_half(const TileGroup& w, const TileFormat& f, int h, const RowSums& sums,
                     float y_scale, float y_sum, float y_scaled_sum, float* acc) {
  const float zero = float(f.zero);
  const float* offset = f.offsets ? w.offset[h] : nullptr;
  vst1q_f32(acc, add_scaled(vld1q_f32(acc), sums.low, w.scale[h], offset, zero, y_scale,
                            y_sum, y_scaled_sum));
  vst1q_f32(acc + 4, add_scaled(vld1q_f32(acc + 4), sums.high, w.scale[h] + 4,
                                f.offsets ? offset + 4 : nullptr, zero, y_scale, y_sum,
                                y_scaled_sum));
}

template <typename Dot>
void dot_int8_by(const TileGroup* w, int /*n_tiles*/, const TileFormat& f, int n_groups,
                 const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  for (int g = 0; g < n_groups; ++g)
    for (int t = 0; t < n_tokens; ++t) {
      const ActGroup& y = acts[size_t(g) * act_stride + size_t(t)];
      float* sum = acc + t * kTileRows;
      if (f.halves) {
        for (int h = 0; h < 2; ++h)
          add_half(w[g], f, h,
                   sum_chunks<Dot>(w[g], h * kChunks / 2, kChunks / 2, y.code), y.scale,
                   y.sum[h], y.scaled_sum[h], sum);
      } else {
        add_half(w[g], f, 0, sum_chunks<Dot>(w[g], 0, kChunks, y.code), y.scale,
                 y.sum_both, y.scaled_sum_both, sum);
      }
    }
}

}  // namespace
}  // namespace ingot::cpu
