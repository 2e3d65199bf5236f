// Dot product instructions: 4 products a lane; compiled with -march=armv8.2-a+dotprod.
#include "ops/cpu/neon_few_rows.h"

namespace ingot::cpu {
namespace {

struct Dotprod {
  template <bool small, int v>
  static int32x4_t two(int32x4_t sum, int8x16_t a, int8x16_t b, int8x16_t y) {
    return vdotq_laneq_s32(vdotq_laneq_s32(sum, a, y, v), b, y, v + 1);
  }
};

}  // namespace

NeonProducts neon_dotprod() {
  return {dot_int8_by<ByRows<Dotprod>>, choose_few_rows<Dotprod>};
}

}  // namespace ingot::cpu
