// Which table of kernels this machine runs.
#include "base/error.h"
#include "ops/cpu/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ingot::cpu {
namespace {

#if defined(__x86_64__)
// FMA and F16C have no name in g++ 12's __builtin_cpu_supports that clang 14 shares.
bool has_fma_and_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  return (c & bit_FMA) != 0 && (c & bit_F16C) != 0;
}

// __builtin_cpu_supports also asks whether the system saves the wide registers.
const Kernels* vector_kernels() {
  return __builtin_cpu_supports("avx2") && has_fma_and_f16c() ? &avx2_kernels() : nullptr;
}
#elif defined(__aarch64__)
const Kernels* vector_kernels() { return &neon_kernels(); }
#else
const Kernels* vector_kernels() { return nullptr; }
#endif

}  // namespace

const Kernels& choose_kernels(std::string_view isa) {
  const Kernels* vector = vector_kernels();
  if (isa == "auto") return vector != nullptr ? *vector : scalar_kernels();
  if (isa == "scalar") return scalar_kernels();
#if defined(__aarch64__)
  if (isa == "neon") return neon_kernels();
  if (const Kernels* variant = neon_variant(isa); variant != nullptr) return *variant;
#endif
  if (vector != nullptr && isa == vector->isa) return *vector;
  fail_usage("instruction set '{}': this machine has auto, scalar{}{}", isa,
             vector != nullptr ? ", " : "", vector != nullptr ? vector->isa : "");
}

}  // namespace ingot::cpu
