// NEON: sums of weighted rows, and the short convolution.  Every column is one chain of
// fma, in vectors and in the tail alike.
#include "ops/cpu/neon.h"

namespace ingot::cpu {
namespace {

constexpr int kLanes = 4;

// `rows` rows of `vectors` times 4 columns, from column c on.
template <int rows, int vectors>
void add_columns(const WeightedSums& s, int r, int c) {
  float32x4_t sums[rows][vectors];
  float* out = s.out + r * s.out_step + c;
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v)
      sums[i][v] = vld1q_f32(out + i * s.out_step + v * kLanes);
  const float* weight = s.weights + r * s.row_step;
  const float* value = s.values + c;
  for (int j = 0; j < s.n_terms; ++j, weight += s.term_step, value += s.value_step)
    for (int v = 0; v < vectors; ++v) {
      const float32x4_t values = vld1q_f32(value + v * kLanes);
      for (int i = 0; i < rows; ++i)
        sums[i][v] = vfmaq_n_f32(sums[i][v], values, weight[i * s.row_step]);
    }
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v)
      vst1q_f32(out + i * s.out_step + v * kLanes, sums[i][v]);
}

void add_column(const WeightedSums& s, int r, int c) {
  float sum = s.out[r * s.out_step + c];
  for (int j = 0; j < s.n_terms; ++j)
    sum = __builtin_fmaf(s.weights[r * s.row_step + j * s.term_step],
                         s.values[j * s.value_step + c], sum);
  s.out[r * s.out_step + c] = sum;
}

template <int rows>
void add_some_rows(const WeightedSums& s, int r) {
  int c = 0;
  for (; c + 4 * kLanes <= s.dim; c += 4 * kLanes) add_columns<rows, 4>(s, r, c);
  for (; c + kLanes <= s.dim; c += kLanes) add_columns<rows, 1>(s, r, c);
  for (; c < s.dim; ++c)
    for (int i = 0; i < rows; ++i) add_column(s, r + i, c);
}

void add_weighted(const WeightedSums& s) {
  int r = 0;
  for (; r + 4 <= s.n_rows; r += 4) add_some_rows<4>(s, r);
  for (; r < s.n_rows; ++r) add_some_rows<1>(s, r);
}

void short_conv(const float* x, size_t x_step, const float* weight, int kernel, int n,
                float* out) {
  int c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    float32x4_t sum = vmulq_f32(vld1q_f32(weight + c), vld1q_f32(x + c));
    for (int j = 1; j < kernel; ++j)
      sum = vfmaq_f32(sum, vld1q_f32(weight + j * n + c),
                      vld1q_f32(x + size_t(j) * x_step + c));
    vst1q_f32(out + c, sum);
  }
  for (; c < n; ++c) {
    float sum = weight[c] * x[c];
    for (int j = 1; j < kernel; ++j)
      sum = __builtin_fmaf(weight[j * n + c], x[size_t(j) * x_step + size_t(c)], sum);
    out[c] = sum;
  }
}

}  // namespace

void add_neon_recurrent(Kernels& table) {
  table.add_weighted = add_weighted;
  table.short_conv = short_conv;
}

}  // namespace ingot::cpu
