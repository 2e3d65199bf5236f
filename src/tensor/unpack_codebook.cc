// ggml's IQ1, IQ2 and IQ3 types: runs of 8 (or 4) magnitudes are one index into a fixed
// grid, signs are stored apart (formats.md 3.5.2).  u counts runs of 32, l runs of 8.
#include <bit>

#include "tensor/iq_tables.h"
#include "tensor/unpack.h"

namespace ingot {
namespace {

// Seven stored sign bits; the eighth makes the number of minus signs even.
uint8_t even_signs(uint32_t k) {
  return uint8_t(k | ((uint32_t(std::popcount(k)) & 1u) << 7));
}

// code[j] = byte j of the grid entry, negated where sign bit j is set.
template <typename Entry>
void put_signed(Entry entry, uint32_t signs, int8_t* code) {
  for (size_t j = 0; j < sizeof(Entry); ++j) {
    const int magnitude = int((entry >> (8 * j)) & 0xff);
    code[j] = int8_t(((signs >> j) & 1) != 0 ? -magnitude : magnitude);
  }
}

void set_scale(QuantGroup32& out, int half, float scale) {
  out.scale[half] = scale;
  out.offset[half] = -0.0f;
}

// Both halves of run u of IQ2_XS and IQ2_S: nibbles of one byte.
void set_scale_nibbles(QuantGroup32& out, float d, uint8_t nibbles) {
  set_scale(out, 0, d * (0.5f + float(nibbles & 15)) * 0.25f);
  set_scale(out, 1, d * (0.5f + float(nibbles >> 4)) * 0.25f);
}

// IQ1: the value is scale * (grid + delta), delta = +-1/8.  As integers: eight times the
// grid value, plus or minus one, under an eighth of the scale (exact: a power of two).
void put_ternary(uint64_t entry, bool minus, int8_t* code) {
  for (int j = 0; j < 8; ++j)
    code[j] = int8_t(8 * int8_t(uint8_t(entry >> (8 * j))) + (minus ? -1 : 1));
}

}  // namespace

void unpack_iq2_xxs(const uint8_t* p, QuantGroup32* out) {
  const float d = load_f16(p);
  for (int u = 0; u < 8; ++u) {
    const uint8_t* index = p + 2 + 8 * u;
    const uint32_t a = load_u32(index + 4);
    const float scale = d * (0.5f + float(a >> 28)) * 0.25f;
    set_scale(out[u], 0, scale);
    set_scale(out[u], 1, scale);
    for (int l = 0; l < 4; ++l)
      put_signed(kIq2XxsGrid[index[l]], even_signs((a >> (7 * l)) & 127),
                 out[u].code + 8 * l);
  }
}

void unpack_iq2_xs(const uint8_t* p, QuantGroup32* out) {
  const float d = load_f16(p);
  for (int u = 0; u < 8; ++u) {
    set_scale_nibbles(out[u], d, p[66 + u]);
    for (int l = 0; l < 4; ++l) {
      const uint32_t q = load_u16(p + 2 + 2 * (4 * u + l));
      put_signed(kIq2XsGrid[q & 511], even_signs(q >> 9), out[u].code + 8 * l);
    }
  }
}

void unpack_iq2_s(const uint8_t* p, QuantGroup32* out) {
  const float d = load_f16(p);
  const uint8_t* index = p + 2;
  const uint8_t* signs = p + 34;
  const uint8_t* high = p + 66;
  for (int u = 0; u < 8; ++u) {
    set_scale_nibbles(out[u], d, p[74 + u]);
    for (int l = 0; l < 4; ++l) {
      const int i = 4 * u + l;
      const int entry = index[i] + 256 * ((high[u] >> (2 * l)) & 3);
      put_signed(kIq2SGrid[entry], signs[i], out[u].code + 8 * l);
    }
  }
}

void unpack_iq3_xxs(const uint8_t* p, QuantGroup32* out) {
  const float d = load_f16(p);
  for (int u = 0; u < 8; ++u) {
    const uint8_t* index = p + 2 + 8 * u;
    const uint32_t a = load_u32(p + 66 + 4 * u);
    const float scale = d * (0.5f + float(a >> 28)) * 0.5f;
    set_scale(out[u], 0, scale);
    set_scale(out[u], 1, scale);
    for (int k = 0; k < 8; ++k) {
      const uint8_t signs = even_signs((a >> (7 * (k / 2))) & 127);
      put_signed(kIq3XxsGrid[index[k]], uint32_t(signs >> (4 * (k % 2))),
                 out[u].code + 4 * k);
    }
  }
}

void unpack_iq3_s(const uint8_t* p, QuantGroup32* out) {
  const float d = load_f16(p);
  const uint8_t* index = p + 2;
  const uint8_t* high = p + 66;
  const uint8_t* signs = p + 74;
  for (int u = 0; u < 8; ++u) {
    const int nibble = (p[106 + u / 2] >> (4 * (u % 2))) & 15;
    const float scale = d * float(1 + 2 * nibble);
    set_scale(out[u], 0, scale);
    set_scale(out[u], 1, scale);
    for (int k = 0; k < 8; ++k) {
      const int entry = index[8 * u + k] + 256 * ((high[u] >> k) & 1);
      const int sign_bits = signs[4 * u + k / 2] >> (4 * (k % 2));
      put_signed(kIq3SGrid[entry], uint32_t(sign_bits), out[u].code + 4 * k);
    }
  }
}

void unpack_iq1_s(const uint8_t* p, QuantGroup32* out) {
  const float d = load_f16(p);
  const uint8_t* index = p + 2;
  for (int u = 0; u < 8; ++u) {
    const int h = load_u16(p + 34 + 2 * u);
    const float scale = d * float(2 * ((h >> 12) & 7) + 1) * 0.125f;
    set_scale(out[u], 0, scale);
    set_scale(out[u], 1, scale);
    for (int l = 0; l < 4; ++l) {
      const int entry = index[4 * u + l] + 256 * ((h >> (3 * l)) & 7);
      put_ternary(kIq1SGrid[entry], (h & 0x8000) != 0, out[u].code + 8 * l);
    }
  }
}

void unpack_iq1_m(const uint8_t* p, QuantGroup32* out) {
  const uint8_t* index = p;
  const uint8_t* high = p + 32;
  // The float16 scale is spread over the top nibbles of four words of small scales.
  int words[4];
  int d_bits = 0;
  for (int k = 0; k < 4; ++k) {
    words[k] = load_u16(p + 48 + 2 * k);
    d_bits |= (words[k] >> 12) << (4 * k);
  }
  const float d = f16_to_f32(uint16_t(d_bits));
  for (int u = 0; u < 8; ++u) {
    for (int h = 0; h < 2; ++h) {
      const int v = (words[u / 2] >> (6 * (u % 2) + 3 * h)) & 7;
      set_scale(out[u], h, d * float(2 * v + 1) * 0.125f);
    }
    for (int l = 0; l < 4; ++l) {
      const int nibble = (high[2 * u + l / 2] >> (4 * (l % 2))) & 15;
      const int entry = index[4 * u + l] + 256 * (nibble & 7);
      put_ternary(kIq1SGrid[entry], (nibble & 8) != 0, out[u].code + 8 * l);
    }
  }
}

}  // namespace ingot
