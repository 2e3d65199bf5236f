// AVX2: activations and the soft cap.  A tail shorter than 8 lanes runs the same
// instructions under a mask, so an element's bits do not depend on where it stands.
#include "ops/cpu/avx2_exp.h"

namespace ingot::cpu {
namespace {

__m256 silu(__m256 x) { return times_sigmoid(x, x, _mm256_setzero_ps()); }

// x sigmoid(z), z = 2 sqrt(2 / pi) (x + 0.044715 x^3).  exp turns an absolute error of z
// into a relative one, so z is carried with what rounding took from it.
__m256 gelu_tanh(__m256 x) {
  constexpr double kLinear = 1.5957691216057308;   // 2 sqrt(2 / pi)
  constexpr double kCubic = 0.071354816272600018;  // 0.044715 times that
  const __m256 linear = _mm256_set1_ps(float(kLinear));
  const __m256 cubic = _mm256_set1_ps(float(kCubic));
  const __m256 a = clamp(x, -16.0f, 16.0f);  // beyond, sigmoid is 0 or 1
  const __m256 square = _mm256_mul_ps(a, a);
  const __m256 square_low = _mm256_fmsub_ps(a, a, square);
  const __m256 term = _mm256_mul_ps(cubic, square);
  __m256 low = _mm256_fmsub_ps(cubic, square, term);
  low = _mm256_fmadd_ps(cubic, square_low, low);
  low =
      _mm256_fmadd_ps(_mm256_set1_ps(float(kCubic - double(float(kCubic)))), square, low);
  low = _mm256_add_ps(low, _mm256_set1_ps(float(kLinear - double(float(kLinear)))));
  // Sum of term and linear, and its rounding error (two-sum).
  const __m256 slope = _mm256_add_ps(linear, term);
  const __m256 part = _mm256_sub_ps(slope, linear);
  const __m256 error = _mm256_add_ps(_mm256_sub_ps(linear, _mm256_sub_ps(slope, part)),
                                     _mm256_sub_ps(term, part));
  low = _mm256_add_ps(low, error);
  const __m256 z = _mm256_mul_ps(a, slope);
  const __m256 z_low = _mm256_fmadd_ps(a, low, _mm256_fmsub_ps(a, slope, z));
  return times_sigmoid(x, z, z_low);
}

// Phi(-a) = erfcx(a / sqrt 2) exp(-a^2 / 2) / 2 for a >= 0.  erfcx(y) = exp(y^2) erfc(y)
// is a polynomial in (y - 3) / (y + 3): least squares in relative error over y = 0
// .. 10.5, which leaves 2e-9.
__m256 normal_tail(__m256 a) {
  constexpr float kErfcx[] = {0x1.6e9828p-3f,  -0x1.4e102cp-2f, 0x1.f6ff1ep-3f,
                              -0x1.336fecp-3f, 0x1.258b34p-4f,  -0x1.8fab82p-6f,
                              0x1.17bd6p-8f,   0x1.76995ep-11f, -0x1.379ff2p-11f,
                              0x1.010e4cp-15f, 0x1.dcb2a2p-15f};
  const __m256 y = _mm256_mul_ps(a, _mm256_set1_ps(0.70710678118654752f));
  const __m256 three = _mm256_set1_ps(3.0f);
  const __m256 u = _mm256_div_ps(_mm256_sub_ps(y, three), _mm256_add_ps(y, three));
  __m256 erfcx = _mm256_set1_ps(kErfcx[10]);
  for (int i = 9; i >= 0; --i)
    erfcx = _mm256_fmadd_ps(erfcx, u, _mm256_set1_ps(kErfcx[i]));
  const __m256 square = _mm256_mul_ps(a, a);
  const __m256 low = _mm256_fmsub_ps(a, a, square);
  const __m256 half = _mm256_set1_ps(-0.5f);
  const __m256 e = exp_lanes(_mm256_mul_ps(half, square), _mm256_mul_ps(half, low));
  return _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(0.5f), erfcx), e);
}

__m256 gelu_erf(__m256 x) {
  const __m256 tail = normal_tail(clamp(magnitude_of(x), 0.0f, 14.8f));
  const __m256 weight =
      _mm256_blendv_ps(_mm256_sub_ps(_mm256_set1_ps(1.0f), tail), tail, x);
  return _mm256_mul_ps(x, weight);
}

__m256 sigmoid(__m256 x) {
  return times_sigmoid(_mm256_set1_ps(1.0f), x, _mm256_setzero_ps());
}

template <__m256 (*function)(__m256)>
void apply(float* x, int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    _mm256_storeu_ps(x + i, function(_mm256_loadu_ps(x + i)));
  const __m256i mask = lane_mask(n - i);
  if (i < n) _mm256_maskstore_ps(x + i, mask, function(_mm256_maskload_ps(x + i, mask)));
}

template <__m256 (*function)(__m256)>
void apply_gate(float* out, const float* gate, const float* up, int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    _mm256_storeu_ps(out + i, _mm256_mul_ps(function(_mm256_loadu_ps(gate + i)),
                                            _mm256_loadu_ps(up + i)));
  if (i == n) return;
  const __m256i mask = lane_mask(n - i);
  _mm256_maskstore_ps(out + i, mask,
                      _mm256_mul_ps(function(_mm256_maskload_ps(gate + i, mask)),
                                    _mm256_maskload_ps(up + i, mask)));
}

void activate(float* x, int n, Activation kind) {
  switch (kind) {
    case Activation::silu:
      return apply<silu>(x, n);
    case Activation::gelu_tanh:
      return apply<gelu_tanh>(x, n);
    case Activation::gelu_erf:
      return apply<gelu_erf>(x, n);
    case Activation::sigmoid:
      return apply<sigmoid>(x, n);
  }
}

void gate_rows(float* out, const float* gate, const float* up, int n, Activation kind) {
  switch (kind) {
    case Activation::silu:
      return apply_gate<silu>(out, gate, up, n);
    case Activation::gelu_tanh:
      return apply_gate<gelu_tanh>(out, gate, up, n);
    case Activation::gelu_erf:
      return apply_gate<gelu_erf>(out, gate, up, n);
    case Activation::sigmoid:
      return apply_gate<sigmoid>(out, gate, up, n);
  }
}

// NaN passes through every step: min and max return their second operand.
__m256 limited(__m256 gate, __m256 up, __m256 limit, __m256 alpha) {
  const __m256 g = _mm256_min_ps(limit, gate);
  const __m256 low_limit = _mm256_sub_ps(_mm256_setzero_ps(), limit);
  const __m256 u = _mm256_max_ps(low_limit, _mm256_min_ps(limit, up));
  const __m256 z = _mm256_mul_ps(alpha, g);
  // What rounding took from z; nothing where z may have overflowed: sigmoid is 0 there.
  const __m256 tame = _mm256_cmp_ps(magnitude_of(z), _mm256_set1_ps(1000.0f), _CMP_LT_OQ);
  const __m256 z_low = _mm256_and_ps(_mm256_fmsub_ps(alpha, g, z), tame);
  return _mm256_mul_ps(_mm256_add_ps(u, _mm256_set1_ps(1.0f)),
                       times_sigmoid(g, z, z_low));
}

void gate_limited(float* out, const float* gate, const float* up, int n, float limit,
                  float alpha) {
  const __m256 limits = _mm256_set1_ps(limit), alphas = _mm256_set1_ps(alpha);
  for (int i = 0; i < n; i += kLanes) {
    const __m256i mask = lane_mask(n - i);
    _mm256_maskstore_ps(out + i, mask,
                        limited(_mm256_maskload_ps(gate + i, mask),
                                _mm256_maskload_ps(up + i, mask), limits, alphas));
  }
}

void soft_cap(float* x, int n, float cap) {
  const __m256 caps = _mm256_set1_ps(cap);
  for (int i = 0; i < n; i += kLanes) {
    const __m256i mask = lane_mask(n - i);
    const __m256 ratio = _mm256_div_ps(_mm256_maskload_ps(x + i, mask), caps);
    _mm256_maskstore_ps(x + i, mask, _mm256_mul_ps(caps, tanh_lanes(ratio)));
  }
}

}  // namespace

void add_avx2_activations(Kernels& table) {
  table.activate = activate;
  table.gate = gate_rows;
  table.gate_limited = gate_limited;
  table.soft_cap = soft_cap;
}

}  // namespace ingot::cpu
