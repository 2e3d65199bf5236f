// ggml's K types: 256 values, integer scales per 16 or 32 under one or two float16
// (formats.md 3.4).  Values come in two halves of 128; a byte of 2-bit codes serves one
// position l of all four runs of 32 in its half.
#include "tensor/unpack.h"

namespace ingot {
namespace {

// The 6-bit scale and minimum of run j (of 8) from the 12 bytes that Q4_K and Q5_K share.
struct ScaleMin {
  int scale;
  int minimum;
};
ScaleMin scale_min(const uint8_t* p, int j) {
  if (j < 4) return {p[j] & 63, p[j + 4] & 63};
  return {(p[j + 4] & 15) + 16 * (p[j - 4] >> 6), (p[j + 4] >> 4) + 16 * (p[j] >> 6)};
}

// 6-bit signed scale u (of 16) of Q3_K.
int q3_scale(const uint8_t* p, int u) {
  const int low = u < 8 ? p[u] & 15 : p[u - 8] >> 4;
  const int high = (p[8 + u % 4] >> (2 * (u / 4))) & 3;
  return low + 16 * high - 32;
}

// Scales and offsets of run j from Q4_K's and Q5_K's common head.
void set_scale_min(const uint8_t* p, int j, QuantGroup32& out) {
  const float d = load_f16(p);
  const float dmin = load_f16(p + 2);
  const ScaleMin s = scale_min(p + 4, j);
  for (int h = 0; h < 2; ++h) {
    out.scale[h] = d * float(s.scale);
    out.offset[h] = -(dmin * float(s.minimum));
  }
}

}  // namespace

void unpack_q2_k(const uint8_t* p, QuantGroup32* out) {
  const uint8_t* qs = p + 16;
  const float d = load_f16(p + 80);
  const float dmin = load_f16(p + 82);
  for (int u = 0; u < 8; ++u) {
    for (int h = 0; h < 2; ++h) {
      out[u].scale[h] = d * float(p[2 * u + h] & 15);
      out[u].offset[h] = -(dmin * float(p[2 * u + h] >> 4));
    }
    for (int l = 0; l < 32; ++l)
      out[u].code[l] = int8_t((qs[32 * (u / 4) + l] >> (2 * (u % 4))) & 3);
  }
}

void unpack_q3_k(const uint8_t* p, QuantGroup32* out) {
  const uint8_t* high = p;
  const uint8_t* qs = p + 32;
  const float d = load_f16(p + 108);
  for (int u = 0; u < 8; ++u) {
    for (int h = 0; h < 2; ++h) {
      out[u].scale[h] = d * float(q3_scale(p + 96, 2 * u + h));
      out[u].offset[h] = -0.0f;
    }
    for (int l = 0; l < 32; ++l) {
      const int low = (qs[32 * (u / 4) + l] >> (2 * (u % 4))) & 3;
      out[u].code[l] = int8_t(low - (((high[l] >> u) & 1) != 0 ? 0 : 4));
    }
  }
}

void unpack_q4_k(const uint8_t* p, QuantGroup32* out) {
  for (int u = 0; u < 8; ++u) {
    set_scale_min(p, u, out[u]);
    const uint8_t* qs = p + 16 + 32 * (u / 2);
    for (int l = 0; l < 32; ++l) out[u].code[l] = int8_t((qs[l] >> (4 * (u % 2))) & 15);
  }
}

void unpack_q5_k(const uint8_t* p, QuantGroup32* out) {
  const uint8_t* high = p + 16;
  for (int u = 0; u < 8; ++u) {
    set_scale_min(p, u, out[u]);
    const uint8_t* qs = p + 48 + 32 * (u / 2);
    for (int l = 0; l < 32; ++l) {
      const int low = (qs[l] >> (4 * (u % 2))) & 15;
      out[u].code[l] = int8_t(low + 16 * ((high[l] >> u) & 1));
    }
  }
}

void unpack_q6_k(const uint8_t* p, QuantGroup32* out) {
  const uint8_t* high = p + 128;
  const float d = load_f16(p + 208);
  for (int u = 0; u < 8; ++u) {
    const int n = u / 4;  // half
    const int s = u % 4;  // run of 32 inside it
    for (int h = 0; h < 2; ++h) {
      out[u].scale[h] = d * float(int8_t(p[192 + 2 * u + h]));
      out[u].offset[h] = -0.0f;
    }
    const uint8_t* low = p + 64 * n + 32 * (s & 1);
    for (int l = 0; l < 32; ++l) {
      const int lo = s < 2 ? low[l] & 15 : low[l] >> 4;
      const int hi = (high[32 * n + l] >> (2 * s)) & 3;
      out[u].code[l] = int8_t(lo + 16 * hi - 32);
    }
  }
}

}  // namespace ingot
