// Peaks of AVX2 and FMA: u8 x s8 products by maddubs, madd and a 32-bit add, and fused
// multiply-adds, on registers alone.
#include <immintrin.h>

#include "ops/cpu/peak_chains.h"

namespace ingot::cpu {
namespace {

constexpr size_t kIntChains = 6;     // a product each a cycle at most
constexpr size_t kFloatChains = 12;  // two a cycle, four or five cycles each

double int8_products(int64_t n) {
  constexpr double kProducts = 32;  // of one instruction
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i activations = _mm256_set1_epi8(-2);
  __m256i codes = _mm256_set1_epi8(3);
  run_chains<kIntChains, __m256i>(n, [&](__m256i sum) {
    asm volatile("" : "+x"(codes));  // may be anything: multiply anew
    const __m256i pairs = _mm256_maddubs_epi16(codes, activations);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
  });
  return 2.0 * kProducts * kIntChains * double(n);
}

double f32_products(int64_t n) {
  constexpr double kProducts = 8;
  const __m256 activations = _mm256_set1_ps(0.25f);
  __m256 weights = _mm256_set1_ps(0.5f);
  run_chains<kFloatChains, __m256>(n, [&](__m256 sum) {
    asm volatile("" : "+x"(weights));
    return _mm256_fmadd_ps(weights, activations, sum);
  });
  return 2.0 * kProducts * kFloatChains * double(n);
}

}  // namespace

const PeakLoops& avx2_peak() {
  static const PeakLoops loops{read_lines, int8_products, f32_products};
  return loops;
}

}  // namespace ingot::cpu
