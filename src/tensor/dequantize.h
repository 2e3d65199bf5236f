// Exact values of stored weights as float32: the definition of every quantised format
// (formats.md 3.4, 3.5), and the decomposition that the kernels compute with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ingot {

// out[i] = value of element i.  `source` holds out.size() values of `type`, any alignment.
// Requires: type is a float scalar or a ggml quantised type; out.size() fits its group.
void dequantize_row(DType type, const std::byte* source, std::span<float> out);

// Every ggml quantised type is, exactly, integer codes under scales per run of 16 values:
//   value[i] = scale[i / 16] * code[i] + offset[i / 16]
// with code in -128..127 (scale and offset are float32; products of the format's own
// float16 scale and small integers, rounded once).  A kernel that dots int8 activations y
// with scale sy needs only  scale * sum(code * y) + offset * sum(y).
struct QuantGroup32 {
  int8_t code[32];
  float scale[2];
  float offset[2];
};
// Fills n_values / 32 groups.  Requires: is_quantised(type), n_values fits its group.
void unpack_groups(DType type, const std::byte* source, int64_t n_values, QuantGroup32* out);

}  // namespace ingot
