// Floats of 8 and 4 bits, widened (formats.md 1.2, 3.1).
#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A byte of sign, exponent and mantissa, with subnormals and without special values.
float minifloat(uint8_t bits, int mantissa_bits, int bias) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits & 0x7f) >> mantissa_bits;
  const int significand = exponent == 0 ? mantissa : mantissa | (1 << mantissa_bits);
  const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  const float magnitude = std::ldexp(float(significand), power);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace

float f8_e4m3_to_f32(uint8_t bits) {
  return (bits & 0x7f) == 0x7f ? kNaN : minifloat(bits, 3, 7);
}

// The upper half of a float16.
float f8_e5m2_to_f32(uint8_t bits) { return f16_to_f32(uint16_t(bits << 8)); }

float f8_e4m3fnuz_to_f32(uint8_t bits) {
  return bits == 0x80 ? kNaN : minifloat(bits, 3, 8);
}

float f8_e5m2fnuz_to_f32(uint8_t bits) {
  return bits == 0x80 ? kNaN : minifloat(bits, 2, 16);
}

float f8_e8m0_to_f32(uint8_t bits) {
  return bits == 0xff ? kNaN : std::ldexp(1.0f, int(bits) - 127);
}

float f4_e2m1_to_f32(uint8_t code) {
  constexpr float kMagnitude[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return (code & 8) != 0 ? -kMagnitude[code & 7] : kMagnitude[code & 7];
}

}  // namespace ingot
