#include "formats/mlx_quant.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "formats/quote.h"
#include "formats/strict_json.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

using nlohmann::json;

struct Scheme {
  AffineMode mode;
  int bits;
  int group_size;
  bool operator==(const Scheme&) const = default;
};

constexpr Scheme kFloatSchemes[] = {
    {AffineMode::mxfp4, 4, 32}, {AffineMode::mxfp8, 8, 32}, {AffineMode::nvfp4, 4, 16}};

std::vector<Scheme> affine_schemes() {
  std::vector<Scheme> schemes;
  for (const int bits : {2, 3, 4, 5, 6, 8})
    for (const int group_size : {32, 64, 128})
      schemes.push_back({AffineMode::affine, bits, group_size});
  return schemes;
}

bool is_allowed(const Scheme& scheme) {  // MX-3
  for (const Scheme& s : kFloatSchemes)
    if (s == scheme) return true;
  for (const Scheme& s : affine_schemes())
    if (s == scheme) return true;
  return false;
}

std::string to_string(const Scheme& s) {
  return fmt::format("{} bits, group {}, mode {}", s.bits, s.group_size, name(s.mode));
}

// What config.json says about quantised modules.
struct MlxConfig {
  std::string source;
  json quantization;  // the object, or null
};

MlxConfig read_config(const Checkpoint& checkpoint) {
  constexpr int kMaxDepth = 64;
  MlxConfig config{printable(checkpoint.path / "config.json"), nullptr};
  if (checkpoint.config_json.find("\"quantization\"") == std::string::npos) return config;
  const json root = parse_strict_json(checkpoint.config_json, config.source, {kMaxDepth});
  for (const json* at :
       {&root, root.contains("text_config") ? &root["text_config"] : nullptr})
    if (at != nullptr && at->is_object() && at->contains("quantization") &&
        config.quantization.is_null())
      config.quantization = (*at)["quantization"];
  if (!config.quantization.is_null() && !config.quantization.is_object())
    fail("{}: field 'quantization' is {}, wanted an object", config.source,
         json_kind(config.quantization));
  return config;
}

AffineMode mode_named(const std::string& text, const std::string& where) {
  for (const AffineMode mode :
       {AffineMode::affine, AffineMode::mxfp4, AffineMode::mxfp8, AffineMode::nvfp4})
    if (name(mode) == text) return mode;
  fail("{}: mode is {}, wanted affine, mxfp4, mxfp8 or nvfp4 (MX-3)", where,
       in_quotes(text));
}

int small_int(const json& value, const std::string& where, const char* field) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > 1024)
    fail("{}: {} is {}, wanted a small integer (MX-3)", where, field, json_kind(value));
  return value.get<int>();
}

// The scheme of one object of the config: missing fields take the mode's defaults.
Scheme read_scheme(const json& object, const std::string& where) {
  Scheme scheme{AffineMode::affine, 4, 64};
  if (object.contains("mode")) {
    if (!object["mode"].is_string())
      fail("{}: mode is {}, wanted a string (MX-3)", where, json_kind(object["mode"]));
    scheme.mode = mode_named(object["mode"].get<std::string>(), where);
    for (const Scheme& s : kFloatSchemes)
      if (s.mode == scheme.mode) scheme = s;
  }
  if (object.contains("bits")) scheme.bits = small_int(object["bits"], where, "bits");
  if (object.contains("group_size"))
    scheme.group_size = small_int(object["group_size"], where, "group_size");
  if (!is_allowed(scheme))
    fail("{}: {} is no MLX scheme (MX-3)", where, to_string(scheme));
  return scheme;
}

// What the config says of module `path`; nothing when it does not say.
std::optional<Scheme> stated_scheme(const MlxConfig& config, const std::string& path) {
  if (config.quantization.is_null()) return std::nullopt;
  const std::string where = config.source + ": field 'quantization'";
  if (config.quantization.contains(path)) {
    const json& entry = config.quantization[path];
    if (entry.is_object()) return read_scheme(entry, where + "." + in_quotes(path));
    if (!entry.is_boolean())
      fail("{}.{} is {}, wanted an object, true or false", where, in_quotes(path),
           json_kind(entry));
    if (!entry.get<bool>())
      fail("{}.{} is false, but the checkpoint has {}.scales (MX-7)", where,
           in_quotes(path), printable_text(path));
  }
  return read_scheme(config.quantization, where);
}

// The three tensors of one module.
struct Parts {
  std::string path;  // of the module
  std::string file;
  const TensorView* weight;
  const TensorView* scales;
  const TensorView* biases;  // nullptr when absent
  uint64_t row_bits() const { return uint64_t(weight->shape.back()) * 32; }
  uint64_t groups() const { return uint64_t(scales->shape.back()); }
};

bool fits(const Parts& p,
          const Scheme& s) {  // MX-1, and MX-2 and MX-3 as far as types tell
  const bool affine = s.mode == AffineMode::affine;
  const DType type = p.scales->dtype;
  const bool type_fits =
      affine ? type == DType::f32 || type == DType::f16 || type == DType::bf16
             : type == DType::u8;
  return type_fits && affine == (p.biases != nullptr) &&
         p.row_bits() == p.groups() * uint64_t(s.group_size) * uint64_t(s.bits);
}

Parts parts_of(const Checkpoint& checkpoint, const std::string& path) {
  const auto view = [&](const char* suffix) -> const TensorView* {
    const StoredTensor* tensor = checkpoint.find(path + suffix);
    return tensor == nullptr ? nullptr : &tensor->view;
  };
  const StoredTensor* scales = checkpoint.find(path + ".scales");
  Parts p{path,
          printable(scales->file != nullptr ? scales->file->path() : checkpoint.path),
          view(".weight"), view(".scales"), view(".biases")};
  if (p.weight == nullptr || p.weight->dtype != DType::u32)
    fail("{}: tensor {}: {}.weight is {}, wanted packed u32 codes (MX-6)", p.file,
         in_quotes(path + ".scales"), printable_text(path),
         p.weight == nullptr ? "missing" : name(p.weight->dtype));
  return p;
}

// MX-2: equal shapes but for the last dimension; biases exactly like scales.
void check_shapes(const Parts& p) {
  const Shape& weight = p.weight->shape;
  const Shape& scales = p.scales->shape;
  const bool same_leading =
      weight.size() >= 2 && weight.size() == scales.size() &&
      std::equal(weight.begin(), weight.end() - 1, scales.begin(), scales.end() - 1);
  if (!same_leading || weight.back() == 0 || scales.back() == 0)
    fail("{}: tensor {}: scales are {}, weight is {}; wanted the same rows (MX-2)",
         p.file, in_quotes(p.path + ".weight"), ingot::to_string(scales),
         ingot::to_string(weight));
  if (p.biases != nullptr &&
      (p.biases->shape != scales || p.biases->dtype != p.scales->dtype))
    fail("{}: tensor {}: biases are {} {}, scales are {} {}; wanted the same (MX-2)",
         p.file, in_quotes(p.path + ".weight"), name(p.biases->dtype),
         ingot::to_string(p.biases->shape), name(p.scales->dtype),
         ingot::to_string(scales));
}

// MX-1, MX-3, MX-7: the config's scheme when the shapes agree, else the only one that
// fits.
Scheme choose_scheme(const Parts& p, const std::optional<Scheme>& stated) {
  if (stated && fits(p, *stated)) return *stated;
  std::vector<Scheme> candidates;
  for (const Scheme& s : kFloatSchemes)
    if (fits(p, s)) candidates.push_back(s);
  for (const Scheme& s : affine_schemes())
    if (fits(p, s)) candidates.push_back(s);
  const std::string found = fmt::format(
      "weight {}, scales {} {}, {} biases", ingot::to_string(p.weight->shape),
      name(p.scales->dtype), ingot::to_string(p.scales->shape), p.biases ? "with" : "no");
  if (candidates.size() != 1)
    fail("{}: tensor {}: {} fit {} ({})", p.file, in_quotes(p.path + ".weight"), found,
         stated ? "not the config's " + to_string(*stated)
                : fmt::format("{} schemes, and the config names none", candidates.size()),
         stated ? "MX-1" : "MX-7");
  log_warning("{}: tensor {}: read as {}, which its shapes tell; config.json {} (MX-7)",
              p.file, in_quotes(p.path + ".weight"), to_string(candidates[0]),
              stated ? "says " + to_string(*stated) : "is silent");
  return candidates[0];
}

void check_finite(const TensorView& view, DType type, const Parts& p, const char* what) {
  const size_t width = size_t(info(type).group_bytes);
  for (size_t i = 0; i * width < view.bytes.size(); ++i) {
    float value = 0.0f;
    dequantize_row(type, view.bytes.data() + i * width, {&value, 1});
    if (!std::isfinite(value))
      fail("{}: tensor {}: {} {} is not finite (MX-5)", p.file,
           in_quotes(p.path + ".weight"), what, i);
  }
}

void check_values(const Parts& p, AffineMode mode) {  // MX-5
  switch (mode) {
    case AffineMode::affine:
      check_finite(*p.scales, p.scales->dtype, p, "scale");
      check_finite(*p.biases, p.biases->dtype, p, "bias");
      return;
    case AffineMode::mxfp8:
      check_finite(*p.weight, DType::f8_e4m3, p, "code");
      [[fallthrough]];
    case AffineMode::mxfp4:
      check_finite(*p.scales, DType::f8_e8m0, p, "scale");
      return;
    case AffineMode::nvfp4:
      check_finite(*p.scales, DType::f8_e4m3, p, "scale");
      return;
    case AffineMode::zero_point:
    case AffineMode::e4m3:
      CHECK(false);  // no MLX scheme
  }
}

AffineMatrix matrix_of(const Parts& p, const Scheme& scheme) {
  const uint64_t n_cols = p.groups() * uint64_t(scheme.group_size);
  const int64_t n_rows = p.weight->rows();
  if (n_cols > uint64_t(INT32_MAX) || n_rows > INT32_MAX)
    fail("{}: tensor {}: {} rows of {} columns, the limit is 2^31 (MX-1)", p.file,
         in_quotes(p.path + ".weight"), n_rows, n_cols);
  return {.mode = scheme.mode,
          .bits = scheme.bits,
          .group_size = scheme.group_size,
          .n_rows = int(n_rows),
          .n_cols = int(n_cols),
          .scale_dtype = p.scales->dtype,
          .codes = p.weight->bytes,
          .scales = p.scales->bytes,
          .biases = p.biases != nullptr ? p.biases->bytes : std::span<const std::byte>()};
}

}  // namespace

MlxQuantization::MlxQuantization(const Checkpoint& checkpoint) {
  if (checkpoint.container != Container::safetensors) return;
  constexpr std::string_view kSuffix = ".scales";
  const MlxConfig config = read_config(checkpoint);
  for (const auto& [tensor, stored] : checkpoint.tensors) {
    if (!tensor.ends_with(kSuffix)) continue;
    const std::string path = tensor.substr(0, tensor.size() - kSuffix.size());
    const Parts parts = parts_of(checkpoint, path);
    check_shapes(parts);
    const Scheme scheme = choose_scheme(parts, stated_scheme(config, path));
    check_values(parts, scheme.mode);
    matrices_.emplace(path + ".weight", matrix_of(parts, scheme));
  }
}

std::optional<AffineMatrix> MlxQuantization::find(std::string_view weight) const {
  const auto it = matrices_.find(weight);
  if (it == matrices_.end()) return std::nullopt;
  return it->second;
}

std::vector<std::string> MlxQuantization::tensors_of(std::string_view weight) const {
  const auto it = matrices_.find(weight);
  if (it == matrices_.end()) return {};
  const std::string path(weight.substr(0, weight.rfind('.')));
  std::vector<std::string> names = {path + ".weight", path + ".scales"};
  if (it->second.mode == AffineMode::affine) names.push_back(path + ".biases");
  return names;
}

}  // namespace ingot
