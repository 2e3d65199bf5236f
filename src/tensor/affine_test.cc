// MLX-quantised rows against MLX's own values (tests/tools/make_quant_golden.py).
#include "tensor/affine.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "tensor/golden.h"

namespace ingot {
namespace {

const GoldenFile& golden() {
  static const GoldenFile file("quant_golden.safetensors");
  return file;
}

// The matrix whose tensors are KEY.weight, KEY.scales and KEY.biases.
AffineMatrix golden_matrix(const std::string& key, AffineMode mode, int bits, int group) {
  const Shape shape = golden().shape(key + ".values");
  AffineMatrix m{.mode = mode, .bits = bits, .group_size = group};
  m.n_rows = int(shape[0]);
  m.n_cols = int(shape[1]);
  m.codes = golden().bytes(key + ".weight");
  m.scales = golden().bytes(key + ".scales");
  const std::string type = golden().dtype(key + ".scales");
  m.scale_dtype = type == "U8"     ? DType::u8
                  : type == "F16"  ? DType::f16
                  : type == "BF16" ? DType::bf16
                                   : DType::f32;
  if (mode == AffineMode::affine) m.biases = golden().bytes(key + ".biases");
  return m;
}

void expect_golden_values(const std::string& key, const AffineMatrix& m) {
  const std::vector<float> wanted = golden().floats(key + ".values");
  std::vector<float> row(size_t(m.n_cols));
  for (int r = 0; r < m.n_rows; ++r) {
    dequantize_affine_row(m, r, row);
    for (size_t i = 0; i < row.size(); ++i) {
      const float expected = wanted[size_t(r) * row.size() + i];
      ASSERT_EQ(std::bit_cast<uint32_t>(row[i]), std::bit_cast<uint32_t>(expected))
          << key << " row " << r << " column " << i << ": found " << row[i] << ", wanted "
          << expected;
    }
  }
}

TEST(Affine, EveryWidthAndGroupGivesMlxsBits) {
  int n_cases = 0;
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) {
      for (const char* type : {"f32", "f16", "bf16"}) {
        const std::string key = "mlx_affine.b" + std::to_string(bits) + ".g" +
                                std::to_string(group) + "." + type;
        if (!golden().has(key + ".weight")) continue;
        expect_golden_values(key, golden_matrix(key, AffineMode::affine, bits, group));
        ++n_cases;
      }
    }
  }
  EXPECT_GE(n_cases, 18);
}

TEST(Affine, Mxfp4GivesMlxsBits) {
  expect_golden_values("mlx_mxfp4", golden_matrix("mlx_mxfp4", AffineMode::mxfp4, 4, 32));
}

TEST(Affine, UnpackedPartsRebuildTheRow) {
  for (int bits : {3, 4, 8}) {
    const std::string key = bits == 3   ? "mlx_affine.b3.g64.bf16"
                            : bits == 4 ? "mlx_affine.b4.g64.f32"
                                        : "mlx_affine.b8.g64.f16";
    const AffineMatrix m = golden_matrix(key, AffineMode::affine, bits, 64);
    std::vector<uint8_t> codes(size_t(m.n_cols));
    std::vector<float> scales(size_t(m.groups_per_row()));
    std::vector<float> biases(scales.size());
    std::vector<float> row(codes.size());
    unpack_affine_codes(m, 1, codes);
    unpack_affine_scales(m, 1, scales, biases);
    dequantize_affine_row(m, 1, row);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_LT(codes[i], 1 << bits);
      const float product = scales[i / 64] * float(codes[i]);
      EXPECT_EQ(row[i], product + biases[i / 64]);
    }
  }
}

// formats.md 4.4 and 10.5: mxfp8 elements are E4M3 under an E8M0 scale, nvfp4 elements
// E2M1 under an E4M3 scale; low nibble first.
TEST(Affine, Mxfp8AndNvfp4ReadTheirLiterals) {
  std::vector<std::byte> codes(32, std::byte(0x38));  // 1.0
  codes[1] = std::byte(0xbf);                         // -1.875
  const std::byte exponent{128};                      // 2
  AffineMatrix mx{.mode = AffineMode::mxfp8,
                  .bits = 8,
                  .group_size = 32,
                  .n_rows = 1,
                  .n_cols = 32,
                  .scale_dtype = DType::u8,
                  .codes = codes,
                  .scales = {&exponent, 1}};
  std::vector<float> row(32);
  dequantize_affine_row(mx, 0, row);
  EXPECT_EQ(row[0], 2.0f);
  EXPECT_EQ(row[1], -3.75f);

  const std::vector<std::byte> nibbles(8, std::byte(0x72));  // 1.0, 6.0, 1.0, ...
  const std::byte scale{0x40};                               // 2.0
  AffineMatrix nv{.mode = AffineMode::nvfp4,
                  .bits = 4,
                  .group_size = 16,
                  .n_rows = 1,
                  .n_cols = 16,
                  .scale_dtype = DType::u8,
                  .codes = nibbles,
                  .scales = {&scale, 1}};
  row.resize(16);
  dequantize_affine_row(nv, 0, row);
  EXPECT_EQ(row[0], 2.0f);
  EXPECT_EQ(row[1], 12.0f);
}

}  // namespace
}  // namespace ingot
