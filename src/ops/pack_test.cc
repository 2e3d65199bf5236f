// Rows packed word by word lie byte for byte as those packed value by value.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/cpu/pack_tiles.h"
#include "ops/cpu/pack_words.h"
#include "ops/weights_testing.h"

namespace ingot::cpu {
namespace {

WeightSegment empty_segment(DType type, int n_rows, int n_cols) {
  WeightSegment s;
  s.kind = SegmentKind::tiles;
  s.dtype = type;
  s.n_rows = n_rows;
  s.n_cols = n_cols;
  s.layout = tile_layout(type);
  s.tile_bytes = size_t(n_cols / s.layout.span_cols) * s.layout.span_bytes();
  s.n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  s.owned = std::make_unique<std::byte[]>(size_t(s.n_tiles) * s.tile_bytes);
  s.data = s.owned.get();
  return s;
}

class PackWordsOf : public testing::TestWithParam<DType> {};

TEST_P(PackWordsOf, WritesTheBytesOfTheGeneralWay) {
  constexpr int kRows = 19, kCols = 768;  // seed 61
  Random random(61);
  const TestWeight weight({.name = "", .dtype = GetParam()}, kRows, kCols, random);
  const WeightRows source = weight.source();
  WeightSegment by_words = empty_segment(GetParam(), kRows, kCols);
  WeightSegment by_values = empty_segment(GetParam(), kRows, kCols);
  ASSERT_NE(pack_words(GetParam()), nullptr);
  for (int row = 0; row < kRows; ++row) {
    pack_words(GetParam())(by_words, row, source.row(row));
    pack_ggml_row(by_values, row, source.row(row));
  }
  for (int tile = 0; tile < by_words.n_tiles; ++tile)
    for (size_t i = 0; i < by_words.tile_bytes; ++i)
      ASSERT_EQ(by_words.tile(tile)[i], by_values.tile(tile)[i])
          << "tile " << tile << " byte " << i;
}

INSTANTIATE_TEST_SUITE_P(All, PackWordsOf,
                         testing::Values(DType::q4_0, DType::q4_1, DType::q5_0,
                                         DType::q5_1, DType::q8_0, DType::q4_k,
                                         DType::q5_k, DType::q6_k),
                         [](const auto& test) { return std::string(name(test.param)); });

// Every byte as a scale: subnormals, and NaN for 0x7f and 0xff, as on the portable table.
TEST(Unpack, ScalesOfE4M3OnEveryTable) {
  WeightSegment s = empty_segment(DType::nvfp4, kTileRows, 64);
  for (int first = 0; first < 256; first += kTileRows) {
    auto* scales = reinterpret_cast<uint8_t*>(s.data) + s.layout.group_at(0);
    for (int i = 0; i < 2 * kTileRows; ++i) scales[i] = uint8_t(first + i % kTileRows);
    TileGroup wanted;
    scalar_kernels().unpack(s, 0, 0, 1, &wanted);
    for (const std::string& isa : isas()) {
      TileGroup found;
      choose_kernels(isa).unpack(s, 0, 0, 1, &found);
      for (int h = 0; h < 2; ++h)
        for (int r = 0; r < kTileRows; ++r) {
          const float a = found.scale[h][r], b = wanted.scale[h][r];
          EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
              << isa << ": byte " << first + r << " is " << a << ", wanted " << b;
        }
    }
  }
}

}  // namespace
}  // namespace ingot::cpu
