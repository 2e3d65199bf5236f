// A persistent pool that runs one parallel loop at a time.  Workers spin briefly after a
// loop (the next op follows within microseconds), then sleep: an idle pool uses no CPU.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

namespace ingot {

// Half-open range of work items given to one thread.
struct WorkRange {
  int begin;
  int end;
  int thread;  // 0 .. n_threads() - 1; 0 is the caller
};

class ThreadPool {
 public:
  explicit ThreadPool(int n_threads);  // Requires: n_threads >= 1.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;

  // Splits [0, n_items) into contiguous ranges, one a thread, in thread order and fixed
  // by (n_items, n_threads, grain) alone; each range but the last is a multiple of
  // `grain`. A thread whose range is empty is not called.  Returns when all are done. One
  // caller at a time; must not be called from `body`. `body` must not throw.  Nothing is
  // allocated.
  template <typename Body>
  void parallel_for(int n_items, int grain, const Body& body) {
    run(
        n_items, grain,
        [](const void* b, WorkRange r) { (*static_cast<const Body*>(b))(r); }, &body);
  }

 private:
  using Call = void (*)(const void* body, WorkRange range);
  void run(int n_items, int grain, Call call, const void* body);
  struct State;
  std::unique_ptr<State> state_;
};

// Threads worth using: the cores this process may run on (affinity and cgroup quota).
int default_thread_count();

// The tightest cgroup v2 CPU limit, in cores, that holds for a process whose
// /proc/self/cgroup reads `own_cgroup`; nothing when there is none.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root,
                                       std::string_view own_cgroup);

}  // namespace ingot
