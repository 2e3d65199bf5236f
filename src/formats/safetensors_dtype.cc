#include "formats/safetensors_dtype.h"

namespace ingot {
namespace {

struct Name {
  std::string_view name;
  DType type;
};

constexpr Name kNames[] = {
    {"BOOL", DType::boolean},
    {"F4", DType::f4_e2m1},
    {"F6_E2M3", DType::f6_e2m3},
    {"F6_E3M2", DType::f6_e3m2},
    {"U8", DType::u8},
    {"I8", DType::i8},
    {"F8_E5M2", DType::f8_e5m2},
    {"F8_E4M3", DType::f8_e4m3},
    {"F8_E8M0", DType::f8_e8m0},
    {"F8_E4M3FNUZ", DType::f8_e4m3fnuz},
    {"F8_E5M2FNUZ", DType::f8_e5m2fnuz},
    {"I16", DType::i16},
    {"U16", DType::u16},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"I32", DType::i32},
    {"U32", DType::u32},
    {"F32", DType::f32},
    {"C64", DType::c64},
    {"F64", DType::f64},
    {"I64", DType::i64},
    {"U64", DType::u64},
};

}  // namespace

std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const Name& n : kNames)
    if (n.name == name) return n.type;
  return std::nullopt;
}

std::string_view safetensors_name(DType type) {
  for (const Name& n : kNames)
    if (n.type == type) return n.name;
  return {};
}

}  // namespace ingot
