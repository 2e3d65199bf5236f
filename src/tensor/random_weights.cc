#include "tensor/random_weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/half.h"

namespace ingot {
namespace {

// ---- Scalars ------------------------------------------------------------------------

// The sum of the four 16-bit parts of a draw: nearly normal.
float nearly_normal(uint64_t draw, float deviation) {
  constexpr float kMean = 2.0f * 65535.0f;
  constexpr float kDeviation = 37837.23f;  // 65536 * sqrt(4 / 12)
  const uint64_t sum =
      (draw & 0xffff) + (draw >> 16 & 0xffff) + (draw >> 32 & 0xffff) + (draw >> 48);
  return (float(sum) - kMean) * (deviation / kDeviation);
}

template <typename Stored, typename Narrow>
void scalars(const CounterRng& rng, uint64_t first, float deviation,
             std::span<std::byte> out, Narrow narrow) {
  for (size_t i = 0; i < out.size() / sizeof(Stored); ++i) {
    const Stored value = narrow(nearly_normal(rng.bits(first + i), deviation));
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
}

// ---- Groups of codes ----------------------------------------------------------------
//
// A group is filled with random bytes, which makes every code uniform whatever the layout
// (formats.md 3.3).  Then its scales are written: `code_rms` is the root mean square of
// the code times the small scale that it meets, after the offset.

void put_half(std::byte* at, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, sizeof bits);
}

// Groups of 32: codes 0 to 2^n - 1 above a minimum, which makes their mean 0.
void with_minimum(std::byte* group, float scale, float middle) {
  put_half(group, scale);
  put_half(group + 2, -scale * middle);
}

void finish_q8_0(std::byte* group, float scale) {
  put_half(group, scale);
  for (int i = 2; i < 34; ++i)  // no writer of the format makes a -128
    if (group[i] == std::byte{0x80}) group[i] = std::byte{0};
}

// 16 bytes: the low four bits scale, the high four are the minimum's, here the same.
void finish_q2_k(std::byte* group, float scale) {
  for (int i = 0; i < 16; ++i) {
    const uint8_t s = uint8_t(8 + (uint8_t(group[i]) & 7));
    group[i] = std::byte(s | s << 4);
  }
  put_half(group + 80, scale);
  put_half(group + 82, 1.5f * scale);
}

// Signed scales of 32 to 63: a magnitude and the top bit for the sign.
void finish_q6_k(std::byte* group, float scale) {
  for (int i = 192; i < 208; ++i) {
    const uint8_t random = uint8_t(group[i]);
    const int magnitude = 32 + (random & 31);
    group[i] = std::byte(uint8_t(random & 0x80 ? -magnitude : magnitude));
  }
  put_half(group + 208, scale);
}

// q4_k and q5_k: eight scales and eight minima of six bits in 12 bytes.  Scales are 24 to
// 55; a minimum is its scale, or one more or less.
void finish_min_k(std::byte* group, float scale, float middle) {
  put_half(group, scale);
  put_half(group + 2, middle * scale);
  uint8_t scales[8], minima[8];
  for (int i = 0; i < 8; ++i) {
    const uint8_t random = uint8_t(group[4 + i]);
    const int s = 24 + (random & 31);
    const int step = random >> 6;  // 0 to 3
    scales[i] = uint8_t(s);
    minima[i] = uint8_t(step == 3 ? s : s + step - 1);
  }
  for (int i = 0; i < 4; ++i) {
    group[4 + i] = std::byte(scales[i] | (scales[i + 4] >> 4) << 6);
    group[8 + i] = std::byte(minima[i] | (minima[i + 4] >> 4) << 6);
    group[12 + i] = std::byte((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
  }
}

// Root mean square of uniform codes, by the type.
float code_rms(DType type) {
  switch (type) {
    case DType::q4_0:
      return 4.6368f;  // -8 to 7
    case DType::q5_0:
      return 9.2466f;  // -16 to 15
    case DType::q8_0:
      return 73.468f;  // -127 to 127, 0 twice
    case DType::q4_1:
      return 4.6098f;  // 0 to 15, less 7.5
    case DType::q5_1:
      return 9.2331f;  // 0 to 31, less 15.5
    case DType::q2_k:
      return 1.1180f * 11.7260f;  // 0 to 3, less 1.5; scales 8 to 15
    case DType::q3_k:
      return 2.3452f * 18.4797f;  // -4 to 3; scales -32 to 31
    case DType::q4_k:
      return 4.6098f * 40.5648f;  // scales 24 to 55
    case DType::q5_k:
      return 9.2331f * 40.5648f;
    case DType::q6_k:
      return 18.4797f * 48.3890f;  // -32 to 31; scales of 32 to 63 and their negatives
    default:
      return 0.0f;
  }
}

// `signed_scale` has a random sign, for codes whose mean is half a step below 0.
void finish(DType type, std::byte* group, float scale, float signed_scale) {
  switch (type) {
    case DType::q4_0:
    case DType::q5_0:
      return put_half(group, signed_scale);
    case DType::q8_0:
      return finish_q8_0(group, scale);
    case DType::q4_1:
      return with_minimum(group, scale, 7.5f);
    case DType::q5_1:
      return with_minimum(group, scale, 15.5f);
    case DType::q2_k:
      return finish_q2_k(group, scale);
    case DType::q3_k:
      return put_half(group + 108, signed_scale);
    case DType::q4_k:
      return finish_min_k(group, scale, 7.5f);
    case DType::q5_k:
      return finish_min_k(group, scale, 15.5f);
    default:
      return finish_q6_k(group, scale);
  }
}

void groups(DType type, const CounterRng& rng, uint64_t first_group, float deviation,
            std::span<std::byte> out) {
  const auto n_bytes = size_t(info(type).group_bytes);
  const uint64_t n_draws = (n_bytes + 7) / 8 + 1;  // the last for the scale
  // Scales of 3/4 to 5/4 of the middle one, whose mean square is 49/48 of its square.
  const float middle = deviation / (code_rms(type) * 1.010363f);
  uint64_t counter = first_group * n_draws;
  for (size_t at = 0; at < out.size(); at += n_bytes) {
    std::byte* group = out.data() + at;
    for (size_t i = 0; i < n_bytes; i += 8) {
      const uint64_t draw = rng.bits(counter++);
      std::memcpy(group + i, &draw, std::min<size_t>(8, n_bytes - i));
    }
    const uint64_t draw = rng.bits(counter++);
    const float scale = middle * (0.75f + 0.5f * (float(draw >> 40) * 0x1p-24f));
    finish(type, group, scale, draw & 1 ? scale : -scale);
  }
}

}  // namespace

bool has_random_weights(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 ||
         code_rms(type) != 0.0f;
}

void random_weights(DType type, const CounterRng& rng, uint64_t first_group,
                    float deviation, std::span<std::byte> out) {
  CHECK(has_random_weights(type));
  CHECK(out.size() % size_t(info(type).group_bytes) == 0);
  switch (type) {
    case DType::f32:
      return scalars<float>(rng, first_group, deviation, out, [](float v) { return v; });
    case DType::f16:
      return scalars<uint16_t>(rng, first_group, deviation, out, f32_to_f16);
    case DType::bf16:
      return scalars<uint16_t>(rng, first_group, deviation, out, f32_to_bf16);
    default:
      return groups(type, rng, first_group, deviation, out);
  }
}

}  // namespace ingot
