// The AVX2 table; needs FMA and F16C beside it.
#include "ops/cpu/avx2.h"

namespace ingot::cpu {

const Kernels& avx2_kernels() {
  static const Kernels table = [] {
    Kernels t = scalar_kernels();
    t.isa = "avx2";
    add_avx2_matmul(t);
    add_avx2_few_rows(t);
    add_avx2_unpack(t);
    add_avx2_rows(t);
    add_avx2_activations(t);
    add_avx2_attention(t);
    add_avx2_recurrent(t);
    return t;
  }();
  return table;
}

}  // namespace ingot::cpu
