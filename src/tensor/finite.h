// Whether stored weights are numbers at all (formats.md GG-22): one NaN scale becomes NaN
// logits a few layers on, far from its cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace ingot {

// The first element that is NaN or infinite, or in a group whose scale is; nothing when
// all are finite.  Of quantised groups only the scales are read.  Integers are always
// finite.
std::optional<int64_t> first_non_finite(DType type, std::span<const std::byte> bytes);

}  // namespace ingot
