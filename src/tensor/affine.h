// An MLX-style affine-quantised matrix: unsigned codes packed in little-endian 32-bit
// words, one scale and one bias per group of columns (formats.md 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ingot {

enum class AffineMode : uint8_t {
  affine,  // value = scale * code + bias, scale and bias of dtype `scale_dtype`
  mxfp4,   // value = 2^(scale - 127) * E2M1[code], uint8 scales, no biases, group 32
};

// A view of the stored tensors; owns nothing.
struct AffineMatrix {
  AffineMode mode = AffineMode::affine;
  int bits = 4;        // 2, 3, 4, 5, 6 or 8
  int group_size = 64; // columns that share a scale
  int n_rows = 0;
  int n_cols = 0;
  DType scale_dtype = DType::f32;     // f32, f16 or bf16 (affine)
  std::span<const std::byte> codes;   // [n_rows, n_cols * bits / 32] u32, may be unaligned
  std::span<const std::byte> scales;  // [n_rows, n_cols / group_size]
  std::span<const std::byte> biases;  // same shape as scales; empty for mxfp4
};

// Exact values of one row, as the format defines them, in float32.
void dequantize_affine_row(const AffineMatrix& matrix, int row, std::span<float> out);

}  // namespace ingot
