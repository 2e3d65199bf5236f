// A view of a stored tensor: type, shape, bytes.  Owns nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace ingot {

// Row-major dimensions, slowest first, as in safetensors ([out, in] for a linear weight;
// GGUF's reversed order is turned around by its loader).
using Shape = std::vector<int64_t>;

int64_t element_count(const Shape& shape);  // Requires: the product fits (loaders check).
std::string to_string(const Shape& shape);  // "[4096, 1024]"

struct TensorView {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;  // may be unaligned for its type

  // As a matrix of rows of the last dimension; zero-sized dimensions are legal.
  int64_t rows() const {
    return shape.size() < 2 ? 1 : element_count(Shape(shape.begin(), shape.end() - 1));
  }
  int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
};

}  // namespace ingot
