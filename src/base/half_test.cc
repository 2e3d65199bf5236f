// float16 and bfloat16 against plain arithmetic: a value is mantissa * 2^exponent,
// computed in double with ldexp, and rounding is a search for the nearest of all 65536
// values.
#include "base/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ingot {
namespace {

// The value of a small float with `n_mantissa` bits of mantissa, from its definition.
double value_of(uint16_t bits, int n_mantissa) {
  const int n_exponent = 15 - n_mantissa;
  const int bias = (1 << (n_exponent - 1)) - 1;
  const int exponent = (bits >> n_mantissa) & ((1 << n_exponent) - 1);
  const int mantissa = bits & ((1 << n_mantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << n_exponent) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - n_mantissa);
  return sign * std::ldexp(mantissa + (1 << n_mantissa), exponent - bias - n_mantissa);
}

// Nearest representable magnitude, ties to the even code; past the largest by half a step
// or more, infinity.  Codes of non-negative values are ordered as the values are.
class Rounder {
 public:
  explicit Rounder(int n_mantissa) {
    for (uint32_t code = 0; code < 0x8000; ++code) {
      const double v = value_of(uint16_t(code), n_mantissa);
      if (!std::isfinite(v)) break;
      values_.push_back(v);
    }
    // What would follow if the exponent had one more step: its code is infinity's.
    const size_t n = values_.size();
    values_.push_back(2 * values_[n - 1] - values_[n - 2]);
  }
  uint16_t operator()(float x) const {
    const double magnitude = std::fabs(double(x));
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return uint16_t(sign | (values_.size() - 1));
    const auto code = size_t(above - values_.begin());
    if (code == 0 || values_[code] == magnitude) return uint16_t(sign | code);
    const double up = values_[code] - magnitude;
    const double down = magnitude - values_[code - 1];
    const bool take_up = up < down || (up == down && code % 2 == 0);
    return uint16_t(sign | (take_up ? code : code - 1));
  }

 private:
  std::vector<double> values_;
};

struct Kind {
  const char* name;
  int n_mantissa;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};

class HalfKinds : public testing::TestWithParam<Kind> {};

TEST_P(HalfKinds, WidensAll65536ValuesExactly) {
  const Kind kind = GetParam();
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const double wanted = value_of(uint16_t(code), kind.n_mantissa);
    const float got = kind.widen(uint16_t(code));
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(got)) << code;
    } else {
      ASSERT_EQ(double(got), wanted) << code;
      ASSERT_EQ(std::signbit(got), (code & 0x8000) != 0) << code;
    }
  }
}

TEST_P(HalfKinds, NarrowsEveryWidenedValueBack) {
  const Kind kind = GetParam();
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float wide = kind.widen(uint16_t(code));
    const uint16_t back = kind.narrow(wide);
    if (std::isnan(wide))
      ASSERT_TRUE(std::isnan(value_of(back, kind.n_mantissa))) << code;
    else
      ASSERT_EQ(back, code);
  }
}

// Each midpoint between neighbours, and the floats just below and above it.
TEST_P(HalfKinds, RoundsMidpointsToEvenAndTheirNeighboursToNearest) {
  const Kind kind = GetParam();
  const Rounder round(kind.n_mantissa);
  for (uint32_t code = 0; code + 1 < 0x8000; ++code) {
    const double low = value_of(uint16_t(code), kind.n_mantissa);
    double high = value_of(uint16_t(code + 1), kind.n_mantissa);
    if (!std::isfinite(low)) break;
    if (std::isinf(high)) high = low + std::ldexp(1.0, std::ilogb(low) - kind.n_mantissa);
    const auto middle = float(low + (high - low) / 2);
    for (const float x :
         {std::nextafterf(middle, 0.0f), middle,
          std::nextafterf(middle, std::numeric_limits<float>::infinity())}) {
      ASSERT_EQ(kind.narrow(x), round(x)) << x;
      ASSERT_EQ(kind.narrow(-x), round(-x)) << x;
    }
  }
}

TEST_P(HalfKinds, RoundsRandomBitPatterns) {
  const Kind kind = GetParam();
  const Rounder round(kind.n_mantissa);
  std::mt19937 random(20261130);
  for (int i = 0; i < 200'000; ++i) {
    const auto x = std::bit_cast<float>(uint32_t(random()));
    if (std::isnan(x))
      ASSERT_TRUE(std::isnan(kind.widen(kind.narrow(x))));
    else
      ASSERT_EQ(kind.narrow(x), round(x)) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(, HalfKinds,
                         testing::Values(Kind{"f16", 10, f16_to_f32, f32_to_f16},
                                         Kind{"bf16", 7, bf16_to_f32, f32_to_bf16}),
                         [](const auto& param) { return param.param.name; });

// Published anchors (IEEE 754 binary16), so that value_of itself is not alone.
TEST(Half, KnownValues) {
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);
  EXPECT_EQ(bf16_to_f32(0x3f80), 1.0f);
  EXPECT_EQ(f32_to_bf16(3.14159274f), 0x4049);
}

}  // namespace
}  // namespace ingot
