// NEON: scores and values of one page.  Rows of float16 are read as they lie.
#include "ops/cpu/neon.h"

namespace ingot::cpu {
namespace {

constexpr int kLanes = 4;

// ---- rows of keys and values --------------------------------------------------------

struct F32Rows {
  using Element = float;
  static float32x4_t load(const float* p) { return vld1q_f32(p); }
  static float value(float x) { return x; }
};
struct F16Rows {
  using Element = uint16_t;
  static float32x4_t load(const uint16_t* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
  }
  static float value(uint16_t x) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(x))), 0);
  }
};

// ---- scores -------------------------------------------------------------------------

// n_q queries meet n_k keys.  Each pair has its own 4 lanes, lane j taking dimensions j,
// j + 4, ...; then the lanes, (0 + 1) + (2 + 3); then the last dim % 4 in order.  So its
// bits do not depend on the pairs computed beside it.
template <typename Row, int n_q, int n_k>
void score_block(const float* q, const typename Row::Element* k, int dim, float scale,
                 float* out) {
  float32x4_t lanes[n_q * n_k];  // pair (query a, key b) at b * n_q + a
#pragma GCC unroll 12
  for (int p = 0; p < n_q * n_k; ++p) lanes[p] = vdupq_n_f32(0.0f);
  int i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    float32x4_t query[n_q];
#pragma GCC unroll 4
    for (int a = 0; a < n_q; ++a) query[a] = vld1q_f32(q + a * dim + i);
#pragma GCC unroll 8
    for (int b = 0; b < n_k; ++b) {
      const float32x4_t key = Row::load(k + b * dim + i);
#pragma GCC unroll 4
      for (int a = 0; a < n_q; ++a)
        lanes[b * n_q + a] = vfmaq_f32(lanes[b * n_q + a], query[a], key);
    }
  }
#pragma GCC unroll 12
  for (int p = 0; p < n_q * n_k; ++p) {
    const int a = p % n_q, b = p / n_q;
    float sum = vaddvq_f32(lanes[p]);
    for (int j = i; j < dim; ++j)
      sum = __builtin_fmaf(q[a * dim + j], Row::value(k[b * dim + j]), sum);
    out[a * kPageTokens + b] = sum * scale;
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

// Calls run(first, n) for blocks of 3 queries, then 2, then 1, as a constant.
template <int n>
struct Count {
  static constexpr int value = n;
};
template <typename Run>
void for_queries(int n_queries, const Run& run) {
  int q = 0;
  for (; n_queries - q >= 3 && n_queries - q != 4; q += 3) run(q, Count<3>{});
  for (; n_queries - q >= 2; q += 2) run(q, Count<2>{});
  if (q < n_queries) run(q, Count<1>{});
}

template <typename Row>
void score_all(const float* queries, int n_queries, const KvRun& run, int n_keys,
               float scale, float* out) {
  const auto* keys = reinterpret_cast<const typename Row::Element*>(run.data);
  for_queries(n_queries, [&](int q, auto n) {
    score_queries<Row, n.value>(queries + q * run.dim, keys, n_keys, run.dim, scale,
                                out + q * kPageTokens);
  });
}

void scores(const float* queries, int n_queries, const KvRun& run, int n_keys,
            float scale, float* out) {
  if (run.type == KvType::f16)
    score_all<F16Rows>(queries, n_queries, run, n_keys, scale, out);
  else
    score_all<F32Rows>(queries, n_queries, run, n_keys, scale, out);
}

// ---- values -------------------------------------------------------------------------

// n_q rows of acc, `vectors` times 4 dimensions each, take every value in order.
template <typename Row, int n_q, int vectors>
void accumulate_block(const float* weights, int n, const typename Row::Element* values,
                      int dim, const float* rescale, float* acc) {
  float32x4_t sums[vectors * n_q];  // of query i % n_q
#pragma GCC unroll 12
  for (int i = 0; i < vectors * n_q; ++i)
    sums[i] =
        vmulq_n_f32(vld1q_f32(acc + i % n_q * dim + i / n_q * kLanes), rescale[i % n_q]);
  for (int j = 0; j < n; ++j)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const float32x4_t value = Row::load(values + j * dim + v * kLanes);
#pragma GCC unroll 4
      for (int q = 0; q < n_q; ++q)
        sums[v * n_q + q] =
            vfmaq_n_f32(sums[v * n_q + q], value, weights[q * kPageTokens + j]);
    }
#pragma GCC unroll 12
  for (int i = 0; i < vectors * n_q; ++i)
    vst1q_f32(acc + i % n_q * dim + i / n_q * kLanes, sums[i]);
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
  for_queries(n_queries, [&](int q, auto count) {
    accumulate_rows<Row, count.value>(weights + q * kPageTokens, n, values, run.dim,
                                      rescale + q, acc + q * run.dim);
  });
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

}  // namespace

void add_neon_attention(Kernels& table) {
  table.reads_f16_runs = true;
  table.scores = scores;
  table.accumulate_run = accumulate_run;
  table.accumulate = accumulate;
}

}  // namespace ingot::cpu
