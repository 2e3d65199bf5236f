// matmul alone on random weights of one shape: GB/s of weights, warm and from memory,
// against the memory's own rate, and products a second.  (`ingot bench --kernels` times
// the shapes of a model.)  Usage: ops_bench [threads] [table of kernels] [type ...]
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/cpu/machine.h"
#include "ops/kernel_timing.h"
#include "ops/ops.h"
#include "ops/weights_testing.h"

namespace ingot {
namespace {

constexpr int kCols = 1536;
constexpr int kRows = 1536;

struct Peaks {
  double bandwidth = 0;   // GB/s
  double arithmetic = 0;  // Gop/s
};

void bench(Ops& ops, const WeightKind& kind, const Peaks& peaks, int n_threads) {
  Random random(1);
  const TestWeight source(kind, kRows, kCols, random);
  const WeightRows parts[] = {source.source()};
  std::vector<std::unique_ptr<Weight>> weights;
  weights.push_back(ops.pack(parts));
  const auto bytes = double(weights[0]->bytes);
  for (int i = n_cold_weights(weights[0]->bytes); i > 1; --i)
    weights.push_back(ops.pack(parts));
  std::string line = fmt::format("{:12}", kind.name);
  for (const int n : {1, 2, 4, 8}) {
    const MatmulTime time = time_matmul(ops, n_threads, weights, n);
    const double rate = bytes / time.cold / 1e9;
    line += fmt::format("  {}: {:5.1f} ({:5.1f}) GB/s {:3.0f}%", n, rate,
                        bytes / time.warm / 1e9, 100.0 * rate / peaks.bandwidth);
  }
  constexpr int kMany = 512;
  const MatmulTime time = time_matmul(ops, n_threads, weights, kMany);
  const double gops = 2.0 * kMany * kRows * kCols / time.cold / 1e9;
  fmt::print("{}  {}: {:6.1f} Gop/s {:3.0f}%\n", line, kMany, gops,
             100.0 * gops / peaks.arithmetic);
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  using namespace ingot;
  const int n_threads = argc > 1 ? std::stoi(argv[1]) : 1;
  std::string isa = "auto";
  for (const cpu::Kernels* table : cpu::kernel_tables())
    if (argc > 2 && argv[2] == table->isa) isa = table->isa;
  const int first_type = isa == "auto" ? 2 : 3;
  std::vector<std::string> names = {"q8_0", "q5_0", "q4_0", "q4_1", "q4_k",
                                    "q6_k", "f32",  "f16",  "bf16"};
  if (argc > first_type) names.assign(argv + first_type, argv + argc);
  const double bandwidth = cpu::measure_read_bandwidth(n_threads);
  const double int8 = cpu::measure_int8_peak(n_threads);
  const double f32 = cpu::measure_f32_peak(n_threads);
  fmt::print(
      "{}, {} threads: reads {:.1f} GB/s, int8 {:.0f} Gop/s, float {:.0f} Gop/s\n"
      "type          rows: GB/s cold (warm), cold of what memory gives\n",
      cpu::cpu_name(), n_threads, bandwidth, int8, f32);
  for (const ActMode act : {ActMode::automatic, ActMode::f32}) {
    const auto ops = make_ops(isa, n_threads, act);
    fmt::print("{}, activations {}\n", ops->name(),
               act == ActMode::f32 ? "f32" : "automatic");
    for (const WeightKind& kind : weight_kinds()) {
      if (std::find(names.begin(), names.end(), kind.name) == names.end()) continue;
      const bool integer =
          act == ActMode::automatic && (kind.affine || is_quantised(kind.dtype));
      bench(*ops, kind, {bandwidth, integer ? int8 : f32}, n_threads);
    }
  }
}
