#include "ops/cpu/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/threads.h"
#include "ops/cpu/peak_loops.h"

#if defined(__x86_64__)
#include "ops/cpu/x86_features.h"
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ingot::cpu {
namespace {

constexpr double kTrialSeconds = 0.01;  // at least: waking threads takes microseconds
constexpr size_t kLineBytes = 64;
constexpr int kPeakTrials = 15;
constexpr int64_t kRounds = 100'000;  // of a loop between two looks at the clock

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

const PeakLoops& peak_loops() {
#if defined(__x86_64__)
  if (has_avx512()) return avx512_peak();
  if (has_avx2()) return avx2_peak();
#elif defined(__aarch64__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) return neon_peak();
#endif
  return scalar_peak();
}

// Work a second of all threads in one loop: each calls `work(thread)` n_rounds times,
// which returns how much it did.
template <typename Work>
double rate(ThreadPool& pool, int n_rounds, const Work& work) {
  std::vector<double> done(static_cast<size_t>(pool.n_threads()));
  const auto start = std::chrono::steady_clock::now();
  pool.parallel_for(pool.n_threads(), 1, [&](WorkRange range) {
    double sum = 0;
    for (int i = 0; i < n_rounds; ++i) sum += work(range.thread);
    done[size_t(range.thread)] = sum;
  });
  const double seconds = seconds_since(start);
  double total = 0;
  for (const double part : done) total += part;
  return total / seconds;
}

// The best of n_trials loops of at least kTrialSeconds.
template <typename Work>
double best_rate(ThreadPool& pool, int n_trials, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  double best = rate(pool, 1, work);
  const int n_rounds = std::max(1, int(kTrialSeconds / seconds_since(start)));
  for (int trial = 0; trial < n_trials; ++trial)
    best = std::max(best, rate(pool, n_rounds, work));
  return best;
}

// Zeros for each thread to read, in large pages where the system gives them.
class ReadMemory {
 public:
  explicit ReadMemory(ThreadPool& pool) {
    constexpr size_t kAll = size_t(512) << 20, kLeast = size_t(16) << 20;
    const auto n = size_t(pool.n_threads());
    bytes_ = std::max(std::max(kAll, 16 * last_cache_bytes()) / n, kLeast);
    bytes_ = bytes_ / kLarge * kLarge;
    all_ = bytes_ * n + kLarge;
    data_ =
        mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) fail("memory: no room for {} bytes to measure with", all_);
#if defined(MADV_HUGEPAGE)
    ::madvise(data_, all_, MADV_HUGEPAGE);
#endif
    pool.parallel_for(pool.n_threads(), 1, [&](WorkRange range) {  // near their reader
      std::memset(of(range.thread), 1, bytes_);
    });
  }
  ~ReadMemory() { munmap(data_, all_); }
  ReadMemory(const ReadMemory&) = delete;
  ReadMemory& operator=(const ReadMemory&) = delete;

  size_t n_lines() const { return bytes_ / kLineBytes; }
  std::byte* of(int thread) const {
    const auto start = reinterpret_cast<uintptr_t>(data_);
    const uintptr_t aligned = (start + kLarge - 1) / kLarge * kLarge;
    return reinterpret_cast<std::byte*>(aligned) + size_t(thread) * bytes_;
  }

 private:
  static constexpr size_t kLarge = size_t(2) << 20;
  size_t bytes_ = 0;  // of each thread
  size_t all_ = 0;
  void* data_ = nullptr;
};

}  // namespace

// As the system tells it of the first core; sysconf() counts a whole socket's on some.
size_t last_cache_bytes() {
  constexpr size_t kUnknown = size_t(32) << 20;
  size_t largest = 0;
  for (int index = 0;; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" +
                       std::to_string(index) + "/size");  // "32768K"
    size_t kilobytes = 0;
    if (!(file >> kilobytes)) break;
    largest = std::max(largest, kilobytes << 10);
  }
  return largest > 0 ? largest : kUnknown;
}

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
  note(has_amx(), "amx-int8");
#elif defined(__aarch64__)
  note(true, "neon");
#endif
  return found;
}

double measure_read_bandwidth(int n_threads) {
  const PeakLoops& loops = peak_loops();
  ThreadPool pool(n_threads);
  const ReadMemory memory(pool);
  const auto trials = [&](int n, ReadPattern pattern) {
    return best_rate(pool, n, [&](int thread) {
      return double(loops.read(memory.of(thread), memory.n_lines(), pattern));
    });
  };
  double best = 0;
  ReadPattern fastest;
  for (const int n_streams : {1, 2, 4, 8})
    for (const bool prefetch : {false, true}) {
      const double found = trials(1, {n_streams, prefetch});
      if (found > best) fastest = {n_streams, prefetch};
      best = std::max(best, found);
    }
  return std::max(best, trials(5, fastest)) / 1e9;
}

double measure_int8_peak(int n_threads) {
  ThreadPool pool(n_threads);
  return best_rate(pool, kPeakTrials,
                   [](int) { return peak_loops().int8_products(kRounds); }) /
         1e9;
}

double measure_f32_peak(int n_threads) {
  ThreadPool pool(n_threads);
  return best_rate(pool, kPeakTrials,
                   [](int) { return peak_loops().f32_products(kRounds); }) /
         1e9;
}

}  // namespace ingot::cpu
