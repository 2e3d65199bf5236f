// The NEON variants, whose bytes meet by other instructions, give the same bits.  Those
// that the CPU lacks are passed over: QEMU_CPU=max has all three.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ops/ops_testing.h"
#include "ops/weights_testing.h"

namespace ingot {
namespace {

std::vector<std::string> variants() {
  std::vector<std::string> names;
  for (const char* name : {"neon-plain", "neon-dotprod", "neon-i8mm"})
    if (cpu::neon_variant(name) != nullptr) names.emplace_back(name);
  return names;
}

TEST(NeonVariants, TheBestIsChosen) {
  const std::string best = variants().back();
  EXPECT_EQ(cpu::choose_kernels("auto").isa, best);
  EXPECT_EQ(cpu::choose_kernels("neon").isa, best);
  for (const std::string& name : variants())
    EXPECT_EQ(cpu::choose_kernels(name).isa, name);
}

std::vector<float> matmul(const std::string& isa, const TestWeight& weight,
                          const std::vector<float>& x) {
  const auto ops = make_ops(isa);
  const WeightRows parts[] = {weight.source()};
  const auto packed = ops->pack(parts);
  const int n = int(x.size()) / weight.n_cols();
  TestRows in(*ops, n, weight.n_cols(), x);
  TestRows out(*ops, n, weight.n_rows());
  ops->matmul(out.rows, in.rows, *packed, {});
  return out.values();
}

// The largest sums that narrow intermediate numbers must hold, exactly.
TEST(NeonVariants, HoldTheLargestSums) {
  struct Extreme {
    cpu::CodeRange range;
    int code;
  };
  constexpr int kMostTokens = 17;
  for (const std::string& name : variants())
    for (const Extreme& e :
         {Extreme{cpu::CodeRange::s8, -128}, Extreme{cpu::CodeRange::s8, 127},
          Extreme{cpu::CodeRange::u6, 63}, Extreme{cpu::CodeRange::u4, 15}})
      for (const int activation : {-127, 127})
        for (const bool halves : {false, true}) {
          cpu::TileGroup w{};
          std::memset(w.code, e.code, sizeof w.code);
          for (auto& half : w.scale) std::fill_n(half, cpu::kTileRows, 1.0f);
          std::vector<cpu::ActGroup> acts(kMostTokens);
          for (cpu::ActGroup& y : acts) {
            std::fill_n(y.code, cpu::kGroupCols, int8_t(activation));
            y.scale = 1.0f;
          }
          std::vector<float> sums(size_t(kMostTokens) * cpu::kTileRows, 0.0f);
          const cpu::TileFormat format{
              .range = e.range, .zero = 0, .halves = halves, .offsets = false};
          cpu::neon_variant(name)->dot_int8(&w, 1, format, 1, acts.data(), kMostTokens,
                                            kMostTokens, sums.data());
          const auto wanted = float(cpu::kGroupCols * e.code * activation);
          for (const float sum : sums)
            ASSERT_EQ(sum, wanted)
                << name << ", code " << e.code << ", halves " << halves;
        }
}

class NeonMatmul : public testing::TestWithParam<WeightKind> {};

// Few rows, many, and blocks of tokens that do not come out even.
TEST_P(NeonMatmul, VariantsGiveTheSameBits) {
  const std::vector<std::string> names = variants();
  if (names.size() < 2) GTEST_SKIP() << "this CPU has only the plain variant";
  Random random(23);
  const int step = GetParam().column_step();
  const int n_cols = step * std::max(1, 544 / step);
  const TestWeight weight(GetParam(), 19, n_cols, random);
  for (int n : {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 31}) {
    std::vector<float> x = random.floats(n * n_cols, -2.0f, 2.0f);
    x[0] = 1000.0f;  // the row's other codes of the group are small
    const std::vector<float> wanted = matmul(names[0], weight, x);
    for (size_t i = 1; i < names.size(); ++i)
      EXPECT_TRUE(same_bits(matmul(names[i], weight, x), wanted))
          << names[i] << ", " << n << " rows, seed 23";
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, NeonMatmul, testing::ValuesIn(weight_kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ingot
