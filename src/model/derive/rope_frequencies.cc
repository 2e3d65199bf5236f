// Inverse frequencies, in float32 where the reference is (architectures.md 2.1, 2.2).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "model/recipe.h"

namespace ingot {
namespace {

float llama3(const RopeRecipe& rope, float inv) {
  const double wavelength = 2.0 * std::numbers::pi / double(inv);
  if (wavelength > rope.original_context / rope.low_freq_factor)
    return float(double(inv) / rope.factor);
  if (wavelength < rope.original_context / rope.high_freq_factor) return inv;
  const double smooth = (rope.original_context / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return float((1.0 - smooth) * double(inv) / rope.factor + smooth * double(inv));
}

// Which pairs yarn leaves alone (below), divides (above), and blends.
struct Ramp {
  float low = 0.0f;
  float high = 0.0f;
  float at(int pair) const {
    return std::clamp((float(pair) - low) / (high - low), 0.0f, 1.0f);
  }
};

Ramp yarn_ramp(const RopeRecipe& rope) {
  const auto pair_turning = [&](double turns) {
    return rope.rotary_dims *
           std::log(rope.original_context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = pair_turning(rope.beta_fast);
  double high = pair_turning(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(rope.rotary_dims - 1));
  if (low == high) high += 0.001;
  return {float(low), float(high)};
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const RopeRecipe& rope,
                                            const std::vector<float>& divisors) {
  const int n = rope.rotary_dims / 2;
  const bool divided = rope.scaling == RopeScalingKind::divisors ||
                       rope.scaling == RopeScalingKind::longrope;
  CHECK(!divided || divisors.size() == size_t(n));
  const Ramp ramp = rope.scaling == RopeScalingKind::yarn ? yarn_ramp(rope) : Ramp();
  std::vector<float> out(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    // The exponent and the power in float32, as the reference evaluates them.
    const float exponent = float(2 * i) / float(rope.rotary_dims);
    const float power = std::pow(float(rope.theta), exponent);
    float inv = 1.0f / power;
    switch (rope.scaling) {
      case RopeScalingKind::none:
        break;
      case RopeScalingKind::linear:
        inv /= float(rope.factor);
        break;
      case RopeScalingKind::divisors:
        inv /= divisors[size_t(i)];
        break;
      case RopeScalingKind::longrope:
        inv = 1.0f / (divisors[size_t(i)] * power);
        break;
      case RopeScalingKind::llama3:
        inv = llama3(rope, inv);
        break;
      case RopeScalingKind::yarn: {
        const float kept = 1.0f - ramp.at(i);
        inv = 1.0f / (float(rope.factor) * power) * (1.0f - kept) + inv * kept;
        break;
      }
    }
    out[size_t(i)] = inv;
  }
  return out;
}

}  // namespace ingot
