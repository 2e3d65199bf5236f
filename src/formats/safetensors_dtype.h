// The dtype names of safetensors (formats.md 1.2).
#pragma once

#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace ingot {

std::optional<DType> safetensors_dtype(std::string_view name);
// "F32"; empty for a type that safetensors has no name for (ggml's).
std::string_view safetensors_name(DType type);

}  // namespace ingot
