// What this machine is and what it can do, measured: for `ingot doctor` and benchmarks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ingot::cpu {

std::string cpu_name();                   // as the system tells it, or "unknown"
std::vector<std::string> cpu_features();  // those that a backend could use: "avx2", ...

// Of the last level of cache that one core reaches; a guess where the system says
// nothing.
size_t last_cache_bytes();

// Largest rate at which n_threads read memory that is beyond every cache, whatever number
// of streams each does it in, in GB/s (10^9 bytes).  Takes about a second.
double measure_read_bandwidth(int n_threads);
// Products of unsigned and signed int8 summed as int32 on n_threads, by the instructions
// made for them (AVX2: maddubs, madd, 32-bit add; AVX-512: vpdpbusd; NEON: sdot) on
// registers alone, in 10^9 multiplications and additions a second, each counted.  What a
// kernel cannot pass that forms its sums in this way; AMX's tiles can.
double measure_int8_peak(int n_threads);
// The same of float32 products and sums (fused where the machine has it).
double measure_f32_peak(int n_threads);

}  // namespace ingot::cpu
