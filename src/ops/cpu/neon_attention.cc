// NEON: scores and values of one page.
#include "ops/cpu/neon.h"

namespace ingot::cpu {
namespace {

// Lane j takes dimensions j, j + 4, ...; then the lanes; then the last dim % 4.
float dot(const float* a, const float* b, int dim) {
  float32x4_t lanes = vdupq_n_f32(0.0f);
  int i = 0;
  for (; i + 4 <= dim; i += 4)
    lanes = vfmaq_f32(lanes, vld1q_f32(a + i), vld1q_f32(b + i));
  float sum = vaddvq_f32(lanes);
  for (; i < dim; ++i) sum = __builtin_fmaf(a[i], b[i], sum);
  return sum;
}

void scores(const float* queries, int n_queries, const KvRun& run, int n_keys,
            float scale, float* out) {
  const auto* keys = reinterpret_cast<const float*>(run.data);
  const int dim = run.dim;
  for (int q = 0; q < n_queries; ++q)
    for (int j = 0; j < n_keys; ++j)
      out[q * kPageTokens + j] = dot(queries + q * dim, keys + j * dim, dim) * scale;
}

void accumulate(const float* weights, int n, const float* values, int dim, float rescale,
                float* acc) {
  int i = 0;
  for (; i + 4 <= dim; i += 4) {
    float32x4_t sum = vmulq_n_f32(vld1q_f32(acc + i), rescale);
    for (int j = 0; j < n; ++j)
      sum = vfmaq_n_f32(sum, vld1q_f32(values + j * dim + i), weights[j]);
    vst1q_f32(acc + i, sum);
  }
  for (; i < dim; ++i) {
    float sum = acc[i] * rescale;
    for (int j = 0; j < n; ++j)
      sum = __builtin_fmaf(weights[j], values[j * dim + i], sum);
    acc[i] = sum;
  }
}

void accumulate_run(const float* weights, int n_queries, const KvRun& run, int n,
                    const float* rescale, float* acc) {
  for (int q = 0; q < n_queries; ++q)
    accumulate(weights + q * kPageTokens, n, reinterpret_cast<const float*>(run.data),
               run.dim, rescale[q], acc + q * run.dim);
}

}  // namespace

void add_neon_attention(Kernels& table) {
  table.scores = scores;
  table.accumulate_run = accumulate_run;
  table.accumulate = accumulate;
}

}  // namespace ingot::cpu
