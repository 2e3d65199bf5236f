// What the peaks' loops are made of, compiled for each instruction set.
#pragma once

#include <cstdint>
#include <utility>

#include "base/check.h"
#include "ops/cpu/peak_loops.h"

namespace ingot::cpu {
namespace {  // each file that includes this is compiled for its own machine

typedef uint64_t Line __attribute__((vector_size(64)));  // the compiler's own vector

// Keeps a value, and all that it is made of, in the program.
template <typename Value>
inline void keep(const Value& value) {
  asm volatile("" : : "m"(value) : "memory");
}

template <typename Sum, typename Step, size_t... kChain>
inline void run_chains(int64_t n, const Step& step, std::index_sequence<kChain...>) {
  Sum sums[sizeof...(kChain)] = {};
  for (int64_t i = 0; i < n; ++i) ((sums[kChain] = step(sums[kChain])), ...);
  Sum total = {};
  ((total += sums[kChain]), ...);
  keep(total);
}

// n times sum = step(sum) in each of kChains chains side by side, since one alone waits
// for itself.
template <size_t kChains, typename Sum, typename Step>
void run_chains(int64_t n, const Step& step) {
  run_chains<Sum>(n, step, std::make_index_sequence<kChains>());
}

template <int kStreams, bool kPrefetch>
size_t read_streams(const Line* lines, size_t n_lines) {
  // Streams a round number of lines apart would meet in the same sets of the caches.
  constexpr size_t kStagger = 67;
  constexpr size_t kAhead = 64;  // lines
  const size_t n = n_lines / kStreams - kStagger;
  Line sum = {};
  for (size_t i = 0; i < n; ++i)
    for (size_t s = 0; s < kStreams; ++s) {
      const Line* line = lines + s * n + i;
      if (kPrefetch) __builtin_prefetch(line + kAhead);
      sum += *line;
    }
  keep(sum);
  return n * kStreams * sizeof(Line);
}

template <int kStreams>
size_t read_streams(const Line* lines, size_t n_lines, bool prefetch) {
  return prefetch ? read_streams<kStreams, true>(lines, n_lines)
                  : read_streams<kStreams, false>(lines, n_lines);
}

inline size_t read_lines(const void* memory, size_t n_lines, ReadPattern pattern) {
  const auto* lines = static_cast<const Line*>(memory);
  switch (pattern.n_streams) {
    case 1:
      return read_streams<1>(lines, n_lines, pattern.prefetch);
    case 2:
      return read_streams<2>(lines, n_lines, pattern.prefetch);
    case 4:
      return read_streams<4>(lines, n_lines, pattern.prefetch);
    default:
      CHECK(pattern.n_streams == 8);
      return read_streams<8>(lines, n_lines, pattern.prefetch);
  }
}

}  // namespace
}  // namespace ingot::cpu
