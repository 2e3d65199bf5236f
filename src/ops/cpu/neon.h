// What the NEON files share.  Included only by cpu/neon_*.cc.
#pragma once

#include <arm_neon.h>

#include "ops/cpu/kernels.h"

namespace ingot::cpu {

// What differs between the variants: the instructions that multiply bytes.  Whole numbers
// are exact, so all of them give the same bits.
struct NeonProducts {
  decltype(Kernels::dot_int8) dot_int8;
  decltype(Kernels::few_rows) few_rows;
};
NeonProducts neon_plain();
NeonProducts neon_dotprod();  // needs the dot product instructions
NeonProducts neon_i8mm();     // needs those and the matrix ones

FewRows neon_few_floats(const WeightSegment& segment);  // null when it has codes

void add_neon_matmul(Kernels& table);
void add_neon_unpack(Kernels& table);
void add_neon_attention(Kernels& table);
void add_neon_recurrent(Kernels& table);

}  // namespace ingot::cpu
