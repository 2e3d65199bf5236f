// An MLX-quantised matrix: codes packed in little-endian 32-bit words, one scale (and in
// affine mode one bias) per group of columns (formats.md 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/dtype.h"

namespace ingot {

enum class AffineMode : uint8_t {
  affine,  // value = scale * code + bias, scale and bias of dtype `scale_dtype`
  mxfp4,   // value = 2^(scale - 127) * E2M1[code], uint8 scales, no biases, group 32
  mxfp8,   // value = 2^(scale - 127) * E4M3[code], otherwise as mxfp4
  nvfp4,   // value = E4M3[scale] * E2M1[code], uint8 scales, no biases, group 16
};
std::string_view name(AffineMode mode);

// A view of the stored tensors; owns nothing.
struct AffineMatrix {
  AffineMode mode = AffineMode::affine;
  int bits = 4;         // affine: 2, 3, 4, 5, 6 or 8; mxfp8: 8; the others: 4
  int group_size = 64;  // columns that share a scale
  int n_rows = 0;
  int n_cols = 0;
  DType scale_dtype = DType::f32;  // f32, f16 or bf16 (affine); u8
  std::span<const std::byte> codes =
      {};  // [n_rows, n_cols * bits / 32] u32, may be unaligned
  std::span<const std::byte> scales = {};  // [n_rows, n_cols / group_size]
  std::span<const std::byte> biases = {};  // same shape as scales; affine mode only

  int groups_per_row() const { return n_cols / group_size; }
};

// Exact values of one row, as the format defines them, in float32: scale times code is
// rounded, then the sum with the bias.
void dequantize_affine_row(const AffineMatrix& matrix, int row, std::span<float> out);

// The same row taken apart.  codes[n_cols]: unsigned, as stored (affine: 0 .. 2^bits -
// 1).
void unpack_affine_codes(const AffineMatrix& matrix, int row, std::span<uint8_t> codes);
// scales[groups_per_row()], widened; biases likewise, or empty where the mode has none.
void unpack_affine_scales(const AffineMatrix& matrix, int row, std::span<float> scales,
                          std::span<float> biases);

// What an fp4 code stands for, doubled so that it is an integer: 0, 1, 2, 3, 4, 6, 8, 12
// and their negatives.  A kernel halves the scale instead.
inline constexpr int8_t kE2m1Doubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace ingot
