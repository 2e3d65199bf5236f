// `ingot bench --kernels`: the matrix products of a model alone, without the model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/machine_report.h"
#include "app/options.h"
#include "ops/kernel_timing.h"

namespace ingot {

// One kind of weight in the model, met by so many rows.
struct KernelRow {
  std::string type;  // as stored: "q4_k", "q4_k+q6_k" where stacked parts differ
  int n_rows = 0;    // of the weight [n_rows, n_cols]
  int n_cols = 0;
  int count = 0;         // such weights in the model
  bool integer = false;  // meets int8 activations
  size_t bytes = 0;      // that one pass reads
  int n_tokens = 0;      // rows of activations
  MatmulTime time;

  double gb_per_s(double seconds) const { return double(bytes) / seconds / 1e9; }
  double operations() const { return 2.0 * n_tokens * double(n_rows) * n_cols; }
};

struct KernelReport {
  std::string model;
  MachineFacts facts;
  MachineSpeed speed;
  int n_threads = 0;
  std::vector<KernelRow> rows;
};

// Packs as many weights of a kind as a cold pass needs, times them with 1, 4 and 512
// rows, and goes on to the next kind.
KernelReport time_kernels(const MachineFlags& flags);
nlohmann::ordered_json json_of(const KernelReport& report);
std::string table_of(const KernelReport& report);

}  // namespace ingot
