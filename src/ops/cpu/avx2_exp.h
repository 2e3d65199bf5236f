// exp of 8 lanes, and what is made of it.  Included only by cpu/avx2_*.cc.
//
// x = n ln 2 + r with |r| <= ln(2) / 2, exp(x) = 2^n (1 + p) with p = exp(r) - 1 by its
// series to r^7 (what is left out: 5e-9).  Errors against float64 are tested: exp 1.5
// ulp.
#pragma once

#include "ops/cpu/avx2.h"

namespace ingot::cpu {

struct ExpParts {
  __m256 n;  // whole
  __m256 p;  // exp(r) - 1
};

// x in -104 .. 89; `low` is what x lacks to the exact argument.
inline ExpParts exp_parts(__m256 x, __m256 low) {
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  // ln 2 in two parts, the first with 9 zero bits at its end: n times it is exact.
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
  r = _mm256_add_ps(r, low);
  __m256 series = _mm256_set1_ps(1.0f / 5040.0f);
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 720.0f));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 120.0f));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 24.0f));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(1.0f / 6.0f));
  series = _mm256_fmadd_ps(series, r, _mm256_set1_ps(0.5f));
  return {n, _mm256_fmadd_ps(_mm256_mul_ps(r, r), series, r)};
}

// 2^n for whole n in -126 .. 127.
inline __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

// Brings x into low .. high; NaN stays NaN (min and max return their second operand).
inline __m256 clamp(__m256 x, float low, float high) {
  return _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), x));
}

// exp(x + low) for any x: 0 below -104, infinity above 88.8.
inline __m256 exp_lanes(__m256 x, __m256 low) {
  const ExpParts parts = exp_parts(clamp(x, -104.0f, 89.0f), low);
  // 2^n in two steps, so that subnormal results and overflow come out by themselves.
  const __m256i n = _mm256_cvtps_epi32(parts.n);
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256 scaled =
      _mm256_mul_ps(_mm256_add_ps(parts.p, _mm256_set1_ps(1.0f)), power_of_two(half));
  return _mm256_mul_ps(scaled, power_of_two(_mm256_sub_epi32(n, half)));
}
inline __m256 exp_lanes(__m256 x) { return exp_lanes(x, _mm256_setzero_ps()); }

inline __m256 magnitude_of(__m256 x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

// tanh |x| = -q / (2 + q) with q = exp(-2 |x|) - 1, which does not cancel near 0.
inline __m256 tanh_lanes(__m256 x) {
  const __m256 y = _mm256_mul_ps(_mm256_set1_ps(-2.0f), magnitude_of(x));
  const ExpParts parts = exp_parts(clamp(y, -40.0f, 0.0f), _mm256_setzero_ps());
  const __m256 power = power_of_two(_mm256_cvtps_epi32(parts.n));
  const __m256 q =
      _mm256_fmadd_ps(power, parts.p, _mm256_sub_ps(power, _mm256_set1_ps(1.0f)));
  const __m256 sign = _mm256_and_ps(_mm256_set1_ps(-0.0f), x);
  const __m256 result = _mm256_div_ps(q, _mm256_add_ps(_mm256_set1_ps(2.0f), q));
  return _mm256_or_ps(sign, magnitude_of(result));
}

// x / (1 + exp(-z)), where z + low is the exact argument.
inline __m256 times_sigmoid(__m256 x, __m256 z, __m256 low) {
  const __m256 sign = _mm256_and_ps(_mm256_set1_ps(-0.0f), z);
  // e = exp(-|z|); for z < 0 the value is x e / (1 + e), which cannot overflow.
  const __m256 e =
      exp_lanes(_mm256_or_ps(_mm256_set1_ps(-0.0f), z),
                _mm256_xor_ps(_mm256_xor_ps(sign, _mm256_set1_ps(-0.0f)), low));
  const __m256 top = _mm256_blendv_ps(x, _mm256_mul_ps(x, e), z);
  return _mm256_div_ps(top, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

}  // namespace ingot::cpu
