// Times matmul alone, warm and cold: for `ingot bench --kernels` and ops_bench.
#pragma once

#include <memory>
#include <span>

#include "ops/ops.h"

namespace ingot {

// Seconds of one call, the best of several trials.
struct MatmulTime {
  double warm = 0;  // the same weight again and again
  double cold = 0;  // the weights in turn: none is in a cache when its turn comes
};

// So many alike weights of `bytes` hold more than the last cache of this machine.
int n_cold_weights(size_t bytes);

// matmul of n_rows rows with each of `weights`, which are alike; the CPU backend on
// n_threads.  Takes some tenths of a second, longer where a single call does.  Throws
// Error of kind interrupted on Ctrl-C.
MatmulTime time_matmul(Ops& ops, int n_threads,
                       std::span<const std::unique_ptr<Weight>> weights, int n_rows);

}  // namespace ingot
