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
  return mode == AffineMode::mxfp8 ? f8_e4m3_to_f32(code) : f4_e2m1_to_f32(code);
}

bool has_bias(const AffineMatrix& m) { return m.mode == AffineMode::affine; }

// u8 scales are exponents (E8M0) or, in nvfp4, E4M3 floats.
DType scale_type(const AffineMatrix& m) {
  if (m.mode == AffineMode::affine) return m.scale_dtype;
  return m.mode == AffineMode::nvfp4 ? DType::f8_e4m3 : DType::f8_e8m0;
}

// Widens out.size() of the matrix's scales or biases, from group `first` on.
void widen_scales(const AffineMatrix& m, std::span<const std::byte> stored, size_t first,
                  std::span<float> out) {
  const DType type = scale_type(m);
  dequantize_row(type, stored.data() + first * size_t(info(type).group_bytes), out);
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
  }
  CHECK(false);
  return {};
}

void unpack_affine_codes(const AffineMatrix& m, int row, std::span<uint8_t> codes) {
  CHECK(row >= 0 && row < m.n_rows && codes.size() == size_t(m.n_cols));
  const size_t row_size = size_t(m.n_cols) * size_t(m.bits) / 8;
  unpack_bits(m.codes.data() + size_t(row) * row_size, m.bits, codes);
}

void unpack_affine_scales(const AffineMatrix& m, int row, std::span<float> scales,
                          std::span<float> biases) {
  const size_t n = size_t(m.groups_per_row());
  CHECK(row >= 0 && row < m.n_rows);
  CHECK(scales.size() == n && biases.size() == (has_bias(m) ? n : 0));
  widen_scales(m, m.scales, size_t(row) * n, scales);
  if (has_bias(m)) widen_scales(m, m.biases, size_t(row) * n, biases);
}

void dequantize_affine_row(const AffineMatrix& m, int row, std::span<float> out) {
  constexpr size_t kMaxGroup = 128;
  const size_t group_size = size_t(m.group_size);
  CHECK(row >= 0 && row < m.n_rows && out.size() == size_t(m.n_cols));
  CHECK(group_size <= kMaxGroup && out.size() % group_size == 0);
  const size_t n_groups = out.size() / group_size;
  uint8_t codes[kMaxGroup];
  for (size_t g = 0; g < n_groups; ++g) {
    const size_t group = size_t(row) * n_groups + g;  // in the whole matrix
    unpack_bits(m.codes.data() + group * group_size * size_t(m.bits) / 8, m.bits,
                {codes, group_size});
    float scale = 0.0f;
    float bias = 0.0f;
    widen_scales(m, m.scales, group, {&scale, 1});
    if (has_bias(m)) widen_scales(m, m.biases, group, {&bias, 1});
    float* values = out.data() + g * group_size;
    for (size_t i = 0; i < group_size; ++i)
      values[i] = has_bias(m) ? scale * float(codes[i]) + bias
                              : scale * element(m.mode, codes[i]);
  }
}

}  // namespace ingot
