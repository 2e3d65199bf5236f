#include "tensor/affine.h"

#include "base/check.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

// Codes cross byte and word borders for 3, 5 and 6 bits: a row is one little-endian bit
// stream, in which code e occupies bits e * bits and up.
void unpack_bits(const std::byte* source, int bits, std::span<uint8_t> codes) {
  uint32_t window = 0;
  int n_bits = 0;
  for (uint8_t& code : codes) {
    if (n_bits < bits) {
      window |= uint32_t(*source++) << n_bits;
      n_bits += 8;
    }
    code = uint8_t(window & ((1u << bits) - 1));
    window >>= bits;
    n_bits -= bits;
  }
}

float element(AffineMode mode, uint8_t code) {
  return mode == AffineMode::mxfp8 || mode == AffineMode::e4m3 ? f8_e4m3_to_f32(code)
                                                               : f4_e2m1_to_f32(code);
}

// MLX's float modes have u8 scales: exponents (E8M0) or, in nvfp4, E4M3 floats.
DType scale_type(const AffineMatrix& m) {
  switch (m.mode) {
    case AffineMode::mxfp4:
    case AffineMode::mxfp8:
      return DType::f8_e8m0;
    case AffineMode::nvfp4:
      return DType::f8_e4m3;
    default:
      return m.scale_dtype;
  }
}

// Widens out.size() of the matrix's scales or biases, from group `first` on.
void widen_scales(const AffineMatrix& m, std::span<const std::byte> stored, size_t first,
                  std::span<float> out) {
  const DType type = scale_type(m);
  dequantize_row(type, stored.data() + first * size_t(info(type).group_bytes), out);
}

// A row's scales, and its biases or zeros as they are stored.
struct RowScales {
  RowScales(const AffineMatrix& m, int row)
      : scales(size_t(m.groups_per_row())), offsets(scales.size()) {
    const size_t first = size_t(row) * scales.size();
    widen_scales(m, m.scales, first, scales);
    if (m.has_biases()) widen_scales(m, m.biases, first, offsets);
    for (size_t g = 0; m.mode == AffineMode::zero_point && g < offsets.size(); ++g)
      offsets[g] = float(uint8_t(m.biases[first + g]));
  }
  std::vector<float> scales, offsets;
};

float value_of(AffineMode mode, uint8_t code, float scale, float offset) {
  switch (mode) {
    case AffineMode::affine:
      return scale * float(code) + offset;
    case AffineMode::zero_point:
      return scale * (float(code) - offset);
    default:
      return scale * element(mode, code);
  }
}

}  // namespace

std::string_view name(AffineMode mode) {
  switch (mode) {
    case AffineMode::affine:
      return "affine";
    case AffineMode::mxfp4:
      return "mxfp4";
    case AffineMode::mxfp8:
      return "mxfp8";
    case AffineMode::nvfp4:
      return "nvfp4";
    case AffineMode::zero_point:
      return "zero_point";
    case AffineMode::e4m3:
      return "e4m3";
  }
  CHECK(false);
  return {};
}

void unpack_affine_codes(const AffineMatrix& m, int row, std::span<uint8_t> codes) {
  CHECK(row >= 0 && row < m.n_rows && codes.size() == size_t(m.n_cols));
  unpack_bits(m.codes.data() + size_t(row) * m.code_bytes_per_row(), m.bits, codes);
}

void unpack_affine_scales(const AffineMatrix& m, int row, std::span<float> scales,
                          std::span<float> biases) {
  const bool zeros = m.mode == AffineMode::zero_point;
  const size_t n = size_t(m.groups_per_row());
  CHECK(row >= 0 && row < m.n_rows);
  CHECK(scales.size() == n && biases.size() == (m.has_biases() || zeros ? n : 0));
  const RowScales own(m, row);
  for (size_t g = 0; g < n; ++g) {
    scales[g] = own.scales[g];
    if (!biases.empty())
      biases[g] = zeros ? -(own.scales[g] * own.offsets[g]) : own.offsets[g];
  }
}

void affine_groups(const AffineMatrix& m, std::span<int32_t> groups) {
  CHECK(groups.size() == size_t(m.n_cols));
  for (size_t c = 0; c < groups.size(); ++c)
    groups[c] =
        m.group_of_column.empty() ? int32_t(c) / m.group_size : m.group_of_column[c];
}

void dequantize_affine_row(const AffineMatrix& m, int row, std::span<float> out) {
  CHECK(out.size() == size_t(m.n_cols));
  std::vector<uint8_t> codes(out.size());
  std::vector<int32_t> groups(out.size());
  unpack_affine_codes(m, row, codes);
  affine_groups(m, groups);
  const RowScales own(m, row);
  for (size_t c = 0; c < out.size(); ++c) {
    const auto g = size_t(groups[c]);
    out[c] = value_of(m.mode, codes[c], own.scales[g], own.offsets[g]);
  }
}

std::vector<float> dequantize_affine(const AffineMatrix& m) {
  const auto n_cols = size_t(m.n_cols);
  std::vector<float> values(size_t(m.n_rows) * n_cols);
  for (int row = 0; row < m.n_rows; ++row)
    dequantize_affine_row(m, row,
                          std::span(values).subspan(size_t(row) * n_cols, n_cols));
  return values;
}

}  // namespace ingot
