// Ops that treat a row at a time, on every table, against the reference's float64 cases.
#include <gtest/gtest.h>

#include <cfloat>

#include "ops/case_file.h"

namespace ingot {
namespace {

class RowOps : public OnEveryTable {
 protected:
  TestRows rows(const Case& c, const std::string& name) {
    return {*ops, c.dim(name, 0), c.dim(name, 1), c.floats(name)};
  }
  TestRows empty(const Case& c, const std::string& name) {
    return {*ops, c.dim(name, 0), c.dim(name, 1)};
  }
};

// Every value within `n_ulps` of its own last place, or within `absolute`.
void expect_close(const std::vector<float>& found, const std::vector<float>& wanted,
                  double n_ulps, double absolute = 0.0) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i)
    if (ulps(found[i], double(wanted[i])) > n_ulps &&
        std::fabs(double(found[i]) - double(wanted[i])) > absolute)
      ADD_FAILURE() << "[" << i << "] is " << found[i] << ", wanted " << wanted[i];
}

// Sums are in double: what is left are three roundings of products, and the wanted
// value's.
constexpr double kNormUlps = 4;

TEST_P(RowOps, RmsNorm) {
  INGOT_FOR_CASES("rms_norm", c) {
    TestRows x = rows(c, "x"), out = empty(c, "out");
    const Memory weight = upload(*ops, c.floats("weight"));
    const float eps = float(c.param<double>("eps"));
    ops->rms_norm(out.rows, x.rows, weight.buffer(), eps);
    expect_close(out.values(), c.floats("out"), kNormUlps);
    ops->rms_norm(x.rows, x.rows, weight.buffer(), eps);  // in place
    EXPECT_TRUE(same_bits(x.values(), out.values()));
  }
}

TEST_P(RowOps, LayerNorm) {
  INGOT_FOR_CASES("layer_norm", c) {
    TestRows x = rows(c, "x"), out = empty(c, "out");
    const Memory weight = upload(*ops, c.floats("weight"));
    const Memory bias = upload(*ops, c.floats("bias"));
    ops->layer_norm(out.rows, x.rows, weight.buffer(), bias.buffer(),
                    float(c.param<double>("eps")));
    // x - mean loses what float32 cannot hold of the mean: 2^-24 of x, which the division
    // by the deviation (at least sqrt(eps)) then scales.
    const std::vector<float> in = c.floats("x");
    float largest = 0.0f, deviation = 1e30f;
    for (int t = 0; t < x.rows.n_rows; ++t) {
      double mean = 0.0, square = 0.0;
      for (int i = 0; i < x.rows.width; ++i) {
        const double v = double(in[size_t(t * x.rows.width + i)]);
        largest = std::max(largest, float(std::fabs(v)));
        mean += v / x.rows.width;
        square += v * v / x.rows.width;
      }
      deviation = std::min(deviation,
                           float(std::sqrt(std::max(square - mean * mean, 0.0) + 1e-5)));
    }
    const double absolute = 4.0 * 0x1p-24 * (double(largest / deviation) * 1.6 + 6.0);
    expect_close(out.values(), c.floats("out"), kNormUlps, absolute);
  }
}

TEST_P(RowOps, HeadRmsNorm) {
  INGOT_FOR_CASES("head_rms_norm", c) {
    TestRows x = rows(c, "x");
    const Memory weight = upload(*ops, c.floats("weight"));
    ops->head_rms_norm(x.rows, c.param<int>("n_heads"), c.param<int>("head_dim"),
                       weight.buffer(), float(c.param<double>("eps")));
    expect_close(x.values(), c.floats("out"), kNormUlps);
  }
}

TEST_P(RowOps, Add) {
  INGOT_FOR_CASES("add", c) {
    TestRows x = rows(c, "x"), h = rows(c, "h");
    ops->add(x.rows, h.rows);
    expect_close(x.values(), c.floats("out"), 0.51);  // one rounding, of the same sum
  }
}

TEST_P(RowOps, GatherRows) {
  INGOT_FOR_CASES("gather_rows", c) {
    TestRows x = rows(c, "x"), out = empty(c, "out");
    const Memory from = upload(*ops, c.values<int32_t>("rows"));
    ops->gather_rows(out.rows, x.rows, from.buffer());
    EXPECT_TRUE(same_bits(out.values(), c.floats("out")));
  }
}

TEST_P(RowOps, SoftCap) {
  INGOT_FOR_CASES("soft_cap", c) {
    TestRows x = rows(c, "x");
    ops->soft_cap(x.rows, float(c.param<double>("cap")));
    expect_close(x.values(), c.floats("out"), 5);
  }
}

TEST_P(RowOps, CheckFinite) {
  INGOT_FOR_CASES("check_finite", c) {
    TestRows x = rows(c, "x");
    const Memory status = upload(*ops, c.values<int32_t>("status"));
    ops->check_finite(x.rows, status.buffer(), c.param<int>("tag"));
    EXPECT_EQ(download<int32_t>(*ops, status, 1), c.values<int32_t>("wanted"));
  }
}

Activation kind_of(const Case& c) {
  const auto kind = c.param<std::string>("kind");
  return kind == "silu"        ? Activation::silu
         : kind == "gelu_tanh" ? Activation::gelu_tanh
         : kind == "sigmoid"   ? Activation::sigmoid
                               : Activation::gelu_erf;
}

// Below 1e-37 the factors themselves become subnormal and lose bits.  The cases' gelu is
// 1 + tanh in float64, which far to the left is right to 1e-16 only: Functions goes
// there.
constexpr double kActivationUlps = 6;
constexpr double kSubnormal = 1e-37;
double case_error(Activation kind) {
  return kind == Activation::silu || kind == Activation::sigmoid ? kSubnormal : 2e-14;
}

TEST_P(RowOps, ActivationOp) {
  INGOT_FOR_CASES("activation", c) {
    TestRows x = rows(c, "x");
    ops->activation(x.rows, kind_of(c));
    expect_close(x.values(), c.floats("out"), kActivationUlps, case_error(kind_of(c)));
  }
}

TEST_P(RowOps, GatedActivation) {
  INGOT_FOR_CASES("gated_activation", c) {
    TestRows gate_up = rows(c, "gate_up"), out = empty(c, "out");
    ops->gated_activation(out.rows, gate_up.rows, {kind_of(c)});
    expect_close(out.values(), c.floats("out"), kActivationUlps + 1,
                 8 * case_error(kind_of(c)));
    ops->gated_activation(gate_up.rows.columns(0, out.rows.width), gate_up.rows,
                          {kind_of(c)});  // over its own first half
    const std::vector<float> in_place = gate_up.values(), apart = out.values();
    for (size_t i = 0; i < apart.size(); ++i) {
      const size_t width = size_t(out.rows.width);
      EXPECT_EQ(in_place[i / width * 2 * width + i % width], apart[i]);
    }
  }
}

TEST_P(RowOps, RopeTable) {
  INGOT_FOR_CASES("rope_table", c) {
    TestRows out = empty(c, "out");
    const Memory positions = upload(*ops, c.values<int32_t>("positions"));
    const Memory inv_freq = upload(*ops, c.floats("inv_freq"));
    Batch batch;
    batch.n_tokens = out.rows.n_rows;
    batch.positions = positions.buffer();
    const double factor = c.param<double>("factor");
    ops->rope_table(out.rows, inv_freq.buffer(), float(factor), batch);
    // The angle is a float32 product, as the models' own code forms it: 2^-24 of it.
    const std::vector<float> found = out.values(), wanted = c.floats("out");
    const std::vector<int32_t> at = c.values<int32_t>("positions");
    const std::vector<float> frequency = c.floats("inv_freq");
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t width = size_t(out.rows.width);
      const double angle =
          double(at[i / width]) * double(frequency[i % width % (width / 2)]);
      EXPECT_NEAR(found[i], wanted[i], factor * 0x1p-24 * (std::fabs(angle) + 4));
    }
  }
}

TEST_P(RowOps, Rope) {
  INGOT_FOR_CASES("rope", c) {
    TestRows x = rows(c, "x"), cos_sin = rows(c, "cos_sin");
    const bool half = c.param<std::string>("pairing") == "half_split";
    const int head_dim = c.param<int>("head_dim");
    ops->rope(x.rows, cos_sin.rows,
              {.n_heads = c.param<int>("n_heads"),
               .head_dim = head_dim,
               .rotary_dims = c.param<int>("rotary_dims"),
               .pairing = half ? RopePairing::half_split : RopePairing::interleaved});
    const std::vector<float> found = x.values(), wanted = c.floats("out"),
                             in = c.floats("x");
    float largest = 0.0f;
    for (float v : in) largest = std::max(largest, std::fabs(v));
    // Two products and a sum of values no larger than `largest`.
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], 4 * 0x1p-24 * double(largest));
  }
}

TEST_P(RowOps, AddPositionEmbed) {
  INGOT_FOR_CASES("add_position_embed", c) {
    TestRows x = rows(c, "x");
    const Memory positions = upload(*ops, c.values<int32_t>("positions"));
    const std::span<const std::byte> w = c.bytes("w");
    const auto dtype = c.param<std::string>("dtype");
    WeightRows part;
    part.dtype = dtype == "f32" ? DType::f32 : dtype == "f16" ? DType::f16 : DType::bf16;
    part.n_rows = c.param<int>("n_rows");
    part.n_cols = c.param<int>("n_cols");
    part.row = [&](int r) {
      return w.data() + size_t(r) * row_bytes(part.dtype, uint64_t(part.n_cols)).value();
    };
    const auto table = ops->pack({&part, 1});
    Batch batch;
    batch.n_tokens = x.rows.n_rows;
    batch.positions = positions.buffer();
    ops->add_position_embed(x.rows, *table, batch);
    expect_close(x.values(), c.floats("out"), 0.51);
  }
}

INGOT_ON_EVERY_TABLE(RowOps);

// ---- functions over all of float32 --------------------------------------------------

double exact(Activation kind, double x) {
  if (kind == Activation::silu) return x / (1.0 + std::exp(-x));
  if (kind == Activation::sigmoid) return 1.0 / (1.0 + std::exp(-x));
  if (kind == Activation::gelu_erf) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  const double z = 2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-z));
}

class Functions : public OnEveryTable {};

TEST_P(Functions, ActivationsOverTheirWholeRange) {
  std::vector<float> x;
  for (float magnitude = 1e-30f; magnitude < 200.0f; magnitude *= 1.0009f)
    for (float sign : {1.0f, -1.0f}) x.push_back(sign * magnitude);
  for (float v : {0.0f, 0x1p-149f, 1e-40f, 1e4f, 1e30f, FLT_MAX})
    for (float sign : {1.0f, -1.0f}) x.push_back(sign * v);
  for (Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
                          Activation::sigmoid}) {
    TestRows row(*ops, 1, int(x.size()), x);
    ops->activation(row.rows, kind);
    const std::vector<float> found = row.values();
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = exact(kind, double(x[i]));
      ASSERT_FALSE(std::isnan(found[i])) << x[i];
      if (std::fabs(double(found[i]) - wanted) < kSubnormal) continue;
      worst = std::max(worst, ulps(found[i], wanted));
    }
    EXPECT_LE(worst, kind == Activation::gelu_erf ? 6.0 : 4.0) << int(kind);
  }
}

TEST_P(Functions, SoftCapOverItsWholeRange) {
  std::vector<float> x;
  for (float magnitude = 1e-30f; magnitude < 1e5f; magnitude *= 1.001f)
    for (float sign : {1.0f, -1.0f}) x.push_back(sign * magnitude);
  for (float v : {0.0f, 0x1p-149f, 1e-40f, 1e30f, FLT_MAX})
    for (float sign : {1.0f, -1.0f}) x.push_back(sign * v);
  TestRows row(*ops, 1, int(x.size()), x);
  ops->soft_cap(row.rows, 30.0f);
  const std::vector<float> found = row.values();
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = 30.0 * std::tanh(double(x[i]) / 30.0);
    if (std::fabs(double(found[i]) - wanted) < kSubnormal) continue;  // x / 30 is one
    EXPECT_LE(ulps(found[i], wanted), 4.0) << x[i];
  }
}

// Body and tail of a vector loop give the same element the same bits.
TEST_P(Functions, BitsDoNotDependOnTheColumn) {
  Random random(31);
  const std::vector<float> values = random.floats(40, -20.0f, 20.0f);
  for (Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
                          Activation::sigmoid}) {
    TestRows all(*ops, 1, 40, values);
    ops->activation(all.rows, kind);
    const std::vector<float> wanted = all.values();
    for (int first = 0; first < 40; ++first)
      for (int n : {1, 7, 8, 9}) {
        if (first + n > 40) continue;
        TestRows some(*ops, 1, n, {values.begin() + first, values.begin() + first + n});
        ops->activation(some.rows, kind);
        EXPECT_TRUE(same_bits(some.values(),
                              {wanted.begin() + first, wanted.begin() + first + n}));
      }
  }
}

INGOT_ON_EVERY_TABLE(Functions);

}  // namespace
}  // namespace ingot
