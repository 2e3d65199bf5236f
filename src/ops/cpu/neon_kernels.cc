// The NEON tables.  What they leave to the portable kernels, the compiler vectorises:
// NEON is part of every 64-bit Arm.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "ops/cpu/neon.h"

namespace ingot::cpu {
namespace {

Kernels neon_table(std::string_view isa, const NeonProducts& products) {
  Kernels t = scalar_kernels();
  t.isa = isa;
  add_neon_matmul(t);
  add_neon_unpack(t);
  add_neon_attention(t);
  add_neon_recurrent(t);
  t.dot_int8 = products.dot_int8;
  t.few_rows = products.few_rows;
  return t;
}

bool has_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_i8mm() { return has_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }

}  // namespace

const Kernels* neon_variant(std::string_view isa) {
  static const Kernels plain = neon_table("neon-plain", neon_plain());
  static const Kernels dotprod = neon_table("neon-dotprod", neon_dotprod());
  static const Kernels i8mm = neon_table("neon-i8mm", neon_i8mm());
  if (isa == plain.isa) return &plain;
  if (isa == dotprod.isa && has_dotprod()) return &dotprod;
  if (isa == i8mm.isa && has_i8mm()) return &i8mm;
  return nullptr;
}

const Kernels& neon_kernels() {
  for (const char* isa : {"neon-i8mm", "neon-dotprod"})
    if (const Kernels* table = neon_variant(isa)) return *table;
  return *neon_variant("neon-plain");
}

}  // namespace ingot::cpu
