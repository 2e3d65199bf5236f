// CpuOps::for_rows, for the files that implement ops.
#pragma once

#include "ops/cpu/cpu_ops.h"

namespace ingot::cpu {

constexpr int64_t kParallelElements = 16384;  // below this, waking the pool costs more

template <typename Body>
void CpuOps::for_rows(int n_rows, int width, const Body& body) {
  if (n_rows < 2 || int64_t{n_rows} * width < kParallelElements) {
    for (int t = 0; t < n_rows; ++t) body(t);
    return;
  }
  pool_.parallel_for(n_rows, 1, [&](WorkRange range) {
    for (int t = range.begin; t < range.end; ++t) body(t);
  });
}

}  // namespace ingot::cpu
