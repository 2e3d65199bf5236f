// AVX2: attention over one page, and how keys and values are stored.
#include "ops/cpu/avx2_exp.h"

namespace ingot::cpu {
namespace {

// ---- reading pages ------------------------------------------------------------------

void widen_q8(const KvRun& run, int n, float* out) {
  const auto* codes = reinterpret_cast<const int8_t*>(run.data);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < run.dim; ++i) {
      const size_t at = size_t(j) * size_t(run.dim) + size_t(i);
      out[at] = run.scales[j] * float(codes[at]);
    }
}

void widen_kv(const KvRun& run, int n, float* out) {
  if (run.type == KvType::q8) return widen_q8(run, n, out);
  const auto* source = reinterpret_cast<const uint16_t*>(run.data);
  const Kernels& table = avx2_kernels();
  const int count = n * run.dim;
  if (run.type == KvType::f16)
    table.f16_to_f32(source, count, out);
  else if (run.type == KvType::bf16)
    table.bf16_to_f32(source, count, out);
  else
    __builtin_memcpy(out, run.data, size_t(count) * sizeof(float));
}

// ---- scores -------------------------------------------------------------------------

// n_q queries meet n_k keys.  Each pair has its own 8 lanes, lane j taking dimensions
// j, j + 8, ..., so that its bits do not depend on the pairs computed beside it.
template <int n_q, int n_k>
void score_block(const float* q, const float* k, int dim, float scale, float* out) {
  __m256 acc[n_q][n_k];
  for (int a = 0; a < n_q; ++a)
    for (int b = 0; b < n_k; ++b) acc[a][b] = _mm256_setzero_ps();
  int i = 0;
  for (; i + kLanes <= dim; i += kLanes)
    for (int a = 0; a < n_q; ++a) {
      const __m256 query = _mm256_loadu_ps(q + a * dim + i);
      for (int b = 0; b < n_k; ++b)
        acc[a][b] = _mm256_fmadd_ps(query, _mm256_loadu_ps(k + b * dim + i), acc[a][b]);
    }
  if (i < dim) {
    const __m256i mask = lane_mask(dim - i);
    for (int a = 0; a < n_q; ++a) {
      const __m256 query = _mm256_maskload_ps(q + a * dim + i, mask);
      for (int b = 0; b < n_k; ++b)
        acc[a][b] =
            _mm256_fmadd_ps(query, _mm256_maskload_ps(k + b * dim + i, mask), acc[a][b]);
    }
  }
  for (int a = 0; a < n_q; ++a)
    for (int b = 0; b < n_k; ++b) out[a * kPageTokens + b] = add_lanes(acc[a][b]) * scale;
}

template <int n_q>
void score_queries(const float* q, const float* keys, int n_keys, int dim, float scale,
                   float* out) {
  constexpr int kKeys = n_q == 1 ? 8 : 4;
  int j = 0;
  for (; j + kKeys <= n_keys; j += kKeys)
    score_block<n_q, kKeys>(q, keys + j * dim, dim, scale, out + j);
  for (; j < n_keys; ++j) score_block<n_q, 1>(q, keys + j * dim, dim, scale, out + j);
}

void scores(const float* queries, int n_queries, const float* keys, int n_keys, int dim,
            float scale, float* out) {
  int q = 0;
  for (; q + 2 <= n_queries; q += 2)
    score_queries<2>(queries + q * dim, keys, n_keys, dim, scale, out + q * kPageTokens);
  if (q < n_queries)
    score_queries<1>(queries + q * dim, keys, n_keys, dim, scale, out + q * kPageTokens);
}

// ---- softmax and values -------------------------------------------------------------

// Lane j adds elements j, j + 8, ...; then the lanes.
float exp_sum(float* x, int n, float shift) {
  const __m256 shifts = _mm256_set1_ps(shift);
  __m256 total = _mm256_setzero_ps();
  for (int i = 0; i < n; i += kLanes) {
    const __m256i mask = lane_mask(n - i);
    const __m256 e = exp_lanes(_mm256_sub_ps(_mm256_maskload_ps(x + i, mask), shifts));
    _mm256_maskstore_ps(x + i, mask, e);
    total = _mm256_add_ps(total, _mm256_and_ps(e, _mm256_castsi256_ps(mask)));
  }
  return add_lanes(total);
}

// `vectors` times 8 dimensions of acc, every value in order.
template <int vectors>
void accumulate_columns(const float* weights, int n, const float* values, int dim,
                        float rescale, float* acc) {
  __m256 sums[vectors];
  for (int v = 0; v < vectors; ++v)
    sums[v] = _mm256_mul_ps(_mm256_loadu_ps(acc + v * kLanes), _mm256_set1_ps(rescale));
  for (int j = 0; j < n; ++j) {
    const __m256 weight = _mm256_broadcast_ss(weights + j);
    const float* value = values + j * dim;
    for (int v = 0; v < vectors; ++v)
      sums[v] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(value + v * kLanes), sums[v]);
  }
  for (int v = 0; v < vectors; ++v) _mm256_storeu_ps(acc + v * kLanes, sums[v]);
}

void accumulate(const float* weights, int n, const float* values, int dim, float rescale,
                float* acc) {
  int i = 0;
  for (; i + 8 * kLanes <= dim; i += 8 * kLanes)
    accumulate_columns<8>(weights, n, values + i, dim, rescale, acc + i);
  for (; i + kLanes <= dim; i += kLanes)
    accumulate_columns<1>(weights, n, values + i, dim, rescale, acc + i);
  for (; i < dim; ++i) {
    float sum = acc[i] * rescale;
    for (int j = 0; j < n; ++j)
      sum = __builtin_fmaf(weights[j], values[j * dim + i], sum);
    acc[i] = sum;
  }
}

// ---- storing ------------------------------------------------------------------------

float store(const float* x, int n, KvType type, std::byte* out) {
  if (type != KvType::f16) return scalar_kernels().store(x, n, type, out);
  auto* halves = reinterpret_cast<__m128i*>(out);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    _mm_storeu_si128(halves + i / kLanes,
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  return scalar_kernels().store(x + i, n - i, type, out + size_t(i) * sizeof(uint16_t));
}

}  // namespace

void add_avx2_attention(Kernels& table) {
  table.widen_kv = widen_kv;
  table.scores = scores;
  table.exp_sum = exp_sum;
  table.accumulate = accumulate;
  table.store = store;
}

}  // namespace ingot::cpu
