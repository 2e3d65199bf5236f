// MLX-quantised weights among safetensors: module P is quantised when P.scales exists,
// with packed codes in P.weight (formats.md 4).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "tensor/affine.h"

namespace ingot {

class MlxQuantization {
 public:
  // Reads "quantization" of config.json and checks every quantised module (MX-1 .. MX-7,
  // but MX-4, which needs the recipe).  Throws Error naming the tensor and the rule.  The
  // checkpoint must outlive the matrices.
  explicit MlxQuantization(const Checkpoint& checkpoint);

  using Matrices = std::map<std::string, AffineMatrix, std::less<>>;  // by weight name

  bool empty() const { return matrices_.empty(); }
  const Matrices& matrices() const { return matrices_; }
  // The matrix behind "P.weight"; nothing when that is an ordinary tensor (or absent).
  // Stacked experts come as one matrix of all their rows.
  std::optional<AffineMatrix> find(std::string_view weight) const;
  // Names of the tensors that the matrix reads: weight, scales, and biases if any.
  std::vector<std::string> tensors_of(std::string_view weight) const;

 private:
  Matrices matrices_;
};

}  // namespace ingot
