// Exact values of stored weights as float32: the definition of every quantised format
// (formats.md 3.4, 3.5), and the decomposition that the kernels compute with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ingot {

// Whether dequantize_row knows the type: float scalars (f64 is rounded), f4_e2m1 (low
// nibble first), and every ggml quantised type.  Not f6 (packing order unknown), not
// integers.
bool can_dequantize(DType type);

// out[i] = value of element i.  `source` holds out.size() values of `type`, any
// alignment. Requires: can_dequantize(type); out.size() is a multiple of the type's
// group.
void dequantize_row(DType type, const std::byte* source, std::span<float> out);

// Every ggml quantised type is integer codes under scales per run of 16 values:
//   value[i] = scale[i / 16] * code[i] + offset[i / 16]
// with scale and offset the format's own products of float16 and small integers, each
// rounded to float32.  Evaluated so, with two roundings and no fma, it gives the bits of
// dequantize_row and of ggml's reference (an offset of -0 keeps the sign of zero); with
// an fma it differs from them by at most half an ulp of the product.  A kernel that dots
// int8 activations y with scale sy needs only  sy * (scale * sum(code * y) + offset *
// sum(y)).
struct QuantGroup32 {
  int8_t code[32];  // -128..127
  float scale[2];
  float offset[2];  // -0.0f in types without one
};
// Fills n_values / 32 groups.
// Requires: is_quantised(type), n_values is a multiple of the type's group.
void unpack_groups(DType type, const std::byte* source, int64_t n_values,
                   QuantGroup32* out);

// Scalars of 8 and 4 bits.
float f8_e4m3_to_f32(uint8_t bits);      // "FN": no infinity, 0x7f and 0xff are NaN
float f8_e5m2_to_f32(uint8_t bits);      // IEEE-like: has infinity
float f8_e4m3fnuz_to_f32(uint8_t bits);  // 0x80 is NaN
float f8_e5m2fnuz_to_f32(uint8_t bits);  // 0x80 is NaN
float f8_e8m0_to_f32(uint8_t bits);      // 2^(bits - 127); 0xff is NaN
float f4_e2m1_to_f32(uint8_t code);      // Requires: code < 16.

}  // namespace ingot
