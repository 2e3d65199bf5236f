// Peaks of NEON with dot product instructions (four products a lane); compiled with
// -march=armv8.2-a+dotprod.
#include <arm_neon.h>

#include "ops/cpu/peak_chains.h"

namespace ingot::cpu {
namespace {

constexpr size_t kChains = 16;  // four a cycle, four cycles each

double int8_products(int64_t n) {
  constexpr double kProducts = 16;  // of one instruction
  const int8x16_t activations = vdupq_n_s8(-2);
  int8x16_t codes = vdupq_n_s8(3);
  run_chains<kChains, int32x4_t>(n, [&](int32x4_t sum) {
    asm volatile("" : "+w"(codes));  // may be anything: multiply anew
    return vdotq_s32(sum, codes, activations);
  });
  return 2.0 * kProducts * kChains * double(n);
}

double f32_products(int64_t n) {
  constexpr double kProducts = 4;
  const float32x4_t activations = vdupq_n_f32(0.25f);
  float32x4_t weights = vdupq_n_f32(0.5f);
  run_chains<kChains, float32x4_t>(n, [&](float32x4_t sum) {
    asm volatile("" : "+w"(weights));
    return vfmaq_f32(sum, weights, activations);
  });
  return 2.0 * kProducts * kChains * double(n);
}

}  // namespace

const PeakLoops& neon_peak() {
  static const PeakLoops loops{read_lines, int8_products, f32_products};
  return loops;
}

}  // namespace ingot::cpu
