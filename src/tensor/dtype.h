// Element types of stored tensors: safetensors scalars, every ggml type, and the packed
// MLX kinds.  A type is a run of `group_elements` values in `group_bytes` bytes (1 and
// the element size for scalars; two per byte for 4-bit ones).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot {

// clang-format off
enum class DType : uint8_t {
  // Scalars.
  f32, f16, bf16, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean,
  f8_e4m3, f8_e5m2, f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz, f6_e2m3, f6_e3m2, f4_e2m1, c64,
  // ggml quantised types (formats.md 3.3).
  q4_0, q4_1, q5_0, q5_1, q8_0, q8_1, q2_k, q3_k, q4_k, q5_k, q6_k, q8_k,
  iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq4_nl, iq3_s, iq2_s, iq4_xs, iq1_m,
  tq1_0, tq2_0, mxfp4, nvfp4, q1_0, q2_0,
  count_,
};
// clang-format on

struct DTypeInfo {
  std::string_view name;  // as `ingot inspect` prints it: "q4_k", "bf16"
  int group_elements;     // values in one group
  int group_bytes;        // bytes of one group
  bool quantised;         // a ggml quantised type
};

const DTypeInfo& info(DType type);
inline std::string_view name(DType type) { return info(type).name; }
inline bool is_quantised(DType type) { return info(type).quantised; }
// The type that `ingot inspect` prints so; nothing when there is none.
std::optional<DType> dtype_named(std::string_view name);

// Bytes of `n` values in a row; nothing when n is no multiple of the group or it
// overflows.
std::optional<size_t> row_bytes(DType type, uint64_t n);

}  // namespace ingot
