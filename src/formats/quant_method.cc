#include "formats/quant_method.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/quote.h"
#include "formats/strict_json.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr std::string_view kMethods =
    "fp8, gptq, awq, mxfp4 or compressed-tensors, or MLX's 'quantization'";

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  return text;
}

std::string shown(const json& value) {
  return value.is_string() ? in_quotes(value.get<std::string>()) : json_kind(value);
}

// The fields of one object, with messages that name them.
class QuantFields {
 public:
  QuantFields(const json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  [[noreturn]] void refuse(const char* key, std::string_view wanted) const {
    fail("{}' is {}, wanted {}", path(key), shown(object_[key]), wanted);
  }
  std::string path(std::string_view key) const {
    return fmt::format("{}{}{}", where_, where_.ends_with('\'') ? "" : ".", key);
  }
  const json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  std::optional<std::string> text(const char* key, std::string_view wanted) const {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(key, wanted);
    return value->get<std::string>();
  }
  bool flag(const char* key, bool otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, "true or false");
    return value->get<bool>();
  }
  // A whole number in [low, high].
  std::optional<int> number(const char* key, int low, int high,
                            std::string_view wanted) const {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer()) refuse(key, wanted);
    const bool fits = value->is_number_unsigned()
                          ? value->get<uint64_t>() <= uint64_t(high)
                          : value->get<int64_t>() <= high;
    if (!fits || value->get<int64_t>() < low) refuse(key, wanted);
    return value->get<int>();
  }
  // The first of two spellings that is there.
  const char* either(const char* key, const char* other) const {
    return find(key) == nullptr && find(other) != nullptr ? other : key;
  }
  // A text in any case that must be one of `allowed`.
  std::optional<std::string> one_of(const char* key,
                                    const std::vector<std::string>& allowed) const {
    const std::string wanted = fmt::format("{}", fmt::join(allowed, " or "));
    const std::optional<std::string> value = text(key, wanted);
    if (!value) return std::nullopt;
    if (std::find(allowed.begin(), allowed.end(), lower(*value)) == allowed.end())
      refuse(key, wanted);
    return lower(*value);
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> out;
    const json* value = find(key);
    if (value == nullptr) return out;
    if (!value->is_array()) refuse(key, "an array of module names");
    for (const json& entry : *value) {
      if (!entry.is_string()) refuse(key, "an array of module names");
      out.push_back(entry.get<std::string>());
    }
    return out;
  }
  // [rows, columns] of a quant group; nothing when absent.
  void pair(const char* key, int& rows, int& cols) const {
    const json* value = find(key);
    if (value == nullptr) return;
    const auto good = [](const json& v) {
      return v.is_number_unsigned() && v.get<uint64_t>() >= 1 &&
             v.get<uint64_t>() <= uint64_t(1) << 30;
    };
    if (!value->is_array() || value->size() != 2 || !good((*value)[0]) ||
        !good((*value)[1]))
      refuse(key, "two positive numbers, rows and columns");
    rows = (*value)[0].get<int>();
    cols = (*value)[1].get<int>();
  }
  QuantFields object(const char* key) const {
    if (!find(key)->is_object()) refuse(key, "an object");
    return {*find(key), path(key)};
  }
  const json& raw() const { return object_; }
  const std::string& where() const { return where_; }

 private:
  const json& object_;
  std::string where_;
};

void read_group_size(const QuantFields& f, const char* key, QuantConfig& config) {
  config.group_size =
      f.number(key, -1, 1 << 30, "a positive number, or -1 for the whole row (QC-4)");
  if (config.group_size == 0) f.refuse(key, "a positive number, or -1 (QC-4)");
}

void read_gptq(const QuantFields& f, QuantConfig& config) {
  config.bits = f.number("bits", 2, 8, "2, 3, 4 or 8");
  if (config.bits && (*config.bits == 5 || *config.bits == 6 || *config.bits == 7))
    f.refuse("bits", "2, 3, 4 or 8");
  read_group_size(f, "group_size", config);
  config.symmetric = f.flag("sym", false);
  if (f.flag("is_marlin_format", false)) f.refuse("is_marlin_format", "false");
  for (const char* key : {"checkpoint_format", "format"})
    if (const auto format = f.one_of(key, {"gptq", "gptq_v2"}))
      config.gptq_version = *format == "gptq" ? 1 : 2;
  f.one_of("pack_dtype", {"int32"});
  const json* dynamic = f.find("dynamic");
  config.has_overrides = dynamic != nullptr && dynamic->is_object();
}

void read_awq(const QuantFields& f, QuantConfig& config) {
  const char* bits = f.either("bits", "w_bit");
  config.bits = f.number(bits, 0, 64, "4");
  if (config.bits && *config.bits != 4) f.refuse(bits, "4");
  read_group_size(f, f.either("group_size", "q_group_size"), config);
  if (!f.flag("zero_point", true)) f.refuse("zero_point", "true");
  f.one_of("version", {"gemm"});
}

void read_fp8(const QuantFields& f, QuantConfig& config) {
  f.one_of("fmt", {"e4m3", "float8_e4m3fn"});
  f.one_of("activation_scheme", {"dynamic", "static"});
  f.pair("weight_block_size", config.block_rows, config.block_cols);
}

CompressedScheme read_scheme(const QuantFields& group, const std::string& format) {
  CompressedScheme scheme;
  scheme.format = group
                      .one_of("format", {"pack-quantized", "float-quantized",
                                         "naive-quantized", "int-quantized"})
                      .value_or(format);
  if (group.find("weights") == nullptr)
    fail("{}' is missing, wanted how weights are quantised", group.path("weights"));
  const QuantFields weights = group.object("weights");
  const std::string type = weights.one_of("type", {"int", "float"}).value_or("int");
  scheme.bits = weights.number("num_bits", 2, 8, "2 to 8").value_or(8);
  scheme.symmetric = weights.flag("symmetric", true);
  if (type == "float" && scheme.bits != 8) weights.refuse("num_bits", "8 for floats");
  weights.one_of("strategy", {"tensor", "channel", "group", "block"});
  scheme.group_size =
      weights.number("group_size", -1, 1 << 30, "a positive number or -1");
  if (scheme.group_size == 0) weights.refuse("group_size", "a positive number or -1");
  weights.pair("block_structure", scheme.block_rows, scheme.block_cols);
  return scheme;
}

void read_compressed_tensors(const QuantFields& f, QuantConfig& config) {
  const std::string format =
      f.one_of("format", {"pack-quantized", "float-quantized", "naive-quantized",
                          "int-quantized", "mixed-precision"})
          .value_or("mixed-precision");
  if (f.find("config_groups") == nullptr)
    fail("{}' is missing, wanted how modules are quantised", f.path("config_groups"));
  const QuantFields groups = f.object("config_groups");
  for (const auto& [key, group] : groups.raw().items()) {
    const std::string where = groups.where() + "." + printable_text(key);
    if (!group.is_object()) fail("{}' is {}, wanted an object", where, json_kind(group));
    config.schemes.push_back(read_scheme({group, where}, format));
    if (config.schemes.back().format == "mixed-precision")
      fail(
          "{}.format' is missing, wanted pack-quantized, float-quantized, "
          "naive-quantized or int-quantized",
          where);
  }
  if (config.schemes.empty()) f.refuse("config_groups", "at least one group");
  for (const std::string& pattern : f.texts("ignore"))
    if (!pattern.starts_with("re:")) config.not_converted.push_back(pattern);
}

QuantConfig read_method(const QuantFields& f, QuantMethod method) {
  QuantConfig config;
  config.method = method;
  config.where = f.where();
  if (method != QuantMethod::compressed_tensors)
    config.not_converted = f.texts("modules_to_not_convert");
  switch (method) {
    case QuantMethod::fp8:
      read_fp8(f, config);
      break;
    case QuantMethod::gptq:
      read_gptq(f, config);
      break;
    case QuantMethod::awq:
      read_awq(f, config);
      break;
    case QuantMethod::compressed_tensors:
      read_compressed_tensors(f, config);
      break;
    default:
      break;
  }
  return config;
}

}  // namespace

std::string_view name(QuantMethod method) {
  switch (method) {
    case QuantMethod::none:
      return "none";
    case QuantMethod::mlx:
      return "mlx";
    case QuantMethod::fp8:
      return "fp8";
    case QuantMethod::gptq:
      return "gptq";
    case QuantMethod::awq:
      return "awq";
    case QuantMethod::mxfp4:
      return "mxfp4";
    case QuantMethod::compressed_tensors:
      return "compressed-tensors";
  }
  return {};
}

QuantConfig read_quant_config(const json& config, const std::string& where) {
  const auto stated = [&](const char* key) {
    const auto it = config.find(key);
    return it == config.end() || it->is_null() ? nullptr : &*it;
  };
  QuantConfig out;
  if (stated("quantization") != nullptr) {  // often with a copy under the other name
    out.method = QuantMethod::mlx;
    return out;
  }
  const json* object = stated("quantization_config");
  if (object == nullptr) return out;
  const std::string field = where + "field 'quantization_config";
  if (!object->is_object())
    fail("{}' is {}, wanted an object", field, json_kind(*object));
  const QuantFields fields(*object, field);
  if (fields.find("quant_method") == nullptr)
    fail("{}.quant_method' is missing, wanted {}", field, kMethods);
  const std::string method =
      lower(fields.text("quant_method", kMethods).value_or(std::string()));
  for (const QuantMethod known : {QuantMethod::fp8, QuantMethod::gptq, QuantMethod::awq,
                                  QuantMethod::mxfp4, QuantMethod::compressed_tensors})
    if (method == name(known)) return read_method(fields, known);
  fields.refuse("quant_method", kMethods);
}

void check_quantization_method(const json& config, const std::string& where) {
  read_quant_config(config, where);
}

QuantConfig read_quantize_config(const json& object, const std::string& where) {
  if (!object.is_object()) fail("{}{}, wanted an object", where, json_kind(object));
  const QuantFields fields(object, where + "field '");
  std::optional<std::string> method = fields.text("quant_method", "gptq or awq");
  if (!method)
    method = object.contains("zero_point") || object.contains("version") ? "awq" : "gptq";
  if (lower(*method) == "gptq") return read_method(fields, QuantMethod::gptq);
  if (lower(*method) == "awq") return read_method(fields, QuantMethod::awq);
  fields.refuse("quant_method", "gptq or awq");
}

}  // namespace ingot
