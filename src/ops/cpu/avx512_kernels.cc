// The AVX-512 table: AVX2's, with wider products where they pay.
#include "ops/cpu/avx512.h"

namespace ingot::cpu {

const Kernels& avx512_kernels() {
  static const Kernels table = [] {
    Kernels t = avx2_kernels();
    t.isa = "avx512";
    add_avx512_matmul(t);
    add_avx512_few_rows(t);
    return t;
  }();
  return table;
}

}  // namespace ingot::cpu
