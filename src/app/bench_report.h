// What `ingot bench MODEL` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/bench.h"
#include "app/load.h"
#include "app/machine_report.h"

namespace ingot {

// A finished row: what cli.md promises.
struct BenchRow {
  std::string test;
  double tokens_per_s = 0;
  double spread = 0;
  double seconds = 0;
  double bytes_per_token = 0;
  double gb_per_s = 0;
  double fraction = 0;
};
BenchRow bench_row(const BenchTiming& timing, const LoadedModel& model,
                   const MachineSpeed& speed);

struct MemoryUse {
  uint64_t file_bytes = 0;   // the model's weight files
  uint64_t state_bytes = 0;  // keys, values and recurrent state of the deepest test
  uint64_t peak_bytes = 0;   // most that was resident at any time, loading included
  double above() const {     // peak above file and state, as a share of them
    const double due = double(file_bytes) + double(state_bytes);
    return double(peak_bytes) / due - 1;
  }
};
// `deepest`: tokens that one sequence held at most.
MemoryUse memory_use(const LoadedModel& model, KvType type, int deepest);

struct BenchReport {
  std::string model;
  MachineFacts facts;
  MachineSpeed speed;
  int n_threads = 0;
  std::vector<BenchRow> rows;
  std::vector<FirstTokenTiming> first_token;
  std::vector<int> left_out;  // prompts of first_token that are longer than
  int longest = 0;            // this context
  std::vector<VerifyTiming> verify;
  MemoryUse memory;
};
nlohmann::ordered_json json_of(const BenchReport& report);
std::string table_of(const BenchReport& report);

}  // namespace ingot
