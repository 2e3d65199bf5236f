// The table of matmul's kernels: every form has its boundary, and matmul_test.cc, which
// compares the bits of 1 to 64 rows, stands on both sides of each.
#include "ops/cpu/variants.h"

#include <gtest/gtest.h>

#include "ops/weights_testing.h"

namespace ingot::cpu {
namespace {

constexpr int kRowsCompared = 64;  // by Matmul.RowsHaveTheSameBitsAtEveryCount

TEST(Variants, ABoundaryLiesWhereBitsAreCompared) {
  const Kernels& kernels = choose_kernels("auto");
  ThreadPool pool(1);
  Random random(67);
  for (const WeightKind& kind : weight_kinds()) {
    const int step = kind.column_step();
    const TestWeight weight(kind, 8, step * (256 / step + 1), random);
    const WeightRows part[] = {weight.source()};
    const auto packed = pack_weight(kernels, part, pool);
    const WeightSegment& segment = packed->segments[0];
    for (const ActMode act : {ActMode::automatic, ActMode::f32}) {
      const int most = most_few_rows(segment, act);
      ASSERT_LT(most, kRowsCompared) << kind.name;
      EXPECT_EQ(variant_of(segment, most + 1, act), MatmulVariant::many_rows);
      if (most > 0) {
        EXPECT_EQ(variant_of(segment, most, act), MatmulVariant::few_rows);
      }
      // Integer kernels have no place where activations are floats.
      if (act == ActMode::f32 && segment.has_codes()) {
        EXPECT_EQ(most, 0) << kind.name;
      }
    }
    if (kernels.isa != "scalar" && segment.few_rows != nullptr) {
      EXPECT_GT(most_few_rows(segment, ActMode::automatic), 0) << kind.name;
    }
  }
}

}  // namespace
}  // namespace ingot::cpu
