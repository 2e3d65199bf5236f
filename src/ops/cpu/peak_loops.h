// Loops that do nothing but what a machine's peaks are counted in, one thread each: the
// yardstick beside which kernels are measured, and so none of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot::cpu {

// How memory is walked: in so many streams side by side, with or without asking for lines
// ahead of time.
struct ReadPattern {
  int n_streams = 1;  // 1, 2, 4 or 8
  bool prefetch = false;
};

struct PeakLoops {
  // Reads n_lines cache lines, less a few at the streams' ends; returns the bytes read.
  size_t (*read)(const void* lines, size_t n_lines, ReadPattern pattern);
  // Products of unsigned and signed int8, summed as int32, and float32 multiply-adds: n
  // rounds on registers alone; return the multiplications and additions done.
  double (*int8_products)(int64_t n);
  double (*f32_products)(int64_t n);
};

const PeakLoops& scalar_peak();
#if defined(__x86_64__)
const PeakLoops& avx2_peak();
const PeakLoops& avx512_peak();  // with VNNI
#elif defined(__aarch64__)
const PeakLoops& neon_peak();  // needs dot product instructions
#endif

}  // namespace ingot::cpu
