// One group of each ggml type taken apart: what dequantize.cc calls through a table.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "tensor/dequantize.h"

namespace ingot {

inline uint16_t load_u16(const uint8_t* p) { return uint16_t(p[0] | (p[1] << 8)); }
inline uint32_t load_u32(const uint8_t* p) {
  return uint32_t(load_u16(p)) | (uint32_t(load_u16(p + 2)) << 16);
}
inline float load_f16(const uint8_t* p) { return f16_to_f32(load_u16(p)); }

// Reads one group of the type at p, writes group_elements / 32 entries of out.
using UnpackGroup = void (*)(const uint8_t* p, QuantGroup32* out);

// unpack_simple.cc: one scale (and offset) a group.
void unpack_q4_0(const uint8_t* p, QuantGroup32* out);
void unpack_q4_1(const uint8_t* p, QuantGroup32* out);
void unpack_q5_0(const uint8_t* p, QuantGroup32* out);
void unpack_q5_1(const uint8_t* p, QuantGroup32* out);
void unpack_q8_0(const uint8_t* p, QuantGroup32* out);
void unpack_q8_1(const uint8_t* p, QuantGroup32* out);
void unpack_q8_k(const uint8_t* p, QuantGroup32* out);
void unpack_q1_0(const uint8_t* p, QuantGroup32* out);
void unpack_q2_0(const uint8_t* p, QuantGroup32* out);
void unpack_tq1_0(const uint8_t* p, QuantGroup32* out);
void unpack_tq2_0(const uint8_t* p, QuantGroup32* out);
void unpack_iq4_nl(const uint8_t* p, QuantGroup32* out);
void unpack_iq4_xs(const uint8_t* p, QuantGroup32* out);
void unpack_mxfp4(const uint8_t* p, QuantGroup32* out);
void unpack_nvfp4(const uint8_t* p, QuantGroup32* out);

// unpack_k.cc: 256 values, packed integer scales under one or two float16.
void unpack_q2_k(const uint8_t* p, QuantGroup32* out);
void unpack_q3_k(const uint8_t* p, QuantGroup32* out);
void unpack_q4_k(const uint8_t* p, QuantGroup32* out);
void unpack_q5_k(const uint8_t* p, QuantGroup32* out);
void unpack_q6_k(const uint8_t* p, QuantGroup32* out);

// unpack_codebook.cc: indices into the grids of iq_tables.h.
void unpack_iq2_xxs(const uint8_t* p, QuantGroup32* out);
void unpack_iq2_xs(const uint8_t* p, QuantGroup32* out);
void unpack_iq2_s(const uint8_t* p, QuantGroup32* out);
void unpack_iq3_xxs(const uint8_t* p, QuantGroup32* out);
void unpack_iq3_s(const uint8_t* p, QuantGroup32* out);
void unpack_iq1_s(const uint8_t* p, QuantGroup32* out);
void unpack_iq1_m(const uint8_t* p, QuantGroup32* out);

}  // namespace ingot
