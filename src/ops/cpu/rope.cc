// Rotary position embedding.
#include <cmath>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"
#include "ops/testing_faults.h"

namespace ingot::cpu {

// The angle is a float32 product, as in the models' own training code; its cosine and
// sine are exact to a rounding.
void CpuOps::rope_table(Rows cos_sin, const Buffer& inv_freq, float factor,
                        const Batch& batch) {
  CHECK(cos_sin.n_rows == batch.n_tokens && cos_sin.width % 2 == 0);
  const int half = cos_sin.width / 2;
  const float* frequencies = host<const float>(inv_freq);
  const int32_t* positions = host<const int32_t>(batch.positions);
  constexpr int kCostOfCosine = 32;  // in elements of a plain op
  for_rows(cos_sin.n_rows, cos_sin.width * kCostOfCosine, [&](int t) {
    float* row = host_row(cos_sin, t);
    for (int i = 0; i < half; ++i) {
      const double angle = double(float(positions[t]) * frequencies[i]);
      row[i] = float(std::cos(angle)) * factor;
      row[half + i] = float(std::sin(angle)) * factor;
    }
  });
}

namespace {

void turn(float& a, float& b, float cosine, float sine) {
  if (fault("rope_sign")) sine = -sine;
  const float x = a;
  a = x * cosine - b * sine;
  b = b * cosine + x * sine;
}

void turn_head(float* head, const float* cos_sin, const RopeArgs& args) {
  const int half = args.rotary_dims / 2;
  const float* sines = cos_sin + half;
  if (args.pairing == RopePairing::half_split) {
    for (int i = 0; i < half; ++i) turn(head[i], head[half + i], cos_sin[i], sines[i]);
  } else {
    for (int i = 0; i < half; ++i)
      turn(head[2 * i], head[2 * i + 1], cos_sin[i], sines[i]);
  }
}

}  // namespace

void CpuOps::rope(Rows x, Rows cos_sin, const RopeArgs& args) {
  CHECK(x.n_rows == cos_sin.n_rows && cos_sin.width == args.rotary_dims);
  CHECK(x.width == args.n_heads * args.head_dim);
  CHECK(args.first >= 0 && args.first + args.rotary_dims <= args.head_dim);
  for_rows(x.n_rows, x.width, [&](int t) {
    for (int h = 0; h < args.n_heads; ++h)
      turn_head(host_row(x, t) + h * args.head_dim + args.first, host_row(cos_sin, t),
                args);
  });
}

}  // namespace ingot::cpu
