// RoPE and its scalings, out of both kinds of metadata, and as inverse frequencies.
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/error.h"
#include "model/derive/decoder.h"

namespace ingot {
namespace {

void read_scaling(const Fields& f, RopeRecipe& rope) {
  // 5.x says rope_type, 4.x says type; both may stand there when they agree.
  const std::string_view field = f.has("rope_type") ? "rope_type" : "type";
  const std::string type = f.text_or(field, "default");
  f.ignore({"rope_type", "type"});
  if (type == "default" || type == "mrope") {
    f.ignore({"mrope_section"});  // text positions are equal in all sections
    return;
  }
  if (type == "linear") {
    rope.scaling = RopeScalingKind::linear;
    rope.factor = f.real("factor", 1e-3, 1e6);
  } else if (type == "llama3") {
    rope.scaling = RopeScalingKind::llama3;
    rope.factor = f.real("factor", 1.0, 1e6);
    rope.low_freq_factor = f.real("low_freq_factor", 1e-3, 1e6);
    rope.high_freq_factor = f.real("high_freq_factor", 1e-3, 1e6);
    rope.original_context = f.real("original_max_position_embeddings", 1, 1 << 27);
    if (rope.high_freq_factor <= rope.low_freq_factor)
      f.refuse("high_freq_factor", "more than low_freq_factor");
  } else if (type == "dynamic") {
    f.refuse(
        field,
        "default, linear or llama3 (dynamic looks at the length of the whole sequence, "
        "so an answer would depend on how it was computed)");
  } else {
    f.refuse(field, "default, linear or llama3");
  }
}

}  // namespace

RopeRecipe rope_from_parameters(const Fields& f, int head_dim, double theta) {
  RopeRecipe rope;
  rope.theta = f.real_or("rope_theta", 1e-3, 1e12, theta);
  const double part = f.real_or("partial_rotary_factor", 1e-6, 1.0, 1.0);
  rope.rotary_dims = int(double(head_dim) * part);
  if (rope.rotary_dims < 2 || rope.rotary_dims % 2 != 0)
    f.refuse(
        "partial_rotary_factor",
        fmt::format("an even number of rotary dimensions, not {}", rope.rotary_dims));
  read_scaling(f, rope);
  f.refuse_unread();
  return rope;
}

RopeRecipe rope_from_config(const Fields& config, int head_dim, double default_theta) {
  const double theta = config.real_or("rope_theta", 1e-3, 1e12, default_theta);
  config.ignore({"rope_scaling", "rope_parameters"});
  if (const std::optional<Fields> parameters = config.object("rope_parameters"))
    return rope_from_parameters(*parameters, head_dim, theta);
  if (const std::optional<Fields> scaling = config.object("rope_scaling"))
    return rope_from_parameters(*scaling, head_dim, theta);
  RopeRecipe rope;
  rope.theta = theta;
  rope.rotary_dims = head_dim;
  return rope;
}

RopeRecipe rope_from_gguf(const Fields& fields, const Checkpoint& checkpoint,
                          int head_dim, RopePairing pairing) {
  RopeRecipe rope;
  rope.pairing = pairing;
  rope.theta = fields.real_or("rope.freq_base", 1e-3, 1e12, 10000.0);
  rope.rotary_dims = fields.integer_or("rope.dimension_count", 2, head_dim, head_dim);
  if (rope.rotary_dims % 2 != 0) fields.refuse("rope.dimension_count", "an even number");
  const bool has_factor =
      fields.has("rope.scaling.factor") || fields.has("rope.scale_linear");
  const std::string type =
      fields.text_or("rope.scaling.type", has_factor ? "linear" : "none");
  if (type == "linear") {
    const std::string_view field =
        fields.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    // 0 means none in files of some converters.
    const double factor = fields.real_or(field, 0.0, 1e6, 1.0);
    if (factor != 0.0 && factor != 1.0) {
      rope.scaling = RopeScalingKind::linear;
      rope.factor = factor;
    }
  } else if (type != "none") {
    fields.refuse("rope.scaling.type", "none or linear");
  }
  fields.ignore({"rope.scaling.factor", "rope.scale_linear", "rope.scaling.finetuned",
                 "rope.scaling.original_context_length"});
  fields.only("rope.scaling.attn_factor", 1.0);
  if (checkpoint.find("rope_freqs.weight")) {
    if (rope.scaling != RopeScalingKind::none)
      fields.refuse("rope.scaling.type", "none, since rope_freqs.weight is there too");
    rope.scaling = RopeScalingKind::divisors;
    rope.divisors = VectorSource{"rope_freqs.weight", rope.rotary_dims / 2, 0.0f, 0};
  }
  return rope;
}

std::vector<float> rope_inverse_frequencies(const RopeRecipe& rope,
                                            const std::vector<float>& divisors) {
  const int n = rope.rotary_dims / 2;
  CHECK(rope.scaling != RopeScalingKind::divisors || divisors.size() == size_t(n));
  std::vector<float> out(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    // The exponent and the power in float32, as the reference evaluates them.
    const float exponent = float(2 * i) / float(rope.rotary_dims);
    float inv = 1.0f / std::pow(float(rope.theta), exponent);
    if (rope.scaling == RopeScalingKind::linear) {
      inv /= float(rope.factor);
    } else if (rope.scaling == RopeScalingKind::divisors) {
      inv /= divisors[size_t(i)];
    } else if (rope.scaling == RopeScalingKind::llama3) {
      const double wavelength = 2.0 * std::numbers::pi / double(inv);
      const double low = rope.original_context / rope.low_freq_factor;
      const double high = rope.original_context / rope.high_freq_factor;
      if (wavelength > low) {
        inv = float(double(inv) / rope.factor);
      } else if (wavelength >= high) {
        const double smooth =
            (rope.original_context / wavelength - rope.low_freq_factor) /
            (rope.high_freq_factor - rope.low_freq_factor);
        inv = float((1.0 - smooth) * double(inv) / rope.factor + smooth * double(inv));
      }
    }
    out[size_t(i)] = inv;
  }
  return out;
}

}  // namespace ingot
