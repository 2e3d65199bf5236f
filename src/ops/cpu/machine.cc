#include "ops/cpu/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/threads.h"
#include "ops/cpu/kernels.h"

namespace ingot::cpu {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Sum of the words of kStreams parts of a range, read side by side: one stream alone does
// not keep the memory busy.
uint64_t read_streams(const uint64_t* words, size_t n) {
  constexpr size_t kStreams = 4;
  constexpr size_t kLine = 8;  // words
  const size_t part = n / kStreams / kLine * kLine;
  uint64_t sums[kLine] = {};
  for (size_t i = 0; i < part; i += kLine)
    for (size_t s = 0; s < kStreams; ++s)
      for (size_t w = 0; w < kLine; ++w) sums[w] += words[s * part + i + w];
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

// Runs `body` on every thread, five times; the best rate of `work`.
template <typename Body>
double best_rate(int n_threads, double work_per_thread, const Body& body) {
  ThreadPool pool(n_threads);
  double best = 0.0;
  for (int trial = 0; trial < 5; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(n_threads, 1, body);
    best = std::max(best, work_per_thread * n_threads / seconds_since(start));
  }
  return best;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") || line.starts_with("Model")) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  return "unknown";
}

std::vector<std::string> cpu_features() {
  std::vector<std::string> found;
  const auto note = [&](bool has, const char* name) {
    if (has) found.emplace_back(name);
  };
#if defined(__x86_64__)
  note(__builtin_cpu_supports("avx2") != 0, "avx2");
  note(__builtin_cpu_supports("fma") != 0, "fma");
  note(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  note(__builtin_cpu_supports("avx512vnni") != 0, "avx512vnni");
#elif defined(__aarch64__)
  note(true, "neon");
#endif
  return found;
}

double measure_read_bandwidth(int n_threads) {
  constexpr size_t kWords = size_t(128) << 17;  // 128 MiB a thread
  std::vector<std::unique_ptr<uint64_t[]>> memory(static_cast<size_t>(n_threads));
  std::vector<uint64_t> sums(static_cast<size_t>(n_threads));
  ThreadPool pool(n_threads);
  pool.parallel_for(n_threads, 1, [&](WorkRange range) {  // pages near their reader
    auto& words = memory[size_t(range.thread)];
    words.reset(new uint64_t[kWords]);
    std::memset(words.get(), 1, kWords * sizeof(uint64_t));
  });
  const double bytes = double(kWords * sizeof(uint64_t));
  return best_rate(n_threads, bytes,
                   [&](WorkRange range) {
                     sums[size_t(range.thread)] =
                         read_streams(memory[size_t(range.thread)].get(), kWords);
                   }) /
         1e9;
}

double measure_int8_peak(int n_threads) {
  const Kernels& kernels = choose_kernels("auto");
  constexpr int kTokens = 16, kGroups = 8, kRepeats = 4000;
  const std::vector<TileGroup> tile(kGroups, TileGroup{});
  const std::vector<ActGroup> acts(size_t(kTokens) * kGroups, ActGroup{});
  const TileFormat format{
      .range = CodeRange::u4, .zero = -8, .halves = false, .offsets = false};
  const double work = 2.0 * kTokens * kGroups * kGroupCols * kTileRows * kRepeats;
  return best_rate(n_threads, work,
                   [&](WorkRange) {
                     float acc[kTokens * kTileRows] = {};
                     for (int i = 0; i < kRepeats; ++i)
                       kernels.dot_int8(tile.data(), 1, format, kGroups, acts.data(),
                                        kTokens, kTokens, acc);
                   }) /
         1e9;
}

double measure_f32_peak(int n_threads) {
  const Kernels& kernels = choose_kernels("auto");
  constexpr int kTokens = 16, kRepeats = 2000;
  const std::vector<float> tile(size_t(kChunkCols) * kTileRows, 0.5f);
  const std::vector<float> x(size_t(kTokens) * kChunkCols, 0.5f);
  const double work = 2.0 * kTokens * kChunkCols * kTileRows * kRepeats;
  return best_rate(n_threads, work,
                   [&](WorkRange) {
                     float acc[kTokens * kTileRows] = {};
                     for (int i = 0; i < kRepeats; ++i)
                       kernels.dot_f32(tile.data(), 1, 0, kChunkCols, x.data(),
                                       kChunkCols, kTokens, acc);
                   }) /
         1e9;
}

}  // namespace ingot::cpu
