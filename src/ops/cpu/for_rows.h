// CpuOps::for_rows, for the files that implement ops.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cpu/cpu_ops.h"

namespace ingot::cpu {

constexpr int64_t kParallelElements = 16384;    // below this, waking the pool costs more
constexpr int64_t kParallelProducts = 1 << 17;  // likewise, in multiply-adds: some 10 us

// The grain of a parallel loop whose items cost `products` multiply-adds each.
inline int grain_of(int64_t products) {
  return int(std::clamp<int64_t>(kParallelProducts / std::max<int64_t>(products, 1), 1,
                                 kParallelProducts));
}

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
