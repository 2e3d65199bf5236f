// Products of bytes that every 64-bit Arm has: they are 16 bits wide.
#include "ops/cpu/neon_few_rows.h"

namespace ingot::cpu {
namespace {

struct Pairs {
  // Activations 4 v .. 4 v + 3 meet each of 4 weight rows.
  template <int v>
  static int8x16_t four(int8x16_t y) {
    return vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(y), v));
  }
  // Adds chunks v and v + 1.  Sums of 2 products of signed codes, 2 * 128 * 127, and of 4
  // of codes below 64 fit 16 bits.
  template <bool small, int v>
  static int32x4_t two(int32x4_t sum, int8x16_t a, int8x16_t b, int8x16_t y) {
    const int8x16_t ya = four<v>(y), yb = four<v + 1>(y);
    int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(ya));
    int16x8_t high = vmull_high_s8(a, ya);
    if constexpr (small) {
      low = vmlal_s8(low, vget_low_s8(b), vget_low_s8(yb));
      high = vmlal_high_s8(high, b, yb);
    } else {
      sum = vpadalq_s16(sum, vpaddq_s16(low, high));
      low = vmull_s8(vget_low_s8(b), vget_low_s8(yb));
      high = vmull_high_s8(b, yb);
    }
    return vpadalq_s16(sum, vpaddq_s16(low, high));
  }
};

}  // namespace

NeonProducts neon_plain() { return {dot_int8_by<ByRows<Pairs>>, choose_few_rows<Pairs>}; }

}  // namespace ingot::cpu
