// What the NEON files share.  Included only by cpu/neon_*.cc.
#pragma once

#include <arm_neon.h>

#include "ops/cpu/kernels.h"

namespace ingot::cpu {

using DotInt8 = void (*)(const TileGroup* w, const TileFormat& format, int n_groups,
                         const ActGroup* acts, size_t act_stride, int n_tokens,
                         float* acc);
DotInt8 neon_dot_int8();      // multiplies and adds pairs
DotInt8 neon_dotprod_int8();  // needs the dot product instructions; the same bits

void add_neon_matmul(Kernels& table);
void add_neon_attention(Kernels& table);
void add_neon_recurrent(Kernels& table);

}  // namespace ingot::cpu
