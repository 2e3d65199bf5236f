// AVX2: sums of weighted rows, and the short convolution.  Every column is one chain of
// fma, in vectors and in the masked tail alike.
#include "ops/cpu/avx2.h"

namespace ingot::cpu {
namespace {

// `rows` rows of `vectors` times 8 columns, from column c on.
template <int rows, int vectors>
void add_columns(const WeightedSums& s, int r, int c) {
  __m256 sums[rows][vectors];
  float* out = s.out + r * s.out_step + c;
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v)
      sums[i][v] = _mm256_loadu_ps(out + i * s.out_step + v * kLanes);
  const float* weight = s.weights + r * s.row_step;
  const float* value = s.values + c;
  for (int j = 0; j < s.n_terms; ++j, weight += s.term_step, value += s.value_step) {
    __m256 values[vectors];
    for (int v = 0; v < vectors; ++v) values[v] = _mm256_loadu_ps(value + v * kLanes);
    for (int i = 0; i < rows; ++i) {
      const __m256 factor = _mm256_broadcast_ss(weight + i * s.row_step);
      for (int v = 0; v < vectors; ++v)
        sums[i][v] = _mm256_fmadd_ps(factor, values[v], sums[i][v]);
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < vectors; ++v)
      _mm256_storeu_ps(out + i * s.out_step + v * kLanes, sums[i][v]);
}

// The last dim % 8 columns.
template <int rows>
void add_tail(const WeightedSums& s, int r, int c) {
  const __m256i mask = lane_mask(s.dim - c);
  __m256 sums[rows];
  float* out = s.out + r * s.out_step + c;
  for (int i = 0; i < rows; ++i) sums[i] = _mm256_maskload_ps(out + i * s.out_step, mask);
  const float* weight = s.weights + r * s.row_step;
  const float* value = s.values + c;
  for (int j = 0; j < s.n_terms; ++j, weight += s.term_step, value += s.value_step) {
    const __m256 values = _mm256_maskload_ps(value, mask);
    for (int i = 0; i < rows; ++i)
      sums[i] =
          _mm256_fmadd_ps(_mm256_broadcast_ss(weight + i * s.row_step), values, sums[i]);
  }
  for (int i = 0; i < rows; ++i) _mm256_maskstore_ps(out + i * s.out_step, mask, sums[i]);
}

template <int rows, int vectors>
void add_some_rows(const WeightedSums& s, int r) {
  int c = 0;
  for (; c + vectors * kLanes <= s.dim; c += vectors * kLanes)
    add_columns<rows, vectors>(s, r, c);
  for (; c + kLanes <= s.dim; c += kLanes) add_columns<rows, 1>(s, r, c);
  if (c < s.dim) add_tail<rows>(s, r, c);
}

void add_weighted(const WeightedSums& s) {
  int r = 0;
  for (; r + 4 <= s.n_rows; r += 4) add_some_rows<4, 2>(s, r);
  for (; r + 2 <= s.n_rows; r += 2) add_some_rows<2, 4>(s, r);
  if (r < s.n_rows) add_some_rows<1, 8>(s, r);
}

void short_conv(const float* x, size_t x_step, const float* weight, int kernel, int n,
                float* out) {
  int c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(weight + c), _mm256_loadu_ps(x + c));
    for (int j = 1; j < kernel; ++j)
      sum = _mm256_fmadd_ps(_mm256_loadu_ps(weight + j * n + c),
                            _mm256_loadu_ps(x + size_t(j) * x_step + c), sum);
    _mm256_storeu_ps(out + c, sum);
  }
  for (; c < n; ++c) {
    float sum = weight[c] * x[c];
    for (int j = 1; j < kernel; ++j)
      sum = __builtin_fmaf(weight[j * n + c], x[size_t(j) * x_step + size_t(c)], sum);
    out[c] = sum;
  }
}

}  // namespace

void add_avx2_recurrent(Kernels& table) {
  table.add_weighted = add_weighted;
  table.short_conv = short_conv;
}

}  // namespace ingot::cpu
