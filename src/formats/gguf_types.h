// The numbers that GGUF gives to tensor types and metadata types (formats.md 2.1, 2.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace ingot {

// The type of a stored tensor; nothing for ids that are unknown, removed, or only for
// activations (Q8_1, Q8_K).
std::optional<DType> ggml_type(uint32_t id);
// The number of a type; nothing for those that GGUF does not have.
std::optional<uint32_t> ggml_type_id(DType type);
// Why ggml_type(id) is nothing: "removed from the format", "...".
std::string_view why_no_ggml_type(uint32_t id);

enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

std::string_view name(GgufType type);
// Bytes of one value in the file; for a string the least it can take.
size_t least_bytes(GgufType type);

}  // namespace ingot
