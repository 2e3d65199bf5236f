#include "base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

namespace {
// Counts allocations while it is on: parallel_for promises none.
std::atomic<bool> counting{false};
std::atomic<int> n_allocations{0};
}  // namespace

void* operator new(size_t n) {
  if (counting) ++n_allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace ingot {
namespace {

TEST(Threads, EveryItemOnceInOrderedAlignedRanges) {
  for (const int n_threads : {1, 2, 3, 5, 8}) {
    ThreadPool pool(n_threads);
    ASSERT_EQ(pool.n_threads(), n_threads);
    for (const int grain : {1, 3, 16, 64}) {
      for (const int n_items : {0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 1000}) {
        std::vector<WorkRange> ranges(size_t(n_threads), WorkRange{-1, -1, -1});
        pool.parallel_for(n_items, grain,
                          [&](WorkRange r) { ranges[size_t(r.thread)] = r; });
        int next = 0;
        for (int t = 0; t < n_threads; ++t) {
          const WorkRange r = ranges[size_t(t)];
          if (r.thread < 0) continue;  // no items, not called
          EXPECT_EQ(r.thread, t);
          EXPECT_EQ(r.begin, next);
          EXPECT_GT(r.end, r.begin);
          EXPECT_TRUE(r.end == n_items || (r.end - r.begin) % grain == 0);
          next = r.end;
        }
        EXPECT_EQ(next, n_items) << n_threads << " threads, grain " << grain;
      }
    }
  }
}

TEST(Threads, WorkIsSharedEvenly) {
  ThreadPool pool(4);
  std::vector<int> n_of(4, 0);
  pool.parallel_for(402, 1,
                    [&](WorkRange r) { n_of[size_t(r.thread)] = r.end - r.begin; });
  for (const int n : n_of) EXPECT_NEAR(n, 100, 1);
}

TEST(Threads, NearTheLargestInt) {
  ThreadPool pool(3);
  std::atomic<int64_t> n_seen{0};
  pool.parallel_for(2'147'483'647, 1 << 20,
                    [&](WorkRange r) { n_seen += r.end - r.begin; });
  EXPECT_EQ(n_seen, 2'147'483'647);
}

TEST(Threads, OneThreadRunsInTheCaller) {
  ThreadPool pool(1);
  std::thread::id ran_in;
  pool.parallel_for(10, 1, [&](WorkRange) { ran_in = std::this_thread::get_id(); });
  EXPECT_EQ(ran_in, std::this_thread::get_id());
}

TEST(Threads, ThreadsReallyRunAtTheSameTime) {
  ThreadPool pool(4);
  std::atomic<int> n_inside{0};
  // Each body waits for all the others: a pool that ran them in turn would never end.
  pool.parallel_for(4, 1, [&](WorkRange) {
    ++n_inside;
    while (n_inside < 4) std::this_thread::yield();
  });
  EXPECT_EQ(n_inside, 4);
}

// Loops one after another, with pauses around the moment when workers fall asleep.
TEST(Threads, ManyLoopsSeeEachOthersWrites) {
  ThreadPool pool(3);
  std::vector<int> values(97, 0);
  const int n_loops = 20'000;
  for (int loop = 0; loop < n_loops; ++loop) {
    pool.parallel_for(97, 1, [&](WorkRange r) {
      for (int i = r.begin; i < r.end; ++i) ++values[size_t(i)];
    });
    if (loop % 100 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(loop % 97));
  }
  for (const int v : values) ASSERT_EQ(v, n_loops);
}

TEST(Threads, NothingIsAllocatedInALoop) {
  ThreadPool pool(3);
  std::atomic<int> sum{0};
  n_allocations = 0;
  counting = true;
  for (int loop = 0; loop < 100; ++loop)
    pool.parallel_for(64, 1, [&](WorkRange r) { sum += r.end - r.begin; });
  counting = false;
  EXPECT_EQ(n_allocations, 0);
  EXPECT_EQ(sum, 6400);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return double(t.tv_sec) + double(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(Threads, AnIdlePoolUsesNoCpu) {
  ThreadPool pool(8);
  pool.parallel_for(64, 1, [](WorkRange) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // past the spinning
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before,
            0.01);  // eight spinning workers would use 0.3 or more
}

TEST(Threads, CgroupQuotaIsTheTightestOfTheChain) {
  const auto root = std::filesystem::temp_directory_path() /
                    ("ingot-cgroup-" + std::to_string(::getpid()));
  std::filesystem::create_directories(root / "a/b");
  std::ofstream(root / "cpu.max") << "max 100000\n";
  std::ofstream(root / "a/cpu.max") << "150000 100000\n";
  std::ofstream(root / "a/b/cpu.max") << "400000 100000\n";
  EXPECT_EQ(cgroup_cpu_quota(root, "0::/a/b\n"), 1.5);
  EXPECT_EQ(cgroup_cpu_quota(root, "12:cpu:/x\n0::/a\n"), 1.5);
  EXPECT_EQ(cgroup_cpu_quota(root, "0::/\n"), std::nullopt);
  EXPECT_EQ(cgroup_cpu_quota(root, "0::/no/such\n"), std::nullopt);
  EXPECT_EQ(cgroup_cpu_quota(root, "4:cpu,cpuacct:/a\n"),
            std::nullopt);  // version 1 only
  std::filesystem::remove_all(root);
}

TEST(Threads, DefaultCountRespectsAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(default_thread_count(), 1);
  EXPECT_LE(default_thread_count(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(default_thread_count(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace ingot
