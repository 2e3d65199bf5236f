#include "tensor/dequantize.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "tensor/unpack.h"

namespace ingot {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read as they lie");

template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <typename Bits, float (*widen)(Bits)>
void widen_row(const std::byte* source, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = widen(load<Bits>(source + i * sizeof(Bits)));
}

float round_f64(double value) { return float(value); }

void dequantize_f4(const std::byte* source, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto byte = uint8_t(source[i / 2]);
    out[i] = f4_e2m1_to_f32(i % 2 == 0 ? byte & 15 : byte >> 4);
  }
}

UnpackGroup unpacker(DType type) {
  switch (type) {
    case DType::q4_0:
      return unpack_q4_0;
    case DType::q4_1:
      return unpack_q4_1;
    case DType::q5_0:
      return unpack_q5_0;
    case DType::q5_1:
      return unpack_q5_1;
    case DType::q8_0:
      return unpack_q8_0;
    case DType::q8_1:
      return unpack_q8_1;
    case DType::q2_k:
      return unpack_q2_k;
    case DType::q3_k:
      return unpack_q3_k;
    case DType::q4_k:
      return unpack_q4_k;
    case DType::q5_k:
      return unpack_q5_k;
    case DType::q6_k:
      return unpack_q6_k;
    case DType::q8_k:
      return unpack_q8_k;
    case DType::iq2_xxs:
      return unpack_iq2_xxs;
    case DType::iq2_xs:
      return unpack_iq2_xs;
    case DType::iq3_xxs:
      return unpack_iq3_xxs;
    case DType::iq1_s:
      return unpack_iq1_s;
    case DType::iq4_nl:
      return unpack_iq4_nl;
    case DType::iq3_s:
      return unpack_iq3_s;
    case DType::iq2_s:
      return unpack_iq2_s;
    case DType::iq4_xs:
      return unpack_iq4_xs;
    case DType::iq1_m:
      return unpack_iq1_m;
    case DType::tq1_0:
      return unpack_tq1_0;
    case DType::tq2_0:
      return unpack_tq2_0;
    case DType::mxfp4:
      return unpack_mxfp4;
    case DType::nvfp4:
      return unpack_nvfp4;
    case DType::q1_0:
      return unpack_q1_0;
    case DType::q2_0:
      return unpack_q2_0;
    default:
      return nullptr;
  }
}

constexpr int kMaxGroups = 8;  // of 32, in the largest ggml group

void dequantize_groups(DType type, const std::byte* source, std::span<float> out) {
  const UnpackGroup unpack = unpacker(type);
  CHECK(unpack != nullptr);
  const auto* p = reinterpret_cast<const uint8_t*>(source);
  const size_t elements = size_t(info(type).group_elements);
  QuantGroup32 groups[kMaxGroups];
  for (size_t start = 0; start < out.size(); start += elements) {
    unpack(p, groups);
    p += info(type).group_bytes;
    for (size_t i = 0; i < elements; ++i) {
      const QuantGroup32& g = groups[i / 32];
      const size_t half = i / 16 % 2;
      // Two roundings, in the reference's order: this line is the format's definition.
      out[start + i] = g.scale[half] * float(g.code[i % 32]) + g.offset[half];
    }
  }
}

}  // namespace

bool can_dequantize(DType type) {
  switch (type) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f64:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
    case DType::f8_e4m3fnuz:
    case DType::f8_e5m2fnuz:
    case DType::f4_e2m1:
      return true;
    default:
      return is_quantised(type);
  }
}

void dequantize_row(DType type, const std::byte* source, std::span<float> out) {
  CHECK(out.size() % size_t(info(type).group_elements) == 0);
  switch (type) {
    case DType::f32:
      if (!out.empty()) std::memcpy(out.data(), source, out.size_bytes());
      return;
    case DType::f16:
      return widen_row<uint16_t, f16_to_f32>(source, out);
    case DType::bf16:
      return widen_row<uint16_t, bf16_to_f32>(source, out);
    case DType::f64:
      return widen_row<double, round_f64>(source, out);
    case DType::f8_e4m3:
      return widen_row<uint8_t, f8_e4m3_to_f32>(source, out);
    case DType::f8_e5m2:
      return widen_row<uint8_t, f8_e5m2_to_f32>(source, out);
    case DType::f8_e8m0:
      return widen_row<uint8_t, f8_e8m0_to_f32>(source, out);
    case DType::f8_e4m3fnuz:
      return widen_row<uint8_t, f8_e4m3fnuz_to_f32>(source, out);
    case DType::f8_e5m2fnuz:
      return widen_row<uint8_t, f8_e5m2fnuz_to_f32>(source, out);
    case DType::f4_e2m1:
      return dequantize_f4(source, out);
    default:
      return dequantize_groups(type, source, out);
  }
}

void unpack_groups(DType type, const std::byte* source, int64_t n_values,
                   QuantGroup32* out) {
  const UnpackGroup unpack = unpacker(type);
  const DTypeInfo& t = info(type);
  CHECK(unpack != nullptr);
  CHECK(n_values % t.group_elements == 0);
  const auto* p = reinterpret_cast<const uint8_t*>(source);
  for (int64_t i = 0; i < n_values; i += t.group_elements) {
    unpack(p, out);
    p += t.group_bytes;
    out += t.group_elements / 32;
  }
}

}  // namespace ingot
