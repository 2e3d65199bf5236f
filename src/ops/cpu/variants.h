// Which of a matmul's kernels runs: a table over the weight's form and the rows of a
// step. All of them give the same bits; the tests stand on both sides of every boundary.
#pragma once

#include "ops/cpu/packed.h"

namespace ingot::cpu {

enum class MatmulVariant : uint8_t {
  few_rows,   // straight from the packed tile, unpacked in registers
  many_rows,  // unpacked into the first-level cache, for all rows of a pass
};

// The most rows that meet the segment by its kernel for few rows; 0 where it has none.
int most_few_rows(const WeightSegment& segment, ActMode act);

MatmulVariant variant_of(const WeightSegment& segment, int n_rows, ActMode act);

}  // namespace ingot::cpu
