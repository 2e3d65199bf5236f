// AVX2: rows of floats.  Element-wise loops are left to the compiler, which vectorises
// them with this file's flags; every element's arithmetic is the same in body and tail.
#include "ops/cpu/avx2.h"

namespace ingot::cpu {
namespace {

double add_lanes_pd(__m256d v) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

// In double: lane j adds elements j, j + 8, ...; then the lanes; then the last n % 8.
double sum(const float* x, int n) {
  __m256d low = _mm256_setzero_pd(), high = low;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm_loadu_ps(x + i)));
    high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4)));
  }
  double total = add_lanes_pd(_mm256_add_pd(low, high));
  for (; i < n; ++i) total += double(x[i]);
  return total;
}

double sum_squares(const float* x, int n, double mean) {
  const __m256d shift = _mm256_set1_pd(mean);
  __m256d low = _mm256_setzero_pd(), high = low;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256d a = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i)), shift);
    const __m256d b = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i + 4)), shift);
    low = _mm256_fmadd_pd(a, a, low);
    high = _mm256_fmadd_pd(b, b, high);
  }
  double total = add_lanes_pd(_mm256_add_pd(low, high));
  for (; i < n; ++i) {
    const double d = double(x[i]) - mean;
    total += d * d;
  }
  return total;
}

void scale_rows(float* out, const float* x, float scale, const float* weight, int n) {
  for (int i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void normalise(float* out, const float* x, float mean, float scale, const float* weight,
               const float* bias, int n) {
  for (int i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

void add(float* x, const float* h, int n) {
  for (int i = 0; i < n; ++i) x[i] += h[i];
}

bool all_finite(const float* x, int n) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    largest = _mm256_max_epu32(largest, _mm256_and_si256(load_bytes(x + i), magnitude));
  const __m256i tail = _mm256_castps_si256(_mm256_maskload_ps(x + i, lane_mask(n - i)));
  largest = _mm256_max_epu32(largest, _mm256_and_si256(tail, magnitude));
  const __m256i bad = _mm256_cmpgt_epi32(largest, _mm256_set1_epi32(0x7f7fffff));
  return _mm256_testz_si256(bad, bad) != 0;
}

// Passes over NaN: max(x, m) is m when x is NaN.
float max(const float* x, int n) {
  __m256 largest = _mm256_set1_ps(-__builtin_inff());
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    largest = _mm256_max_ps(_mm256_loadu_ps(x + i), largest);
  float lanes[kLanes];
  _mm256_storeu_ps(lanes, largest);
  float result = lanes[0];
  for (float lane : lanes) result = lane > result ? lane : result;
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

int argmax(const float* x, int n) {
  const __m256 largest = _mm256_set1_ps(max(x, n));
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 equal = _mm256_cmp_ps(_mm256_loadu_ps(x + i), largest, _CMP_EQ_OQ);
    const int lanes = _mm256_movemask_ps(equal);
    if (lanes != 0) return i + __builtin_ctz(unsigned(lanes));
  }
  for (; i < n; ++i)
    if (x[i] == _mm256_cvtss_f32(largest)) return i;
  return -1;
}

}  // namespace

void add_avx2_rows(Kernels& table) {
  table.sum = sum;
  table.sum_squares = sum_squares;
  table.scale_rows = scale_rows;
  table.normalise = normalise;
  table.add = add;
  table.all_finite = all_finite;
  table.max = max;
  table.argmax = argmax;
}

}  // namespace ingot::cpu
