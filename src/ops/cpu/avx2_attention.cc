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

// ---- rows of keys and values ----------------------------------------------------------

struct F32Rows {
  using Element = float;
  static __m256 load(const float* p) { return _mm256_loadu_ps(p); }
  static __m256 load_some(const float* p, int n) {
    return _mm256_maskload_ps(p, lane_mask(n));
  }
  static float value(float x) { return x; }
};
struct F16Rows {
  using Element = uint16_t;
  static __m256 load(const uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static __m256 load_some(const uint16_t* p, int n) {
    alignas(16) uint16_t some[kLanes] = {};
    __builtin_memcpy(some, p, size_t(n) * sizeof(uint16_t));
    return load(some);
  }
  static float value(uint16_t x) { return _cvtsh_ss(x); }
};

// How many of the queries left share the rows that are loaded.
int queries_together(int left) { return left == 4 ? 2 : left >= 3 ? 3 : left; }

// ---- scores -------------------------------------------------------------------------

// The sums of lanes of a, b, c and d, each by add_lanes' tree.
inline __m128 add_lanes_of_4(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20),
                                  _mm256_permute2f128_ps(a, b, 0x31));
  const __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20),
                                  _mm256_permute2f128_ps(c, d, 0x31));
  const __m256 two =  // a c | b d, two lanes each
      _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  const __m256 one =
      _mm256_add_ps(_mm256_shuffle_ps(two, two, 0x88), _mm256_shuffle_ps(two, two, 0xdd));
  return _mm_unpacklo_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1));
}

// n_q queries meet n_k keys.  Each pair has its own 8 lanes, lane j taking dimensions
// j, j + 8, ..., so that its bits do not depend on the pairs computed beside it.
template <typename Row, int n_q, int n_k>
void score_block(const float* q, const typename Row::Element* k, int dim, float scale,
                 float* out) {
  static_assert(n_k == 1 || n_k % 4 == 0);
  __m256 acc[n_q * n_k];  // pair (query a, key b) at b * n_q + a
#pragma GCC unroll 16
  for (int p = 0; p < n_q * n_k; ++p) acc[p] = _mm256_setzero_ps();
  int i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    __m256 query[n_q];
#pragma GCC unroll 4
    for (int a = 0; a < n_q; ++a) query[a] = _mm256_loadu_ps(q + a * dim + i);
#pragma GCC unroll 8
    for (int b = 0; b < n_k; ++b) {
      const __m256 key = Row::load(k + b * dim + i);
#pragma GCC unroll 4
      for (int a = 0; a < n_q; ++a)
        acc[b * n_q + a] = _mm256_fmadd_ps(query[a], key, acc[b * n_q + a]);
    }
  }
  if (i < dim) {
    const __m256i mask = lane_mask(dim - i);
#pragma GCC unroll 16
    for (int p = 0; p < n_q * n_k; ++p)
      acc[p] = _mm256_fmadd_ps(_mm256_maskload_ps(q + p % n_q * dim + i, mask),
                               Row::load_some(k + p / n_q * dim + i, dim - i), acc[p]);
  }
  if constexpr (n_k == 1) {
    for (int a = 0; a < n_q; ++a) out[a * kPageTokens] = add_lanes(acc[a]) * scale;
  } else {
#pragma GCC unroll 8
    for (int p = 0; p < n_q * n_k / 4; ++p) {
      const int a = p % n_q, b = p / n_q * 4;
      const __m128 four = add_lanes_of_4(acc[b * n_q + a], acc[(b + 1) * n_q + a],
                                         acc[(b + 2) * n_q + a], acc[(b + 3) * n_q + a]);
      _mm_storeu_ps(out + a * kPageTokens + b, _mm_mul_ps(four, _mm_set1_ps(scale)));
    }
  }
}

template <typename Row, int n_q>
void score_queries(const float* q, const typename Row::Element* keys, int n_keys, int dim,
                   float scale, float* out) {
  constexpr int kKeys = n_q == 1 ? 8 : 4;
  int j = 0;
  for (; j + kKeys <= n_keys; j += kKeys)
    score_block<Row, n_q, kKeys>(q, keys + j * dim, dim, scale, out + j);
  for (; j < n_keys; ++j)
    score_block<Row, n_q, 1>(q, keys + j * dim, dim, scale, out + j);
}

template <typename Row>
void score_all(const float* queries, int n_queries, const KvRun& run, int n_keys,
               float scale, float* out) {
  const auto* keys = reinterpret_cast<const typename Row::Element*>(run.data);
  int n = 0;
  for (int q = 0; q < n_queries; q += n) {
    n = queries_together(n_queries - q);
    const auto kernel = n == 3   ? score_queries<Row, 3>
                        : n == 2 ? score_queries<Row, 2>
                                 : score_queries<Row, 1>;
    kernel(queries + q * run.dim, keys, n_keys, run.dim, scale, out + q * kPageTokens);
  }
}

void scores(const float* queries, int n_queries, const KvRun& run, int n_keys,
            float scale, float* out) {
  if (run.type == KvType::f16)
    score_all<F16Rows>(queries, n_queries, run, n_keys, scale, out);
  else
    score_all<F32Rows>(queries, n_queries, run, n_keys, scale, out);
}

// ---- softmax and values -------------------------------------------------------------

// Lane j adds elements j, j + 8, ...; then the lanes.
float exp_sum(float* x, int n, float shift) {
  const __m256 shifts = _mm256_set1_ps(shift);
  __m256 total = _mm256_setzero_ps();
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 e = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(x + i), shifts));
    _mm256_storeu_ps(x + i, e);
    total = _mm256_add_ps(total, e);
  }
  if (i < n) {
    const __m256i mask = lane_mask(n - i);
    const __m256 e = exp_lanes(_mm256_sub_ps(_mm256_maskload_ps(x + i, mask), shifts));
    _mm256_maskstore_ps(x + i, mask, e);
    total = _mm256_add_ps(total, _mm256_and_ps(e, _mm256_castsi256_ps(mask)));
  }
  return add_lanes(total);
}

// n_q rows of acc, `vectors` times 8 dimensions each, take every value in order.
template <typename Row, int n_q, int vectors>
void accumulate_block(const float* weights, int n, const typename Row::Element* values,
                      int dim, const float* rescale, float* acc) {
  __m256 sums[vectors * n_q];  // of query i % n_q
#pragma GCC unroll 16
  for (int i = 0; i < vectors * n_q; ++i)
    sums[i] = _mm256_mul_ps(_mm256_loadu_ps(acc + i % n_q * dim + i / n_q * kLanes),
                            _mm256_set1_ps(rescale[i % n_q]));
  for (int j = 0; j < n; ++j) {
    __m256 weight[n_q];
#pragma GCC unroll 4
    for (int q = 0; q < n_q; ++q)
      weight[q] = _mm256_broadcast_ss(weights + q * kPageTokens + j);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const __m256 value = Row::load(values + j * dim + v * kLanes);
#pragma GCC unroll 4
      for (int q = 0; q < n_q; ++q)
        sums[v * n_q + q] = _mm256_fmadd_ps(weight[q], value, sums[v * n_q + q]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < vectors * n_q; ++i)
    _mm256_storeu_ps(acc + i % n_q * dim + i / n_q * kLanes, sums[i]);
}

template <typename Row, int n_q>
void accumulate_rows(const float* weights, int n, const typename Row::Element* values,
                     int dim, const float* rescale, float* acc) {
  constexpr int kVectors = n_q == 1 ? 8 : 4;
  int i = 0;
  for (; i + kVectors * kLanes <= dim; i += kVectors * kLanes)
    accumulate_block<Row, n_q, kVectors>(weights, n, values + i, dim, rescale, acc + i);
  for (; i + kLanes <= dim; i += kLanes)
    accumulate_block<Row, n_q, 1>(weights, n, values + i, dim, rescale, acc + i);
  for (; i < dim; ++i)
    for (int q = 0; q < n_q; ++q) {
      float sum = acc[q * dim + i] * rescale[q];
      for (int j = 0; j < n; ++j)
        sum = __builtin_fmaf(weights[q * kPageTokens + j],
                             Row::value(values[j * dim + i]), sum);
      acc[q * dim + i] = sum;
    }
}

template <typename Row>
void accumulate_all(const float* weights, int n_queries, const KvRun& run, int n,
                    const float* rescale, float* acc) {
  const auto* values = reinterpret_cast<const typename Row::Element*>(run.data);
  int count = 0;
  for (int q = 0; q < n_queries; q += count) {
    count = queries_together(n_queries - q);
    const auto kernel = count == 3   ? accumulate_rows<Row, 3>
                        : count == 2 ? accumulate_rows<Row, 2>
                                     : accumulate_rows<Row, 1>;
    kernel(weights + q * kPageTokens, n, values, run.dim, rescale + q, acc + q * run.dim);
  }
}

void accumulate_run(const float* weights, int n_queries, const KvRun& values, int n,
                    const float* rescale, float* acc) {
  if (values.type == KvType::f16)
    accumulate_all<F16Rows>(weights, n_queries, values, n, rescale, acc);
  else
    accumulate_all<F32Rows>(weights, n_queries, values, n, rescale, acc);
}

void accumulate(const float* weights, int n, const float* values, int dim, float rescale,
                float* acc) {
  accumulate_rows<F32Rows, 1>(weights, n, values, dim, &rescale, acc);
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
  table.reads_f16_runs = true;
  table.scores = scores;
  table.accumulate_run = accumulate_run;
  table.exp_sum = exp_sum;
  table.accumulate = accumulate;
  table.store = store;
}

}  // namespace ingot::cpu
