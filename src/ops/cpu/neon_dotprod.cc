// The integer kernel with dot product instructions; compiled with
// -march=armv8.2-a+dotprod.
#include "ops/cpu/neon_dot.h"

namespace ingot::cpu {
namespace {

struct Dotprod {
  static int32x4_t add(int32x4_t sum, int8x16_t a, int8x16_t b) {
    return vdotq_s32(sum, a, b);
  }
};

}  // namespace

DotInt8 neon_dotprod_int8() { return dot_int8_by<Dotprod>; }

}  // namespace ingot::cpu
