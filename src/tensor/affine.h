// A matrix of codes under scales, one per row and group of columns: what MLX writes
// (formats.md 4), and what the other schemes of safetensors are read as (5, 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace ingot {

enum class AffineMode : uint8_t {
  affine,      // value = scale * code + bias, scale and bias of dtype `scale_dtype`
  mxfp4,       // value = 2^(scale - 127) * E2M1[code], uint8 scales, no biases, group 32
  mxfp8,       // value = 2^(scale - 127) * E4M3[code], otherwise as mxfp4
  nvfp4,       // value = E4M3[scale] * E2M1[code], uint8 scales, no biases, group 16
  zero_point,  // value = scale * (code - zero), uint8 zeros in place of the biases
  e4m3,        // value = scale * E4M3[code], no biases, any group
};
std::string_view name(AffineMode mode);

// A view of the stored tensors; owns nothing.
struct AffineMatrix {
  AffineMode mode = AffineMode::affine;
  int bits = 4;         // affine, zero_point: 2, 3, 4, 5, 6 or 8; *fp8, e4m3: 8; *fp4: 4
  int group_size = 64;  // columns that share a scale; zero_point, e4m3: the last may be
                        // shorter
  int n_rows = 0;
  int n_cols = 0;
  DType scale_dtype = DType::f32;          // f32, f16 or bf16; u8 in MLX's float modes
  std::span<const std::byte> codes = {};   // [n_rows, n_cols * bits / 8 rounded up] u8
  std::span<const std::byte> scales = {};  // [n_rows, groups_per_row()]
  std::span<const std::byte> biases = {};  // same shape, or empty
  // zero_point only: the group of each column where that is not column / group_size, and
  // then how many there are.
  std::span<const int32_t> group_of_column = {};
  int n_groups = 0;

  int groups_per_row() const {
    return group_of_column.empty() ? (n_cols + group_size - 1) / group_size : n_groups;
  }
  size_t code_bytes_per_row() const { return (size_t(n_cols) * size_t(bits) + 7) / 8; }
  bool has_biases() const { return mode == AffineMode::affine; }
};

// Exact values of one row, as the format defines them, in float32: scale times code is
// rounded, then the sum with the bias.
void dequantize_affine_row(const AffineMatrix& matrix, int row, std::span<float> out);

// The same row taken apart.  codes[n_cols]: unsigned, as stored (affine: 0 .. 2^bits -
// 1).
void unpack_affine_codes(const AffineMatrix& matrix, int row, std::span<uint8_t> codes);
// scales[groups_per_row()], widened; biases likewise (zero_point: -scale * zero), or
// empty where the mode has none.
void unpack_affine_scales(const AffineMatrix& matrix, int row, std::span<float> scales,
                          std::span<float> biases);
// Every row's values, [n_rows, n_cols].
std::vector<float> dequantize_affine(const AffineMatrix& matrix);
// groups[n_cols]: the group of each column.
void affine_groups(const AffineMatrix& matrix, std::span<int32_t> groups);

// What an fp4 code stands for, doubled so that it is an integer: 0, 1, 2, 3, 4, 6, 8, 12
// and their negatives.  A kernel halves the scale instead.
inline constexpr int8_t kE2m1Doubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace ingot
