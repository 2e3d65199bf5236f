// What this machine is and how fast it reads and counts: for `bench` and `doctor`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ingot {

struct MachineFacts {
  std::string cpu;
  int n_cores = 0;                         // that this process may run on
  std::vector<std::string> features;       // of the CPU, those that kernels could use
  std::string backend;                     // what "auto" chooses: "cpu-avx2"
  std::vector<std::string> kernel_tables;  // all that this build and CPU have
  uint64_t memory_bytes = 0;
  uint64_t available_bytes = 0;  // without pushing anything out
};
MachineFacts machine_facts();

// Measured, with so many threads.
struct MachineSpeed {
  double read_bytes_per_s = 0;
  double int8_operations_per_s = 0;  // multiplications and additions
  double f32_operations_per_s = 0;
};
MachineSpeed measure_machine(int n_threads);
// The better of two measurements, each speed for itself.
MachineSpeed faster(const MachineSpeed& a, const MachineSpeed& b);

// "CPU, 2 threads, cpu-avx2: reads 20.1 GB/s, ..." and a new line.
std::string machine_line(const MachineFacts& facts, const MachineSpeed& speed,
                         int n_threads);

nlohmann::ordered_json machine_json(const MachineFacts& facts, const MachineSpeed& speed,
                                    int n_threads);

// The most memory that this process has had resident, mapped files included.
uint64_t peak_resident_bytes();

// {"version", "compiler", "numerics_version"}
nlohmann::ordered_json build_json();

}  // namespace ingot
