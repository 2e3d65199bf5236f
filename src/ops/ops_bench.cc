// matmul alone: GB/s of weights against the memory's own rate, and products a second.
// Weights are rotated past the caches: enough matrices that none is still there when its
// turn comes.  Usage: ops_bench [threads] [type ...]
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "ops/cpu/machine.h"
#include "ops/ops.h"
#include "ops/weights_testing.h"

namespace ingot {
namespace {

constexpr int kCols = 1536;
constexpr int kRows = 1536;
constexpr size_t kWorkingSet = size_t(96) << 20;

// One thread is timed by the processor time it used, which other programs disturb less.
double now(int n_threads) {
  timespec time{};
  clock_gettime(n_threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void bench(Ops& ops, const WeightKind& kind, double bandwidth, int n_threads) {
  Random random(1);
  const TestWeight source(kind, kRows, kCols, random);
  const WeightRows parts[] = {source.source()};
  std::vector<std::unique_ptr<Weight>> weights;
  size_t bytes = 0;
  while (bytes < kWorkingSet) {
    weights.push_back(ops.pack(parts));
    bytes += weights.back()->bytes;
  }
  std::string line = fmt::format("{:12}", kind.name);
  for (int n : {1, 2, 4, 8, 512}) {
    TestRows x(ops, n, kCols, random.floats(n * kCols), 0);
    TestRows out(ops, n, kRows, 0);
    std::vector<double> times;
    const size_t used = n > 8 ? std::min<size_t>(weights.size(), 4) : weights.size();
    for (int trial = 0; trial < (n > 8 ? 3 : 5); ++trial) {
      const double start = now(n_threads);
      for (size_t i = 0; i < used; ++i) ops.matmul(out.rows, x.rows, *weights[i], {});
      times.push_back((now(n_threads) - start) / double(used));
    }
    std::sort(times.begin(), times.end());
    const double time = times.front();
    const double rate = double(weights[0]->bytes) / time / 1e9;
    const double gops = 2.0 * n * kRows * kCols / time / 1e9;
    line += n > 8 ? fmt::format("  {:3}: {:6.1f} Gop/s", n, gops)
                  : fmt::format("  {}: {:5.1f} GB/s {:3.0f}%", n, rate,
                                100.0 * rate / bandwidth);
  }
  fmt::print("{}\n", line);
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  using namespace ingot;
  const int n_threads = argc > 1 ? std::stoi(argv[1]) : 1;
  std::vector<std::string> names = {"q8_0", "q5_0", "q4_0", "q4_1", "q4_k",
                                    "q6_k", "f32",  "f16",  "bf16"};
  if (argc > 2) names.assign(argv + 2, argv + argc);
  const double bandwidth = cpu::measure_read_bandwidth(n_threads);
  fmt::print("{}, {} threads: reads {:.1f} GB/s, int8 {:.0f} Gop/s, float {:.0f} Gop/s\n",
             cpu::cpu_name(), n_threads, bandwidth, cpu::measure_int8_peak(n_threads),
             cpu::measure_f32_peak(n_threads));
  for (ActMode act : {ActMode::automatic, ActMode::f32}) {
    const auto ops = make_ops("auto", n_threads, act);
    fmt::print("activations {}\n", act == ActMode::f32 ? "f32" : "automatic");
    for (const WeightKind& kind : weight_kinds())
      if (std::find(names.begin(), names.end(), kind.name) != names.end())
        bench(*ops, kind, bandwidth, n_threads);
  }
}
