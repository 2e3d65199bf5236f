// RoPE and its scalings out of both kinds of metadata (architectures.md 2.1, 2.2).
#include <cmath>

#include "base/error.h"
#include "model/derive/decoder.h"

namespace ingot {
namespace {

constexpr double kMaxPositions = 1 << 27;

double original_context(const Fields& f, std::string_view name,
                        const RopeDefaults& defaults) {
  return f.real_or(name, 1, kMaxPositions, defaults.max_positions);
}

// How much yarn scales attention by; architectures.md 2.2.
double yarn_scale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

void check_yarn(const Fields& f, const RopeRecipe& rope, std::string_view slow_field,
                std::string_view theta_field) {
  if (rope.beta_slow > rope.beta_fast)
    f.refuse(slow_field, fmt::format("at most beta_fast, {}", rope.beta_fast));
  if (rope.theta <= 1.0) f.refuse(theta_field, "more than 1, for yarn");
}

void read_yarn(const Fields& f, const RopeDefaults& defaults, RopeRecipe& rope) {
  rope.scaling = RopeScalingKind::yarn;
  rope.original_context =
      original_context(f, "original_max_position_embeddings", defaults);
  // The factor counts, not the ratio of the two lengths, where it is given.
  rope.factor = f.has("factor") ? f.real("factor", 1.0, 1e6)
                                : defaults.max_positions / rope.original_context;
  if (!(rope.factor >= 1.0)) f.refuse("factor", "a number of at least 1");
  rope.beta_fast = f.real_or("beta_fast", 1e-3, 1e6, 32.0);
  rope.beta_slow = f.real_or("beta_slow", 1e-3, 1e6, 1.0);
  rope.truncate = f.boolean_or("truncate", true);
  check_yarn(f, rope, "beta_slow", "rope_theta");
  const double mscale = f.real_or("mscale", 0.0, 1e3, 0.0);
  const double all_dims = f.real_or("mscale_all_dim", 0.0, 1e3, 0.0);
  double scale = yarn_scale(rope.factor, 1.0);
  if (mscale != 0.0 && all_dims != 0.0)
    scale = yarn_scale(rope.factor, mscale) / yarn_scale(rope.factor, all_dims);
  rope.attention_factor = float(f.real_or("attention_factor", 1e-3, 1e3, scale));
  f.only("extrapolation_factor", 1.0);
  f.ignore({"finetuned"});
}

std::vector<float> read_divisors(const Fields& f, std::string_view name, int n) {
  const std::vector<double> values = f.reals(name, 1e-6, 1e9);
  if (values.size() != size_t(n))
    f.refuse(name,
             fmt::format("{} numbers, one a rotary pair, not {}", n, values.size()));
  return {values.begin(), values.end()};
}

double longrope_scale(double factor, double original) {
  if (factor <= 1.0 || original <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(factor) / std::log(original));
}

void read_longrope(const Fields& f, const RopeDefaults& defaults, RopeRecipe& rope) {
  rope.scaling = RopeScalingKind::longrope;
  rope.short_divisors = read_divisors(f, "short_factor", rope.rotary_dims / 2);
  rope.long_divisors = read_divisors(f, "long_factor", rope.rotary_dims / 2);
  rope.original_context =
      original_context(f, "original_max_position_embeddings", defaults);
  rope.factor = f.has("factor") ? f.real("factor", 1e-3, 1e6)
                                : defaults.max_positions / rope.original_context;
  rope.attention_factor = float(f.real_or(
      "attention_factor", 1e-3, 1e3, longrope_scale(rope.factor, rope.original_context)));
}

void read_llama3(const Fields& f, RopeRecipe& rope) {
  rope.scaling = RopeScalingKind::llama3;
  rope.factor = f.real("factor", 1.0, 1e6);
  rope.low_freq_factor = f.real("low_freq_factor", 1e-3, 1e6);
  rope.high_freq_factor = f.real("high_freq_factor", 1e-3, 1e6);
  rope.original_context = f.real("original_max_position_embeddings", 1, kMaxPositions);
  if (rope.high_freq_factor <= rope.low_freq_factor)
    f.refuse("high_freq_factor", "more than low_freq_factor");
}

void read_scaling(const Fields& f, const RopeDefaults& defaults, RopeRecipe& rope) {
  // 5.x says rope_type, 4.x says type; both may stand there when they agree.
  const std::string_view field = f.has("rope_type") ? "rope_type" : "type";
  const std::string type = f.text_or(field, "default");
  // Positions of text are equal in all sections of a multimodal rotation.
  f.ignore({"rope_type", "type", "mrope_section", "mrope_interleaved"});
  if (type == "default" || type == "mrope") {
    f.ignore({"original_max_position_embeddings"});
    return;
  }
  if (type == "linear") {
    rope.scaling = RopeScalingKind::linear;
    rope.factor = f.real("factor", 1e-3, 1e6);
  } else if (type == "llama3") {
    read_llama3(f, rope);
  } else if (type == "longrope" || type == "su" ||
             (type == "yarn" && f.has("long_factor"))) {  // two older names of Phi-3
    read_longrope(f, defaults, rope);
  } else if (type == "yarn") {
    read_yarn(f, defaults, rope);
  } else if (type == "dynamic") {
    f.refuse(field,
             "default, linear, llama3, yarn or longrope (dynamic looks at the length of "
             "the whole sequence, so an answer would depend on how it was computed)");
  } else {
    f.refuse(field, "default, linear, llama3, yarn or longrope");
  }
}

}  // namespace

RopeRecipe rope_from_parameters(const Fields& f, const RopeDefaults& defaults) {
  RopeRecipe rope;
  rope.theta = f.real_or("rope_theta", 1e-3, 1e12, defaults.theta);
  const double part = f.real_or("partial_rotary_factor", 1e-6, 1.0, defaults.partial);
  rope.rotary_dims = int(double(defaults.head_dim) * part);
  // A whole head of an odd size is told by check_heads().
  if (part != 1.0 && (rope.rotary_dims < 2 || rope.rotary_dims % 2 != 0))
    f.refuse(
        "partial_rotary_factor",
        fmt::format("an even number of rotary dimensions, not {}", rope.rotary_dims));
  read_scaling(f, defaults, rope);
  f.refuse_unread();
  return rope;
}

RopeRecipe rope_from_config(const Fields& config, RopeDefaults defaults) {
  defaults.theta = config.real_or("rope_theta", 1e-3, 1e12, defaults.theta);
  config.ignore({"rope_scaling", "rope_parameters"});
  const std::optional<Fields> parameters = config.object("rope_parameters");
  const std::optional<Fields> scaling = config.object("rope_scaling");
  // Phi-3 states its original length beside the scaling.
  nlohmann::json object = parameters ? parameters->raw()
                          : scaling  ? scaling->raw()
                                     : nlohmann::json::object();
  if (config.has("original_max_position_embeddings") &&
      !object.contains("original_max_position_embeddings"))
    object["original_max_position_embeddings"] =
        config.integer("original_max_position_embeddings", 1, int64_t(kMaxPositions));
  const Fields fields(object, parameters ? parameters->where()
                              : scaling  ? scaling->where()
                                         : config.where());
  if (parameters && scaling && scaling->raw() != parameters->raw())
    config.refuse("rope_scaling", "it absent or the same, beside rope_parameters");
  return rope_from_parameters(fields, defaults);
}

namespace {

void read_gguf_yarn(const Fields& fields, const RopeDefaults& defaults,
                    RopeRecipe& rope) {
  rope.scaling = RopeScalingKind::yarn;
  rope.factor = fields.real("rope.scaling.factor", 1.0, 1e6);
  rope.original_context =
      original_context(fields, "rope.scaling.original_context_length", defaults);
  rope.beta_fast = fields.real_or("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
  rope.beta_slow = fields.real_or("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
  check_yarn(fields, rope, "rope.scaling.yarn_beta_slow", "rope.freq_base");
  fields.only("rope.scaling.yarn_ext_factor", 1.0);
  const double log_multiplier =
      fields.real_or("rope.scaling.yarn_log_multiplier", 0.0, 1e3, 0.0);
  double scale = yarn_scale(rope.factor, 1.0);
  if (log_multiplier != 0.0) scale /= yarn_scale(rope.factor, log_multiplier);
  const double stated = fields.real_or("rope.scaling.yarn_attn_factor", 1e-3, 1e3, scale);
  rope.attention_factor =
      float(stated * fields.real_or("rope.scaling.attn_factor", 1e-3, 1e3, 1.0));
}

void read_gguf_longrope(const Fields& fields, const RopeDefaults& defaults,
                        RopeRecipe& rope) {
  rope.scaling = RopeScalingKind::longrope;
  const int n = rope.rotary_dims / 2;
  rope.short_source = VectorSource{.name = "rope_factors_short.weight", .n = n};
  rope.long_source = VectorSource{.name = "rope_factors_long.weight", .n = n};
  rope.original_context =
      original_context(fields, "rope.scaling.original_context_length", defaults);
  rope.factor = defaults.max_positions / rope.original_context;
  rope.attention_factor =
      float(fields.real_or("rope.scaling.attn_factor", 1e-3, 1e3,
                           longrope_scale(rope.factor, rope.original_context)));
  fields.ignore({"rope.scaling.factor"});
}

void read_gguf_linear(const Fields& fields, RopeRecipe& rope) {
  const std::string_view field =
      fields.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  // 0 means none in files of some converters.
  const double factor = fields.real_or(field, 0.0, 1e6, 1.0);
  if (factor == 0.0 || factor == 1.0) return;
  rope.scaling = RopeScalingKind::linear;
  rope.factor = factor;
}

}  // namespace

RopeRecipe rope_from_gguf(const Fields& fields, const Checkpoint& checkpoint,
                          const RopeDefaults& defaults, RopePairing pairing) {
  RopeRecipe rope;
  rope.pairing = pairing;
  rope.theta = fields.real_or("rope.freq_base", 1e-3, 1e12, defaults.theta);
  rope.rotary_dims =
      fields.integer_or("rope.dimension_count", 2, defaults.head_dim, defaults.head_dim);
  if (rope.rotary_dims % 2 != 0) fields.refuse("rope.dimension_count", "an even number");
  const bool has_factor =
      fields.has("rope.scaling.factor") || fields.has("rope.scale_linear");
  std::string type = fields.text_or("rope.scaling.type", has_factor ? "linear" : "none");
  if (checkpoint.find("rope_factors_long.weight")) type = "longrope";
  if (type == "linear")
    read_gguf_linear(fields, rope);
  else if (type == "yarn")
    read_gguf_yarn(fields, defaults, rope);
  else if (type == "longrope")
    read_gguf_longrope(fields, defaults, rope);
  else if (type != "none")
    fields.refuse("rope.scaling.type", "none, linear, yarn or longrope");
  fields.ignore({"rope.scaling.factor", "rope.scale_linear", "rope.scaling.finetuned",
                 "rope.scaling.original_context_length", "rope.dimension_sections"});
  if (rope.scaling != RopeScalingKind::yarn && rope.scaling != RopeScalingKind::longrope)
    fields.only("rope.scaling.attn_factor", 1.0);
  if (checkpoint.find("rope_freqs.weight")) {
    if (rope.scaling != RopeScalingKind::none)
      fields.refuse("rope.scaling.type", "none, since rope_freqs.weight is there too");
    rope.scaling = RopeScalingKind::divisors;
    rope.divisors = VectorSource{.name = "rope_freqs.weight", .n = rope.rotary_dims / 2};
  }
  return rope;
}

}  // namespace ingot
