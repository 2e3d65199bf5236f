// matmul of every stored type: against a sum in double, and bit for bit the same at every
// row count, thread count and chunking.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/ops_testing.h"
#include "ops/weights_testing.h"

namespace ingot {
namespace {

// Activations as the CPU's automatic mode sees them (cpu/NUMERICS.md), in double.
std::vector<double> int8_values(const float* x, int n) {
  std::vector<double> seen(static_cast<size_t>(n));
  for (int g = 0; g < n; g += 32) {
    float largest = 0.0f;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[g + i]));
    for (int i = 0; i < 32; ++i) {
      const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
      seen[size_t(g + i)] =
          double(largest / 127.0f) * double(std::nearbyint(x[g + i] * inverse));
    }
  }
  return seen;
}

std::vector<float> matmul(Ops& ops, const Weight& w, const std::vector<float>& x,
                          const std::vector<float>& bias) {
  const int n = int(x.size()) / w.n_cols;
  TestRows in(ops, n, w.n_cols, x);
  TestRows out(ops, n, w.n_rows);
  Memory biases;
  if (!bias.empty()) biases = upload(ops, bias);
  ops.matmul(out.rows, in.rows, w, biases.buffer());
  return out.values();
}

// Largest error over its bound.  Float32 sums of m terms err by at most m * 2^-24 of the
// sum of magnitudes; activations' scales and the weights' own products add a few more.
double worst_error(const TestWeight& weight, const std::vector<float>& x, bool int8,
                   const std::vector<float>& bias, const std::vector<float>& found) {
  const int k = weight.n_cols();
  double worst = 0.0;
  for (int t = 0; t < int(x.size()) / k; ++t) {
    const float* row = x.data() + size_t(t) * size_t(k);
    const std::vector<double> seen =
        int8 ? int8_values(row, k) : std::vector<double>(row, row + k);
    for (int r = 0; r < weight.n_rows(); ++r) {
      double sum = bias.empty() ? 0.0 : double(bias[size_t(r)]);
      double sizes = std::fabs(sum);
      for (int c = 0; c < k; ++c) {
        sum += weight.value(r, c) * seen[size_t(c)];
        sizes += weight.size(r, c) * std::fabs(seen[size_t(c)]);
      }
      const double terms = int8 ? k / 16.0 * 2 + 6 : 18 + k / 32.0 + 4;
      const double error =
          std::fabs(double(found[size_t(t * weight.n_rows() + r)]) - sum);
      worst = std::max(worst, error / (terms * 0x1p-24 * sizes + 1e-37));
    }
  }
  return worst;
}

class Matmul : public testing::TestWithParam<std::tuple<std::string, WeightKind>> {
 protected:
  const std::string& isa() const { return std::get<0>(GetParam()); }
  const WeightKind& kind() const { return std::get<1>(GetParam()); }
};

TEST_P(Matmul, EqualsASumInDouble) {
  Random random(7);
  for (ActMode act : {ActMode::automatic, ActMode::f32}) {
    const auto ops = make_ops(isa(), 1, act);
    for (int trial = 0; trial < 12; ++trial) {
      const int step = kind().column_step();
      const int most = std::max(1, 700 / step);
      const int n_cols = step * (trial == 0 ? 1 : random.between(1, most));
      const int n_rows = trial < 3 ? trial + 1 : random.between(1, 40);
      const int n = trial == 1 ? 0 : random.between(1, 11);
      const TestWeight weight(kind(), n_rows, n_cols, random);
      const std::vector<float> x = random.floats(n * n_cols, -2.0f, 2.0f);
      const std::vector<float> bias =
          trial % 2 == 0 ? std::vector<float>{} : random.floats(n_rows);
      const WeightRows parts[] = {weight.source()};
      const auto packed = ops->pack(parts);
      const std::vector<float> found = matmul(*ops, *packed, x, bias);
      const bool int8 = act == ActMode::automatic && weight.quantised();
      EXPECT_LE(worst_error(weight, x, int8, bias, found), 1.0)
          << n_rows << " x " << n_cols << ", " << n << " tokens, seed 7, trial " << trial;
    }
  }
}

TEST_P(Matmul, RowsHaveTheSameBitsAtEveryCount) {
  Random random(11);
  const int step = kind().column_step();
  const int n_cols = step * std::max(1, 544 / step) + (step == 1 ? 7 : 0);
  const int n_rows = 21;
  const TestWeight weight(kind(), n_rows, n_cols, random);
  const WeightRows parts[] = {weight.source()};
  for (ActMode act : {ActMode::automatic, ActMode::f32}) {
    const auto one = make_ops(isa(), 1, act);
    const auto two = make_ops(isa(), 2, act);
    const auto packed_one = one->pack(parts);
    const auto packed_two = two->pack(parts);
    const int most = 140;  // past 128 tokens, where a second pass over the weights begins
    const std::vector<float> x = random.floats(most * n_cols, -2.0f, 2.0f);
    std::vector<float> single;
    for (int t = 0; t < most; ++t) {
      const std::vector<float> row(x.begin() + t * n_cols, x.begin() + (t + 1) * n_cols);
      const std::vector<float> out = matmul(*one, *packed_one, row, {});
      single.insert(single.end(), out.begin(), out.end());
    }
    std::vector<int> counts;
    for (int n = 1; n <= 64; n += isa() == "scalar" ? 21 : 1) counts.push_back(n);
    for (int n : {127, 128, 129, 140}) counts.push_back(n);
    for (int n : counts) {
      const std::vector<float> rows(x.begin(), x.begin() + n * n_cols);
      const std::vector<float> wanted(single.begin(), single.begin() + n * n_rows);
      EXPECT_TRUE(same_bits(matmul(*one, *packed_one, rows, {}), wanted)) << n << " rows";
      EXPECT_TRUE(same_bits(matmul(*two, *packed_two, rows, {}), wanted))
          << n << " rows, 2 threads";
    }
  }
}

TEST_P(Matmul, EmbedGivesTheExactRow) {
  Random random(13);
  const int step = kind().column_step();
  const int n_cols = step * std::max(1, 320 / step) + (step == 1 ? 3 : 0);
  const TestWeight weight(kind(), 19, n_cols, random);
  const auto ops = make_ops(isa());
  const WeightRows parts[] = {weight.source()};
  const auto packed = ops->pack(parts);
  const std::vector<int32_t> tokens = {0, 18, 7, 8, 7};
  const Memory token_memory = upload(*ops, tokens);
  Batch batch;
  batch.n_tokens = int(tokens.size());
  batch.tokens = token_memory.buffer();
  TestRows out(*ops, batch.n_tokens, n_cols);
  ops->embed(out.rows, *packed, batch, 1.0f);
  const std::vector<float> found = out.values();
  for (size_t t = 0; t < tokens.size(); ++t)
    for (int c = 0; c < n_cols; ++c)
      ASSERT_EQ(double(found[t * size_t(n_cols) + size_t(c)]), weight.value(tokens[t], c))
          << "token " << tokens[t] << " column " << c;
}

TEST_P(Matmul, OnePassReadsEachWeightOnce) {
  Random random(17);
  const int step = kind().column_step();
  const int n_cols = step * std::max(1, 1024 / step);
  const TestWeight weight(kind(), 64, n_cols, random);
  const auto ops = make_ops(isa(), 2);
  const WeightRows parts[] = {weight.source()};
  const auto packed = ops->pack(parts);
  for (int n : {1, 4, 8}) {
    ops->reset_counters();
    matmul(*ops, *packed, random.floats(n * n_cols), {});
    EXPECT_EQ(ops->counters().weight_bytes, packed->bytes) << n << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Matmul,
                         testing::Combine(testing::ValuesIn(isas()),
                                          testing::ValuesIn(weight_kinds())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::get<1>(info.param).name;
                         });

// The x86 tables form the same sums in the same order (cpu/NUMERICS.md).
class WiderTable : public Matmul {};

TEST_P(WiderTable, HasTheBitsOfAvx2) {
  Random random(37);
  const int step = kind().column_step();
  const int n_cols = step * std::max(1, 544 / step) + (step == 1 ? 7 : 0);
  constexpr int kMost = 129;
  for (const int n_rows : {5, 16, 51}) {  // 1, 2 and 7 tiles
    const TestWeight weight(kind(), n_rows, n_cols, random);
    const WeightRows parts[] = {weight.source()};
    const std::vector<float> x = random.floats(kMost * n_cols, -2.0f, 2.0f);
    const std::vector<float> bias = random.floats(n_rows);
    for (ActMode act : {ActMode::automatic, ActMode::f32}) {
      const auto wider = make_ops(isa(), 1, act);
      const auto avx2 = make_ops("avx2", 1, act);
      const auto packed = wider->pack(parts);
      const auto packed_avx2 = avx2->pack(parts);
      const std::vector<float> wanted = matmul(*avx2, *packed_avx2, x, bias);
      for (int n = 1; n <= kMost; n = n == 64 ? kMost : n + 1) {
        const std::vector<float> rows(x.begin(), x.begin() + n * n_cols);
        EXPECT_TRUE(same_bits(matmul(*wider, *packed, rows, bias),
                              {wanted.begin(), wanted.begin() + n * n_rows}))
            << n << " rows meet " << n_rows << ", seed 37";
      }
    }
  }
}

std::vector<std::string> wider_isas() {
  std::vector<std::string> names = isas();
  std::erase_if(names, [](const auto& n) { return n != "avx512" && n != "amx"; });
  return names;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WiderTable);
INSTANTIATE_TEST_SUITE_P(Cpu, WiderTable,
                         testing::Combine(testing::ValuesIn(wider_isas()),
                                          testing::ValuesIn(weight_kinds())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::get<1>(info.param).name;
                         });

class StackedMatmul : public OnEveryTable {};

TEST_P(StackedMatmul, PartsOfDifferentTypesStandOneAfterTheOther) {
  Random random(19);
  const int n_cols = 512;
  std::vector<TestWeight> parts;
  std::vector<WeightRows> sources;
  const std::vector<WeightKind> kinds = weight_kinds();
  for (const WeightKind& kind : kinds)
    parts.emplace_back(kind, random.between(1, 20), n_cols, random);
  for (const TestWeight& part : parts) sources.push_back(part.source());
  const auto all = ops->pack(sources);
  const std::vector<float> x = random.floats(3 * n_cols);
  const std::vector<float> bias = random.floats(all->n_rows);
  const std::vector<float> found = matmul(*ops, *all, x, bias);
  int first = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const WeightRows source[] = {sources[p]};
    const auto alone = ops->pack(source);
    const std::vector<float> part_bias(bias.begin() + first,
                                       bias.begin() + first + alone->n_rows);
    const std::vector<float> wanted = matmul(*ops, *alone, x, part_bias);
    for (int t = 0; t < 3; ++t)
      for (int r = 0; r < alone->n_rows; ++r)
        EXPECT_EQ(found[size_t(t * all->n_rows + first + r)],
                  wanted[size_t(t * alone->n_rows + r)])
            << kinds[p].name;
    first += alone->n_rows;
  }
}

TEST_P(StackedMatmul, ValuesThatAreNotFiniteReachTheResult) {
  Random random(23);
  for (DType type : {DType::q4_0, DType::q6_k, DType::f32}) {
    const TestWeight weight({.name = "", .dtype = type}, 16, 512, random);
    const WeightRows parts[] = {weight.source()};
    const auto packed = ops->pack(parts);
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> x = random.floats(2 * 512);
      x[512 + 77] = bad;
      const std::vector<float> found = matmul(*ops, *packed, x, {});
      for (int r = 0; r < 16; ++r) {
        EXPECT_TRUE(std::isfinite(found[size_t(r)])) << "the neighbour row";
        EXPECT_FALSE(std::isfinite(found[size_t(16 + r)])) << name(type);
      }
    }
  }
}

TEST_P(StackedMatmul, ZeroAndTinyActivationsAreHarmless) {
  Random random(29);
  const TestWeight weight({.name = "", .dtype = DType::q4_1}, 16, 512, random);
  const WeightRows parts[] = {weight.source()};
  const auto packed = ops->pack(parts);
  for (float size : {0.0f, 1e-45f, 1e-38f, 1e-30f}) {
    std::vector<float> x(512, size);
    x[3] = 0.0f;
    for (float v : matmul(*ops, *packed, x, {})) EXPECT_LT(std::fabs(v), 1e-24f);
  }
}

INGOT_ON_EVERY_TABLE(StackedMatmul);

}  // namespace
}  // namespace ingot
