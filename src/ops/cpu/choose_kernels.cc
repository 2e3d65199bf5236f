// Which table of kernels this machine runs.
#include "base/error.h"
#include "ops/cpu/kernels.h"

#if defined(__x86_64__)
#include "ops/cpu/x86_features.h"
#endif

namespace ingot::cpu {

std::vector<const Kernels*> kernel_tables() {
  std::vector<const Kernels*> tables = {&scalar_kernels()};
#if defined(__x86_64__)
  if (has_avx2()) tables.push_back(&avx2_kernels());
  if (has_avx512()) tables.push_back(&avx512_kernels());
  if (has_amx()) tables.push_back(&amx_kernels());
#elif defined(__aarch64__)
  tables.push_back(&neon_kernels());
#endif
  return tables;
}

const Kernels& choose_kernels(std::string_view isa) {
  const std::vector<const Kernels*> tables = kernel_tables();
  if (isa == "auto") return *tables.back();
#if defined(__aarch64__)
  if (isa == "neon") return neon_kernels();
  if (const Kernels* variant = neon_variant(isa); variant != nullptr) return *variant;
#endif
  std::string names = "auto";
  for (const Kernels* table : tables) {
    if (isa == table->isa) return *table;
    names += ", " + std::string(table->isa);
  }
  fail_usage("instruction set '{}': this machine has {}", isa, names);
}

}  // namespace ingot::cpu
