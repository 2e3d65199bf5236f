// Peaks of a machine without a vector instruction set that kernels use: plain products.
#include "ops/cpu/peak_chains.h"

namespace ingot::cpu {
namespace {

constexpr size_t kChains = 8;

double int8_products(int64_t n) {
  uint32_t code = 3, activation = 5;
  run_chains<kChains, uint32_t>(n, [&](uint32_t sum) {
    asm volatile("" : "+r"(code));  // may be anything: multiply anew
    return sum + code * activation;
  });
  return 2.0 * kChains * double(n);
}

double f32_products(int64_t n) {
  const float weight = 0.5f;
  float activation = 0.25f;
  run_chains<kChains, float>(n, [&](float sum) {
    asm volatile("" : "+m"(activation));
    return sum + weight * activation;
  });
  return 2.0 * kChains * double(n);
}

}  // namespace

const PeakLoops& scalar_peak() {
  static const PeakLoops loops{read_lines, int8_products, f32_products};
  return loops;
}

}  // namespace ingot::cpu
