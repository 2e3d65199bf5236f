#include "formats/gguf_types.h"

namespace ingot {
namespace {

struct TypeId {
  uint32_t id;
  DType type;
};

constexpr TypeId kTypeIds[] = {
    {0, DType::f32},      {1, DType::f16},     {2, DType::q4_0},     {3, DType::q4_1},
    {6, DType::q5_0},     {7, DType::q5_1},    {8, DType::q8_0},     {10, DType::q2_k},
    {11, DType::q3_k},    {12, DType::q4_k},   {13, DType::q5_k},    {14, DType::q6_k},
    {16, DType::iq2_xxs}, {17, DType::iq2_xs}, {18, DType::iq3_xxs}, {19, DType::iq1_s},
    {20, DType::iq4_nl},  {21, DType::iq3_s},  {22, DType::iq2_s},   {23, DType::iq4_xs},
    {24, DType::i8},      {25, DType::i16},    {26, DType::i32},     {27, DType::i64},
    {28, DType::f64},     {29, DType::iq1_m},  {30, DType::bf16},    {34, DType::tq1_0},
    {35, DType::tq2_0},   {39, DType::mxfp4},  {40, DType::nvfp4},   {41, DType::q1_0},
    {42, DType::q2_0},
};

struct MetadataType {
  std::string_view name;
  size_t least_bytes;
};

constexpr MetadataType kMetadataTypes[kGgufTypeCount] = {
    {"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
    {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 8}, {"array", 12},
    {"u64", 8}, {"i64", 8}, {"f64", 8},
};

}  // namespace

std::optional<DType> ggml_type(uint32_t id) {
  for (const TypeId& t : kTypeIds)
    if (t.id == id) return t.type;
  return std::nullopt;
}

std::optional<uint32_t> ggml_type_id(DType type) {
  for (const TypeId& t : kTypeIds)
    if (t.type == type) return t.id;
  return std::nullopt;
}

std::string_view why_no_ggml_type(uint32_t id) {
  switch (id) {
    case 9:
    case 15:
      return "a type for activations, never stored";
    case 4:
    case 5:
    case 31:
    case 32:
    case 33:
    case 36:
    case 37:
    case 38:
      return "removed from the format";
    default:
      return "unknown, of a newer format or of a fork";
  }
}

std::string_view name(GgufType type) { return kMetadataTypes[uint32_t(type)].name; }

size_t least_bytes(GgufType type) { return kMetadataTypes[uint32_t(type)].least_bytes; }

}  // namespace ingot
