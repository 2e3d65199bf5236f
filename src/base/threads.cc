#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"

namespace ingot {
namespace {

// Long enough to bridge the gap between two ops of one step (a few microseconds), short
// enough that an idle pool is asleep before anybody notices.
constexpr std::chrono::microseconds kSpin{40};
constexpr int kChecksPerYield = 128;

// Returns when `value` no longer equals `old`: spins for kSpin, then sleeps.
template <typename T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  const auto give_up = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kChecksPerYield; ++i)
      if (value.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();  // with more threads than cores, let the others work
  } while (std::chrono::steady_clock::now() < give_up);
  value.wait(old, std::memory_order_acquire);
}

WorkRange range_of(int n_items, int grain, int n_threads, int thread) {
  const int64_t n_grains = (int64_t{n_items} + grain - 1) / grain;
  const auto bound = [&](int64_t t) {
    const int64_t grains = (n_grains * t + n_threads - 1) / n_threads;
    return int(std::min(grains * grain, int64_t{n_items}));
  };
  return {bound(thread), bound(thread + 1), thread};
}

}  // namespace

struct ThreadPool::State {
  // The loop that runs now.  Written by the caller before `epoch` grows, read by workers
  // after they saw it grow; every worker reports in `n_running` before the next loop.
  int n_items = 0;
  int grain = 1;
  Call call = nullptr;
  const void* body = nullptr;
  bool stop = false;

  alignas(64) std::atomic<uint32_t> epoch{0};
  alignas(64) std::atomic<int> n_running{0};
  std::vector<std::thread> workers;

  int n_threads() const { return int(workers.size()) + 1; }
  void work(int thread, int n_threads);
};

void ThreadPool::State::work(int thread, int n_threads) {
  for (uint32_t seen = 0;; ++seen) {
    wait_while_equal(epoch, seen);
    if (stop) return;
    const WorkRange range = range_of(n_items, grain, n_threads, thread);
    if (range.begin < range.end) call(body, range);
    if (n_running.fetch_sub(1, std::memory_order_acq_rel) == 1) n_running.notify_one();
  }
}

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  CHECK(n_threads >= 1);
  state_->workers.reserve(size_t(n_threads) - 1);
  for (int t = 1; t < n_threads; ++t)
    state_->workers.emplace_back(&State::work, state_.get(), t, n_threads);
}

ThreadPool::~ThreadPool() {
  state_->stop = true;
  state_->epoch.fetch_add(1, std::memory_order_release);
  state_->epoch.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::n_threads() const { return state_->n_threads(); }

void ThreadPool::run(int n_items, int grain, Call call, const void* body) {
  CHECK(grain >= 1);
  if (n_items <= 0) return;
  State& s = *state_;
  if (s.workers.empty() || n_items <= grain) {
    call(body, {0, n_items, 0});
    return;
  }
  s.n_items = n_items;
  s.grain = grain;
  s.call = call;
  s.body = body;
  s.n_running.store(int(s.workers.size()), std::memory_order_relaxed);
  s.epoch.fetch_add(1, std::memory_order_release);
  s.epoch.notify_all();
  call(body, range_of(n_items, grain, s.n_threads(), 0));
  for (int running; (running = s.n_running.load(std::memory_order_acquire)) != 0;)
    wait_while_equal(s.n_running, running);
}

std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root,
                                       std::string_view own_cgroup) {
  const std::string_view unified = "0::/";
  const size_t at = own_cgroup.find(unified);
  if (at == std::string_view::npos) return {};
  std::string_view inside = own_cgroup.substr(at + unified.size());
  inside = inside.substr(0, inside.find('\n'));

  // A limit set anywhere above holds below: take the tightest of the whole chain.
  std::optional<double> tightest;
  for (std::filesystem::path folder = inside;; folder = folder.parent_path()) {
    const std::filesystem::path file = root / folder / "cpu.max";
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) {
      const std::string text = read_file(file, 4096);  // "QUOTA PERIOD", "max PERIOD"
      int64_t quota = 0;
      int64_t period = 0;
      const char* end = text.data() + text.size();
      const auto first = std::from_chars(text.data(), end, quota);
      if (first.ec == std::errc() && first.ptr < end && *first.ptr == ' ' &&
          std::from_chars(first.ptr + 1, end, period).ec == std::errc() && period > 0)
        tightest = std::min(tightest.value_or(1e9), double(quota) / double(period));
    }
    if (folder.empty()) return tightest;
  }
}

int default_thread_count() {
  int n_cores = int(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    n_cores = CPU_COUNT(&allowed);
  std::optional<double> quota;
  try {
    quota = cgroup_cpu_quota("/sys/fs/cgroup", read_file("/proc/self/cgroup", 1 << 20));
  } catch (const Error&) {  // no cgroups here: the affinity alone decides
  }
  // Rounded down: a thread beyond the quota gets the whole process throttled.
  if (quota) n_cores = std::min(n_cores, int(*quota));
  return std::max(1, n_cores);
}

}  // namespace ingot
