#include "tensor/tensor.h"

#include <fmt/format.h>

#include "base/check.h"

namespace ingot {

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t dimension : shape)
    CHECK(!__builtin_mul_overflow(count, dimension, &count));
  return count;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace ingot
