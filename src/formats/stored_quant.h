// Quantised weights among safetensors, whoever wrote them: MLX, FP8, GPTQ, AWQ, gpt-oss'
// MXFP4, compressed-tensors (formats.md 4 - 6).  One lookup by the name that the weight
// would have unquantised: "P.weight", or "P" for stacked experts stored under no suffix.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "tensor/affine.h"

namespace ingot {

// A matrix as Ops::pack takes it (WeightRows::affine).  Spans of `matrix` point into the
// checkpoint or into the vectors here, and stay valid when this is moved.
struct StoredMatrix {
  StoredMatrix() = default;
  StoredMatrix(StoredMatrix&&) = default;
  StoredMatrix& operator=(StoredMatrix&&) = default;
  StoredMatrix(const StoredMatrix&) = delete;
  StoredMatrix& operator=(const StoredMatrix&) = delete;

  AffineMatrix matrix;
  std::vector<std::byte> codes, scales, biases;
  std::vector<int32_t> group_of_column;
};

// One weight: [n_slices, n_rows, n_cols] with outputs as rows, whatever the file has.
struct StoredWeight {
  std::string scheme;                // "gptq 4 bits", for messages and inspect
  std::vector<std::string> tensors;  // all that belong to it
  int n_slices = 1;
  int n_rows = 0;  // of a slice
  int n_cols = 0;
  // The rows with these numbers among all n_slices * n_rows.
  std::function<StoredMatrix(std::span<const int> rows)> read;
};
using StoredWeights = std::map<std::string, StoredWeight, std::less<>>;

// Whether the checkpoint has a weight of this name, stored as it is or packed under other
// names ("P.qweight" for "P.weight", "X_blocks" for "X").
bool has_weight(const Checkpoint& checkpoint, std::string_view weight);

class StoredQuantization {
 public:
  // Reads the config's method and checks names, types and shapes of every quantised
  // tensor (QC-1 .. QC-5, MX-1 .. MX-7).  Throws Error naming file, tensor, found and
  // wanted.  The checkpoint must outlive this and the matrices.
  explicit StoredQuantization(const Checkpoint& checkpoint);

  bool empty() const { return weights_.empty(); }
  // nullptr when that is an ordinary tensor (or absent).
  const StoredWeight* find(std::string_view weight) const;
  // The rows `rows` of slice `slice` in that order; of the whole stack when slice is -1,
  // every row when `rows` is empty.  Also checks the values that are read: scales finite
  // (QC-6), no NaN codes, g_idx within the groups.
  // Requires: find(weight), and rows within the slice.
  StoredMatrix read(std::string_view weight, int slice = -1,
                    std::span<const int> rows = {}) const;
  // Names of the tensors that the weight is read from; empty when it is not quantised.
  std::vector<std::string> tensors_of(std::string_view weight) const;
  const StoredWeights& weights() const { return weights_; }

 private:
  StoredWeights weights_;
};

}  // namespace ingot
