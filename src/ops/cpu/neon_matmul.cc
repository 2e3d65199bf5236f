// NEON: activations to int8, float dot products over tiles of 8 rows, widening.
#include "ops/cpu/neon.h"

namespace ingot::cpu {
namespace {

// ---- activations --------------------------------------------------------------------

uint32_t largest_bits(const float* x) {
  uint32x4_t largest = vdupq_n_u32(0);
  for (int i = 0; i < kGroupCols; i += 4) {
    const uint32x4_t bits = vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i)));
    largest = vmaxq_u32(largest, bits);
  }
  return vmaxvq_u32(largest);
}

void quantise_group(const float* x, ActGroup& out) {
  const uint32_t bits = largest_bits(x);
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  const bool finite = bits < 0x7f800000u;
  const bool codes = finite && largest >= kSmallestActivation;
  const float inverse = codes ? 127.0f / largest : 0.0f;
  int sum[2] = {0, 0};
  for (int i = 0; i < kGroupCols; i += 8) {
    int32x4_t low = vdupq_n_s32(0), high = low;
    if (codes) {  // rounds to nearest even
      low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), inverse));
      high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4), inverse));
    }
    const int16x8_t wide = vcombine_s16(vmovn_s32(low), vmovn_s32(high));
    vst1_s8(out.code + i, vmovn_s16(wide));
    sum[i / 16] += vaddlvq_s16(wide);
  }
  out.scale = codes ? largest / 127.0f : finite ? 0.0f : __builtin_nanf("");
  for (int h = 0; h < 2; ++h) {
    out.sum[h] = float(sum[h]);
    out.scaled_sum[h] = out.scale * out.sum[h];
  }
  out.sum_both = out.sum[0] + out.sum[1];
  out.scaled_sum_both = out.scale * out.sum_both;
  out.unused = 0.0f;
}

void quantise(const float* x, int n_groups, ActGroup* out, size_t out_stride) {
  for (int g = 0; g < n_groups; ++g)
    quantise_group(x + g * kGroupCols, out[size_t(g) * out_stride]);
}

// ---- float dot products -------------------------------------------------------------

// Even and odd columns are summed apart, anew in every group of 32, as on AVX2.
template <int tokens>
void dot_columns(const float* w, int n, const float* x, size_t x_stride, float* acc) {
  float32x4_t sums[tokens][2][2];  // [token][parity][rows 0-3, 4-7]
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < 4; ++i) sums[t][i / 2][i % 2] = vdupq_n_f32(0.0f);
  for (int c = 0; c < n; ++c) {
    const float32x4_t low = vld1q_f32(w + c * kTileRows);
    const float32x4_t high = vld1q_f32(w + c * kTileRows + 4);
    for (int t = 0; t < tokens; ++t) {
      const float value = x[size_t(t) * x_stride + size_t(c)];
      float32x4_t(&pair)[2] = sums[t][c % 2];
      pair[0] = vfmaq_n_f32(pair[0], low, value);
      pair[1] = vfmaq_n_f32(pair[1], high, value);
    }
  }
  for (int t = 0; t < tokens; ++t)
    for (int half = 0; half < 2; ++half) {
      float* sum = acc + t * kTileRows + 4 * half;
      vst1q_f32(sum,
                vaddq_f32(vld1q_f32(sum), vaddq_f32(sums[t][0][half], sums[t][1][half])));
    }
}

template <int tokens>
void dot_tokens(const float* w, int n_cols, const float* x, size_t x_stride, float* acc) {
  for (int c = 0; c < n_cols; c += kGroupCols)
    dot_columns<tokens>(w + c * kTileRows,
                        n_cols - c < kGroupCols ? n_cols - c : kGroupCols, x + c,
                        x_stride, acc);
}

void dot_f32(const float* w, int /*n_tiles*/, size_t /*w_stride*/, int n_cols,
             const float* x, size_t x_stride, int n_tokens, float* acc) {
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
  for (; i + 4 <= n; i += 4)
    vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(source + i))));
  scalar_kernels().f16_to_f32(source + i, n - i, out + i);
}

}  // namespace

void add_neon_matmul(Kernels& table) {
  table.quantise = quantise;
  table.dot_f32 = dot_f32;
  table.f16_to_f32 = widen_f16;
}

}  // namespace ingot::cpu
