// ggml types with one scale per group of values (formats.md 3.4, 3.5.1, 3.5.3).
#include <algorithm>
#include <cmath>

#include "tensor/affine.h"
#include "tensor/unpack.h"

namespace ingot {
namespace {

constexpr int8_t kIq4Value[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

// Code i of 2n nibbles in n bytes: the low nibbles are the first half.
int nibble(const uint8_t* p, int i, int n) { return i < n ? p[i] & 15 : p[i - n] >> 4; }

// Ternary digit k of a byte: five base-3 digits as a fraction of 256, most significant
// first.
int ternary_digit(uint8_t byte, int k) {
  constexpr int kPower[5] = {1, 3, 9, 27, 81};
  return (uint8_t(byte * kPower[k]) * 3) >> 8;
}

void set_scale(QuantGroup32& out, float scale, float offset = -0.0f) {
  std::fill_n(out.scale, 2, scale);
  std::fill_n(out.offset, 2, offset);
}

}  // namespace

void unpack_q4_0(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, load_f16(p));
  for (int i = 0; i < 32; ++i) out->code[i] = int8_t(nibble(p + 2, i, 16) - 8);
}

void unpack_q4_1(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, load_f16(p), load_f16(p + 2));
  for (int i = 0; i < 32; ++i) out->code[i] = int8_t(nibble(p + 4, i, 16));
}

void unpack_q5_0(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, load_f16(p));
  const uint32_t high = load_u32(p + 2);
  for (int i = 0; i < 32; ++i)
    out->code[i] = int8_t(nibble(p + 6, i, 16) + int((high >> i) & 1) * 16 - 16);
}

void unpack_q5_1(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, load_f16(p), load_f16(p + 2));
  const uint32_t high = load_u32(p + 4);
  for (int i = 0; i < 32; ++i)
    out->code[i] = int8_t(nibble(p + 8, i, 16) + int((high >> i) & 1) * 16);
}

void unpack_q8_0(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, load_f16(p));
  std::memcpy(out->code, p + 2, 32);
}

void unpack_q8_1(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, load_f16(p));
  std::memcpy(out->code, p + 4, 32);  // p + 2: the sum, which only dot products use
}

void unpack_q8_k(const uint8_t* p, QuantGroup32* out) {
  const float d = std::bit_cast<float>(load_u32(p));
  for (int u = 0; u < 8; ++u) {
    set_scale(out[u], d);
    std::memcpy(out[u].code, p + 4 + 32 * u, 32);
  }
}

void unpack_q1_0(const uint8_t* p, QuantGroup32* out) {
  for (int u = 0; u < 4; ++u) {
    set_scale(out[u], load_f16(p));
    const uint32_t bits = load_u32(p + 2 + 4 * u);
    for (int i = 0; i < 32; ++i) out[u].code[i] = int8_t(((bits >> i) & 1) != 0 ? 1 : -1);
  }
}

void unpack_q2_0(const uint8_t* p, QuantGroup32* out) {
  for (int u = 0; u < 2; ++u) {
    set_scale(out[u], load_f16(p));
    for (int i = 0; i < 32; ++i)
      out[u].code[i] = int8_t(((p[2 + 8 * u + i / 4] >> (2 * (i % 4))) & 3) - 1);
  }
}

void unpack_tq1_0(const uint8_t* p, QuantGroup32* out) {
  for (int u = 0; u < 8; ++u) set_scale(out[u], load_f16(p + 52));
  for (int i = 0; i < 256; ++i) {
    int t = 0;
    if (i < 160)
      t = ternary_digit(p[i % 32], i / 32);
    else if (i < 240)
      t = ternary_digit(p[32 + (i - 160) % 16], (i - 160) / 16);
    else
      t = ternary_digit(p[48 + (i - 240) % 4], (i - 240) / 4);
    out[i / 32].code[i % 32] = int8_t(t - 1);
  }
}

void unpack_tq2_0(const uint8_t* p, QuantGroup32* out) {
  for (int u = 0; u < 8; ++u) {
    set_scale(out[u], load_f16(p + 64));
    for (int i = 0; i < 32; ++i)
      out[u].code[i] = int8_t(((p[32 * (u / 4) + i] >> (2 * (u % 4))) & 3) - 1);
  }
}

void unpack_iq4_nl(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, load_f16(p));
  for (int i = 0; i < 32; ++i) out->code[i] = kIq4Value[nibble(p + 2, i, 16)];
}

void unpack_iq4_xs(const uint8_t* p, QuantGroup32* out) {
  const float d = load_f16(p);
  const int high = load_u16(p + 2);
  for (int u = 0; u < 8; ++u) {
    const int low = (p[4 + u / 2] >> (4 * (u % 2))) & 15;
    set_scale(out[u], d * float(low + 16 * ((high >> (2 * u)) & 3) - 32));
    for (int i = 0; i < 32; ++i)
      out[u].code[i] = kIq4Value[nibble(p + 8 + 16 * u, i, 16)];
  }
}

void unpack_mxfp4(const uint8_t* p, QuantGroup32* out) {
  set_scale(*out, std::ldexp(1.0f, int(p[0]) - 128));
  for (int i = 0; i < 32; ++i) out->code[i] = kE2m1Doubled[nibble(p + 1, i, 16)];
}

void unpack_nvfp4(const uint8_t* p, QuantGroup32* out) {
  for (int s = 0; s < 4; ++s) {
    // An unsigned E4M3: bit 7 is ignored, 0x7f means zero; halved like E2M1 is doubled.
    const float scale =
        p[s] == 0x7f ? 0.0f
                     : std::ldexp(float((p[s] & 0x78) == 0 ? p[s] & 7 : 8 | (p[s] & 7)),
                                  std::max((p[s] >> 3) & 15, 1) - 11);
    QuantGroup32& group = out[s / 2];
    group.scale[s % 2] = scale;
    group.offset[s % 2] = -0.0f;
    for (int i = 0; i < 16; ++i)
      group.code[16 * (s % 2) + i] = kE2m1Doubled[nibble(p + 4 + 8 * s, i, 8)];
  }
}

}  // namespace ingot
