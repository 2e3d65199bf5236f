// Reads what a recipe names out of a checkpoint, in the order and form that it says.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/stored_quant.h"
#include "model/recipe.h"
#include "ops/ops.h"

namespace ingot {

// Every read checks shape, type and (floats, scales) finiteness, and throws Error naming
// file and tensor.  The checkpoint and ops must outlive it.
class WeightReader {
 public:
  WeightReader(const Checkpoint& checkpoint, Ops& ops,
               std::function<void(uint64_t, uint64_t)> progress);

  // Packs the sources, their rows in order.
  std::unique_ptr<Weight> pack(const std::vector<MatrixSource>& sources);
  // The matrix as float32, row after row.
  std::vector<float> matrix_values(const MatrixSource& source);
  std::vector<float> values(const VectorSource& source);

  size_t weight_bytes() const { return weight_bytes_; }
  // After everything was read: a tensor that nobody asked for is a warning, unless it
  // would have changed the result.
  void check_unread() const;

 private:
  struct Stored;  // a named tensor, or one slice of it
  struct Owned;   // copies that rows are packed from
  Stored find(const std::string& name, int slice, int n_slices, const Shape& wanted);
  WeightRows rows_of(const MatrixSource& source, Owned& owned);
  WeightRows quantised_rows(const MatrixSource& source, const StoredWeight& weight,
                            Owned& owned);
  const std::byte* transpose(const Stored& stored, const MatrixSource& source,
                             Owned& owned);
  void check_once(const std::string& name, const StoredTensor& stored);
  void done(const MatrixSource& source);
  void done(const Stored& stored);

  const Checkpoint& checkpoint_;
  Ops& ops_;
  std::function<void(uint64_t, uint64_t)> progress_;
  StoredQuantization quantised_;
  std::set<std::string, std::less<>> read_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  size_t weight_bytes_ = 0;
};

}  // namespace ingot
