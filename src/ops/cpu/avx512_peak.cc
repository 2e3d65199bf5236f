// Peaks of AVX-512: u8 x s8 products by vpdpbusd, and fused multiply-adds, on registers
// alone.
#include <immintrin.h>

#include "ops/cpu/peak_chains.h"

namespace ingot::cpu {
namespace {

constexpr size_t kChains = 12;  // two a cycle, four or five cycles each

double int8_products(int64_t n) {
  constexpr double kProducts = 64;  // of one instruction
  const __m512i activations = _mm512_set1_epi8(-2);
  __m512i codes = _mm512_set1_epi8(3);
  run_chains<kChains, __m512i>(n, [&](__m512i sum) {
    asm volatile("" : "+v"(codes));  // may be anything: multiply anew
    return _mm512_dpbusd_epi32(sum, codes, activations);
  });
  return 2.0 * kProducts * kChains * double(n);
}

double f32_products(int64_t n) {
  constexpr double kProducts = 16;
  const __m512 activations = _mm512_set1_ps(0.25f);
  __m512 weights = _mm512_set1_ps(0.5f);
  run_chains<kChains, __m512>(n, [&](__m512 sum) {
    asm volatile("" : "+v"(weights));
    return _mm512_fmadd_ps(weights, activations, sum);
  });
  return 2.0 * kProducts * kChains * double(n);
}

}  // namespace

const PeakLoops& avx512_peak() {
  static const PeakLoops loops{read_lines, int8_products, f32_products};
  return loops;
}

}  // namespace ingot::cpu
