// Random weights of every stored type, and their values in double.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/ops_testing.h"
#include "tensor/affine.h"
#include "tensor/dtype.h"

namespace ingot {

// One way to store a matrix.
struct WeightKind {
  std::string name;
  DType dtype = DType::f32;
  bool affine = false;
  AffineMode mode = AffineMode::affine;
  int bits = 4;
  int group_size = 64;
  DType scale_dtype = DType::f16;
  bool act_order = false;  // columns belong to groups in no order

  int column_step() const;  // n_cols is a multiple of this
};
std::vector<WeightKind> weight_kinds();

// A random matrix [n_rows, n_cols]: the stored bytes, unaligned, and what they mean.
class TestWeight {
 public:
  TestWeight(const WeightKind& kind, int n_rows, int n_cols, Random& random);
  WeightRows source() const;
  const WeightKind& kind() const { return kind_; }
  bool quantised() const;  // meets int8 activations
  int n_rows() const { return n_rows_; }
  int n_cols() const { return n_cols_; }
  double value(int row, int col) const { return values_[index(row, col)]; }
  // |scale * code| + |offset| of the element, what rounding is relative to.
  double size(int row, int col) const { return sizes_[index(row, col)]; }
  size_t stored_bytes() const { return bytes_.size(); }

 private:
  size_t index(int row, int col) const {
    return size_t(row) * size_t(n_cols_) + size_t(col);
  }
  void fill_affine(Random& random);
  void measure_affine_row(int row);
  void fill_row(int row, Random& random);
  AffineMatrix matrix() const;

  WeightKind kind_;
  int n_rows_, n_cols_;
  size_t row_size_ = 0;
  std::vector<std::byte> bytes_, scales_, biases_;  // one byte before the first element
  std::vector<int32_t> group_of_column_;
  std::vector<double> values_, sizes_;
};

}  // namespace ingot
