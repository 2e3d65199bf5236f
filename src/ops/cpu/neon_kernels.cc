// The NEON table.  What it leaves to the portable kernels, the compiler vectorises: NEON
// is part of every 64-bit Arm.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "ops/cpu/neon.h"

namespace ingot::cpu {

const Kernels& neon_kernels() {
  static const Kernels table = [] {
    Kernels t = scalar_kernels();
    t.isa = "neon";
    add_neon_matmul(t);
    add_neon_attention(t);
    add_neon_recurrent(t);
    const bool dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    t.dot_int8 = dotprod ? neon_dotprod_int8() : neon_dot_int8();
    return t;
  }();
  return table;
}

}  // namespace ingot::cpu
