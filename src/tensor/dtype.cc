#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace ingot {
namespace {

constexpr std::array<DTypeInfo, size_t(DType::count_)> kInfo = {{
    // name, values in a group, bytes of a group, quantised
    {"f32", 1, 4, false},         {"f16", 1, 2, false},
    {"bf16", 1, 2, false},        {"f64", 1, 8, false},
    {"i8", 1, 1, false},          {"i16", 1, 2, false},
    {"i32", 1, 4, false},         {"i64", 1, 8, false},
    {"u8", 1, 1, false},          {"u16", 1, 2, false},
    {"u32", 1, 4, false},         {"u64", 1, 8, false},
    {"bool", 1, 1, false},        {"f8_e4m3", 1, 1, false},
    {"f8_e5m2", 1, 1, false},     {"f8_e8m0", 1, 1, false},
    {"f8_e4m3fnuz", 1, 1, false}, {"f8_e5m2fnuz", 1, 1, false},
    {"f6_e2m3", 4, 3, false},     {"f6_e3m2", 4, 3, false},
    {"f4_e2m1", 2, 1, false},     {"c64", 1, 8, false},
    {"q4_0", 32, 18, true},       {"q4_1", 32, 20, true},
    {"q5_0", 32, 22, true},       {"q5_1", 32, 24, true},
    {"q8_0", 32, 34, true},       {"q8_1", 32, 36, true},
    {"q2_k", 256, 84, true},      {"q3_k", 256, 110, true},
    {"q4_k", 256, 144, true},     {"q5_k", 256, 176, true},
    {"q6_k", 256, 210, true},     {"q8_k", 256, 292, true},
    {"iq2_xxs", 256, 66, true},   {"iq2_xs", 256, 74, true},
    {"iq3_xxs", 256, 98, true},   {"iq1_s", 256, 50, true},
    {"iq4_nl", 32, 18, true},     {"iq3_s", 256, 110, true},
    {"iq2_s", 256, 82, true},     {"iq4_xs", 256, 136, true},
    {"iq1_m", 256, 56, true},     {"tq1_0", 256, 54, true},
    {"tq2_0", 256, 66, true},     {"mxfp4", 32, 17, true},
    {"nvfp4", 64, 36, true},      {"q1_0", 128, 18, true},
    {"q2_0", 64, 18, true},
}};

}  // namespace

const DTypeInfo& info(DType type) {
  CHECK(size_t(type) < kInfo.size());
  return kInfo[size_t(type)];
}

std::optional<DType> dtype_named(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i)
    if (kInfo[i].name == name) return DType(i);
  return std::nullopt;
}

std::optional<size_t> row_bytes(DType type, uint64_t n) {
  const DTypeInfo& t = info(type);
  if (n % uint64_t(t.group_elements) != 0) return std::nullopt;
  size_t bytes = 0;
  if (__builtin_mul_overflow(n / uint64_t(t.group_elements), size_t(t.group_bytes),
                             &bytes))
    return std::nullopt;
  return bytes;
}

}  // namespace ingot
