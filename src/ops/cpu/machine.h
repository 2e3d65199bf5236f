// What this machine is and what it can do, measured: for `ingot doctor` and benchmarks.
#pragma once

#include <string>
#include <vector>

namespace ingot::cpu {

std::string cpu_name();                   // as the system tells it, or "unknown"
std::vector<std::string> cpu_features();  // those that a backend could use: "avx2", ...

// Largest rate at which n_threads read memory that is beyond every cache, each over
// several streams, in GB/s (10^9 bytes).  Takes about a second.
double measure_read_bandwidth(int n_threads);
// Products of int8 pairs a second on n_threads, in 10^9 multiplications and additions
// each counted, by the integer kernel of the best instruction set, weights in cache.
double measure_int8_peak(int n_threads);
// The same for the float kernel.
double measure_f32_peak(int n_threads);

}  // namespace ingot::cpu
