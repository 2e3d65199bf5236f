#include "ops/cpu/pack_coded.h"

#include <bit>
#include <cstring>

#include "ops/cpu/kernels.h"

namespace ingot::cpu {
namespace {

constexpr size_t kR = kTileRows;

// E4M3 without NaN (the loader refuses it): exponent and mantissa in a float32's places
// are the value times 2^-120, subnormals included.
float e4m3_value(uint8_t code) {
  const uint32_t sign = (code & 0x80u) << 24;
  const uint32_t magnitude = (code & 0x7fu) << 20;
  return std::bit_cast<float>(sign | magnitude) * 0x1p120f;
}

}  // namespace

size_t CodedLayout::group_bytes() const {
  return size_t(n_groups) * kR * sizeof(float) * (has_zeros() ? 2 : 1);
}

CodedLayout coded_layout(const AffineMatrix& m) {
  CodedLayout layout{m.mode, m.groups_per_row(), std::vector<int32_t>(size_t(m.n_cols))};
  affine_groups(m, layout.group_of_column);
  return layout;
}

void pack_coded_row(const CodedLayout& layout, const AffineMatrix& m, int row,
                    std::byte* tile) {
  const auto n_groups = size_t(layout.n_groups);
  const auto r = size_t(row) % kR;
  std::vector<float> scales(n_groups);
  std::vector<float> unused(layout.has_zeros() ? n_groups : 0);
  std::vector<uint8_t> codes(layout.group_of_column.size());
  unpack_affine_scales(m, row, scales, unused);
  unpack_affine_codes(m, row, codes);
  for (size_t g = 0; g < n_groups; ++g) {
    std::memcpy(tile + (g * kR + r) * sizeof(float), &scales[g], sizeof(float));
    if (!layout.has_zeros()) continue;
    const auto zero = float(uint8_t(m.biases[size_t(row) * n_groups + g]));
    std::memcpy(tile + ((n_groups + g) * kR + r) * sizeof(float), &zero, sizeof zero);
  }
  for (size_t c = 0; c < codes.size(); ++c)
    tile[layout.group_bytes() + c * kR + r] = std::byte(codes[c]);
}

void coded_values(const CodedLayout& layout, const std::byte* tile, int first_col,
                  int n_cols, float* values) {
  const auto* scales = reinterpret_cast<const float*>(tile);
  const float* zeros = scales + size_t(layout.n_groups) * kR;
  const auto* codes = reinterpret_cast<const uint8_t*>(tile + layout.group_bytes());
  for (size_t i = 0; i < size_t(n_cols); ++i, values += kR) {
    const size_t c = size_t(first_col) + i;
    const size_t group = size_t(layout.group_of_column[c]) * kR;
    const uint8_t* code = codes + c * kR;
    if (layout.has_zeros())
      for (size_t r = 0; r < kR; ++r)
        values[r] = scales[group + r] * (float(code[r]) - zeros[group + r]);
    else
      for (size_t r = 0; r < kR; ++r) values[r] = scales[group + r] * e4m3_value(code[r]);
  }
}

}  // namespace ingot::cpu
