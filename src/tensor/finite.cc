#include "tensor/finite.h"

#include <algorithm>
#include <cmath>

#include "tensor/dequantize.h"
#include "tensor/unpack.h"

namespace ingot {
namespace {

bool bad_f16(const uint8_t* p) { return (load_u16(p) & 0x7c00) == 0x7c00; }

// Byte offsets of a group's float16 scales; -1: none (there).
struct ScaleFields {
  int first;
  int second;
};

ScaleFields scale_fields(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108, -1};
    case DType::q6_k:
      return {208, -1};
    case DType::tq1_0:
      return {52, -1};
    case DType::tq2_0:
      return {64, -1};
    default:
      return {0, -1};
  }
}

// Whether the group at p has a scale that is no number.
bool bad_group(DType type, const uint8_t* p) {
  switch (type) {
    case DType::q8_k:
      return !std::isfinite(std::bit_cast<float>(load_u32(p)));
    case DType::mxfp4:
      return p[0] == 0xff;
    case DType::nvfp4:
      return std::any_of(p, p + 4, [](uint8_t s) { return (s & 0x7f) == 0x7f; });
    case DType::iq1_m: {  // the exponent is the top five bits of the assembled float16
      const int top = p[55] >> 4;
      const int next = p[53] >> 4;
      return (top & 7) == 7 && (next & 12) == 12;
    }
    default: {
      const ScaleFields fields = scale_fields(type);
      return bad_f16(p + fields.first) ||
             (fields.second >= 0 && bad_f16(p + fields.second));
    }
  }
}

}  // namespace

std::optional<int64_t> first_non_finite(DType type, std::span<const std::byte> bytes) {
  if (!can_dequantize(type)) return std::nullopt;
  const size_t group_bytes = size_t(info(type).group_bytes);
  const int64_t elements = info(type).group_elements;
  const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  const int64_t n = int64_t(bytes.size() / group_bytes);
  for (int64_t i = 0; i < n; ++i, p += group_bytes) {
    if (is_quantised(type)) {
      if (bad_group(type, p)) return i * elements;
    } else if (type == DType::f16) {
      if (bad_f16(p)) return i;
    } else if (type == DType::bf16) {
      if ((load_u16(p) & 0x7f80) == 0x7f80) return i;
    } else if (type == DType::f32) {
      if ((load_u32(p) & 0x7f800000u) == 0x7f800000u) return i;
    } else if (type != DType::f4_e2m1) {
      float value = 0.0f;
      dequantize_row(type, reinterpret_cast<const std::byte*>(p), {&value, 1});
      if (!std::isfinite(value)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace ingot
