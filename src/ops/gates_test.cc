// Gates and copies of columns, on every table, against the reference's float64 cases.
#include <gtest/gtest.h>

#include <cfloat>

#include "ops/case_file.h"

namespace ingot {
namespace {

class Gates : public OnEveryTable {
 protected:
  TestRows rows(const Case& c, const std::string& name) {
    return {*ops, c.dim(name, 0), c.dim(name, 1), c.floats(name)};
  }
};

// Values too small for a normal number lose bits in the factors already.
constexpr double kSubnormal = 1e-36;

void expect_close(const std::vector<float>& found, const std::vector<float>& wanted,
                  double n_ulps, double absolute) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i)
    if (ulps(found[i], double(wanted[i])) > n_ulps &&
        !(std::fabs(double(found[i]) - double(wanted[i])) <= absolute))
      ADD_FAILURE() << "[" << i << "] is " << found[i] << ", wanted " << wanted[i];
}

TEST_P(Gates, LimitedActivation) {
  INGOT_FOR_CASES("limited_activation", c) {
    TestRows gate_up = rows(c, "gate_up");
    TestRows out(*ops, c.dim("out", 0), c.dim("out", 1));
    const GatedActivation act{.kind = Activation::gelu_erf,  // must not matter
                              .limit = float(c.param<double>("limit")),
                              .alpha = float(c.param<double>("alpha"))};
    ops->gated_activation(out.rows, gate_up.rows, act);
    // up + 1 rounds once; where it cancels, the rounding of nothing is exact.
    expect_close(out.values(), c.floats("out"), 7, kSubnormal);
    const Rows first_half = gate_up.rows.columns(0, out.rows.width);
    ops->gated_activation(first_half, gate_up.rows, act);  // in place
    const std::vector<float> in_place = gate_up.values(), apart = out.values();
    const size_t width = size_t(out.rows.width);
    for (size_t i = 0; i < apart.size(); ++i)
      EXPECT_TRUE(same_bits({in_place[i / width * 2 * width + i % width]}, {apart[i]}));
  }
}

TEST_P(Gates, NanStaysNan) {
  const float nan = NAN;
  for (bool of_gate : {true, false}) {
    std::vector<float> values(2 * 11, 1.5f);
    values[of_gate ? 9 : 11 + 9] = nan;
    TestRows gate_up(*ops, 1, 22, values), out(*ops, 1, 11);
    ops->gated_activation(out.rows, gate_up.rows, {.limit = 7.0f, .alpha = 1.702f});
    for (size_t i = 0; i < 11; ++i) EXPECT_EQ(std::isnan(out.values()[i]), i == 9);
    for (Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
                            Activation::sigmoid}) {
      ops->gated_activation(out.rows, gate_up.rows, {kind});
      for (size_t i = 0; i < 11; ++i)
        EXPECT_EQ(std::isnan(out.values()[i]), i == 9) << int(kind);
    }
  }
}

TEST_P(Gates, AddGated) {
  INGOT_FOR_CASES("add_gated", c) {
    TestRows x = rows(c, "x"), h = rows(c, "h"), gate = rows(c, "gate");
    ops->add_gated(x.rows, h.rows, gate.rows);
    // The gate's 4 ulps, a product and a sum of values below 8.
    expect_close(x.values(), c.floats("out"), 1, 8 * 8 * 0x1p-24);
  }
}

TEST_P(Gates, MultiplyActivation) {
  INGOT_FOR_CASES("multiply_activation", c) {
    TestRows x = rows(c, "x"), gate = rows(c, "gate");
    const bool silu = c.param<std::string>("kind") == "silu";
    ops->multiply_activation(x.rows, gate.rows,
                             silu ? Activation::silu : Activation::sigmoid);
    expect_close(x.values(), c.floats("out"), 5, kSubnormal);
  }
}

TEST_P(Gates, CopyColumns) {
  INGOT_FOR_CASES("copy_columns", c) {
    TestRows x = rows(c, "x"), out = rows(c, "before");
    ops->copy_columns(out.rows, x.rows,
                      {.n_heads = c.param<int>("n_heads"),
                       .count = c.param<int>("count"),
                       .from_first = c.param<int>("from_first"),
                       .from_step = c.param<int>("from_step"),
                       .to_first = c.param<int>("to_first"),
                       .to_step = c.param<int>("to_step")});
    EXPECT_TRUE(same_bits(out.values(), c.floats("out")));
  }
}

TEST_P(Gates, RopeWithinAHead) {
  INGOT_FOR_CASES("rope_within", c) {
    TestRows x = rows(c, "x"), cos_sin = rows(c, "cos_sin");
    const bool interleaved = c.param<std::string>("pairing") == "interleaved";
    ops->rope(
        x.rows, cos_sin.rows,
        {.n_heads = c.param<int>("n_heads"),
         .head_dim = c.param<int>("head_dim"),
         .rotary_dims = c.param<int>("rotary_dims"),
         .pairing = interleaved ? RopePairing::interleaved : RopePairing::half_split,
         .first = c.param<int>("first")});
    // Two products and a sum of normal numbers.
    expect_close(x.values(), c.floats("out"), 1, 4 * 0x1p-24 * 6.0);
  }
}

// The same row has the same bits beside any others, and the same element anywhere in it.
TEST_P(Gates, RowsHaveTheSameBitsTogetherAndAlone) {
  constexpr int kRows = 64, kWidth = 401;  // enough for the pool
  Random random(61);
  const std::vector<float> values = random.floats(kRows * 2 * kWidth, -20.0f, 20.0f);
  for (int n_threads : {1, 2}) {
    const auto backend = make_ops(GetParam(), n_threads);
    TestRows all(*backend, kRows, 2 * kWidth, values), out(*backend, kRows, kWidth);
    const GatedActivation act{.limit = 7.0f, .alpha = 1.702f};
    backend->gated_activation(out.rows, all.rows, act);
    TestRows sum(*backend, kRows, kWidth);
    const Rows left = all.rows.columns(0, kWidth);
    const ColumnCopy everything{.n_heads = 1, .count = kWidth};
    backend->copy_columns(sum.rows, left, everything);
    backend->multiply_activation(sum.rows, out.rows, Activation::sigmoid);
    backend->add_gated(sum.rows, out.rows, left.columns(3, 1));
    const std::vector<float> wanted = sum.values();
    for (int t = 0; t < kRows; ++t) {
      const auto row = values.begin() + t * 2 * kWidth;
      TestRows one(*ops, 1, 2 * kWidth, {row, row + 2 * kWidth}), gated(*ops, 1, kWidth);
      TestRows one_sum(*ops, 1, kWidth, {row, row + kWidth});
      ops->gated_activation(gated.rows, one.rows, act);
      ops->multiply_activation(one_sum.rows, gated.rows, Activation::sigmoid);
      ops->add_gated(one_sum.rows, gated.rows, one.rows.columns(3, 1));
      EXPECT_TRUE(same_bits(one_sum.values(), {wanted.begin() + t * kWidth,
                                               wanted.begin() + (t + 1) * kWidth}));
    }
  }
}

INGOT_ON_EVERY_TABLE(Gates);

}  // namespace
}  // namespace ingot
