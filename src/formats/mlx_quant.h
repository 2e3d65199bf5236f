// MLX-quantised weights in safetensors (formats.md 4): which weights are packed, how, and
// views of their parts.  (Interface as model/weights.cc uses it; engineer `formats` owns
// and implements this file.)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "tensor/affine.h"

namespace ingot {

// Reads config.json's "quantization" (defaults and per-module overrides) and validates every
// packed weight against it (formats.md 4.6).  Throws Error naming file, tensor, found, wanted.
class MlxQuantization {
 public:
  explicit MlxQuantization(const Checkpoint& checkpoint);

  // The packed matrix behind "NAME.weight", or nothing when it is stored plainly.
  std::optional<AffineMatrix> find(std::string_view weight_name) const;
  // The stored tensors that make it up: weight, scales and, for affine, biases.
  std::vector<std::string> tensors_of(std::string_view weight_name) const;

 private:
  std::map<std::string, AffineMatrix, std::less<>> matrices_;
};

}  // namespace ingot
