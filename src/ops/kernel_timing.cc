#include "ops/kernel_timing.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/rng.h"
#include "ops/cpu/machine.h"

namespace ingot {
namespace {

constexpr size_t kCachesPassed = 2;     // so many times the last cache lies between turns
constexpr double kTrialSeconds = 2e-3;  // at least
constexpr double kSeconds = 0.2;        // when these are over, no further trial starts
constexpr int kTrials = 7;
constexpr int kMostCalls = 1 << 16;  // in a trial

// One thread is timed by the processor time it used, which other programs disturb less.
double now(int n_threads) {
  timespec time{};
  clock_gettime(n_threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

template <typename Call>
double best_seconds(int n_threads, const Call& call) {
  const auto seconds_of = [&](int n_calls) {
    throw_if_interrupted();
    const double start = now(n_threads);
    for (int i = 0; i < n_calls; ++i) call();
    return now(n_threads) - start;
  };
  int n_calls = 1;
  double spent = seconds_of(1);  // the warm-up
  double best = seconds_of(1);
  while (best * n_calls < kTrialSeconds && n_calls < kMostCalls) {
    n_calls *= 2;
    best = std::min(best, seconds_of(n_calls) / n_calls);
  }
  spent += best * n_calls;
  for (int trial = 0; trial < kTrials && spent < kSeconds; ++trial) {
    const double seconds = seconds_of(n_calls);
    best = std::min(best, seconds / n_calls);
    spent += seconds;
  }
  return best;
}

Ops::OwnedRows random_rows(Ops& ops, int n_rows, int width) {
  const CounterRng rng(1, 0);
  Ops::OwnedRows out = ops.allocate_rows(n_rows, width);
  std::vector<float> values(size_t(n_rows) * size_t(out.rows.stride));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(2.0 * rng.uniform(uint64_t(i)) - 1.0);
  ops.upload(out.rows.buffer, values.data(), values.size() * sizeof(float));
  return out;
}

}  // namespace

int n_cold_weights(size_t bytes) {
  const size_t wanted = kCachesPassed * cpu::last_cache_bytes();
  return 1 + int(wanted / std::max<size_t>(bytes, 1));
}

MatmulTime time_matmul(Ops& ops, int n_threads,
                       std::span<const std::unique_ptr<Weight>> weights, int n_rows) {
  CHECK(!weights.empty() && n_rows >= 1);
  const Ops::OwnedRows x = random_rows(ops, n_rows, weights[0]->n_cols);
  const Ops::OwnedRows out = ops.allocate_rows(n_rows, weights[0]->n_rows);
  MatmulTime time;
  time.warm =
      best_seconds(n_threads, [&] { ops.matmul(out.rows, x.rows, *weights[0], {}); });
  size_t next = 0;
  time.cold = best_seconds(n_threads, [&] {
    ops.matmul(out.rows, x.rows, *weights[next], {});
    next = (next + 1) % weights.size();
  });
  return time;
}

}  // namespace ingot
