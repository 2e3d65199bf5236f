#include "model/derive/fields.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace ingot {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Words in a field's name that make ignoring it dangerous.
constexpr std::array<std::string_view, 28> kArithmeticWords = {
    "scale",  "scaling", "multiplier", "softcap", "alibi",      "clip",     "clamp",
    "sparse", "expert",  "moe",        "lora",    "conv",       "bias",     "norm",
    "window", "rope",    "rotary",     "attn",    "attention",  "quant",    "mlp",
    "head",   "layer",   "hidden",     "ssm",     "activation", "residual", "topk"};

bool speaks_of_arithmetic(std::string_view name) {
  for (const std::string_view word : kArithmeticWords)
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

std::optional<int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const auto n = value.get<uint64_t>();
    if (n > uint64_t(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return int64_t(n);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {  // some tools write 4.0 for a count
    const double number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) < 1e15) return int64_t(number);
  }
  return std::nullopt;
}

}  // namespace

Fields::Fields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {}

const json* Fields::find(std::string_view name) const {
  read_.emplace(name);
  const auto it = object_.find(name);
  if (it == object_.end() || it->is_null()) return nullptr;
  return &*it;
}

std::string Fields::named(std::string_view name) const {
  const size_t file = where_.rfind(": ");
  const size_t path = file == std::string::npos ? 0 : file + 2;
  return fmt::format("{}field '{}{}'", where_.substr(0, path), where_.substr(path), name);
}

void Fields::refuse(std::string_view name, const std::string& wanted) const {
  const auto it = object_.find(name);
  if (it == object_.end()) fail("{} is missing, wanted {}", named(name), wanted);
  fail("{} is {}, wanted {}", named(name), shown(*it), wanted);
}

bool Fields::has(std::string_view name) const { return find(name) != nullptr; }

int Fields::integer(std::string_view name, int64_t low, int64_t high) const {
  const json* value = find(name);
  const std::optional<int64_t> n = value ? as_integer(*value) : std::nullopt;
  if (!n || *n < low || *n > high)
    refuse(name, fmt::format("an integer from {} to {}", low, high));
  return int(*n);
}

int Fields::integer_or(std::string_view name, int64_t low, int64_t high,
                       int fallback) const {
  return has(name) ? integer(name, low, high) : fallback;
}

double Fields::real(std::string_view name, double low, double high) const {
  const json* value = find(name);
  const double number = value && value->is_number() ? value->get<double>() : NAN;
  if (!(number >= low && number <= high)) {
    refuse(name, high >= kAnyReal ? fmt::format("a number of at least {}", low)
                                  : fmt::format("a number from {} to {}", low, high));
  }
  return number;
}

double Fields::real_or(std::string_view name, double low, double high,
                       double fallback) const {
  return has(name) ? real(name, low, high) : fallback;
}

bool Fields::boolean_or(std::string_view name, bool fallback) const {
  const json* value = find(name);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(name, "true or false");
  return value->get<bool>();
}

std::string Fields::text(std::string_view name) const {
  const json* value = find(name);
  if (!value || !value->is_string()) refuse(name, "a string");
  return value->get<std::string>();
}

std::string Fields::text_or(std::string_view name, std::string_view fallback) const {
  return has(name) ? text(name) : std::string(fallback);
}

std::vector<std::string> Fields::texts(std::string_view name) const {
  const json* value = find(name);
  std::vector<std::string> out;
  bool good = value && value->is_array();
  if (good) {
    for (const json& item : *value) {
      good = good && item.is_string();
      if (good) out.push_back(item.get<std::string>());
    }
  }
  if (!good) refuse(name, "a list of strings");
  return out;
}

std::vector<int> Fields::integers(std::string_view name, int64_t low,
                                  int64_t high) const {
  const json* value = find(name);
  std::vector<int> out;
  bool good = value && (value->is_array() || value->is_number());
  if (good) {
    const json list = value->is_array() ? *value : json::array({*value});
    for (const json& item : list) {
      // Flags one a layer are booleans in GGUF.
      const std::optional<int64_t> n =
          item.is_boolean() ? std::optional<int64_t>(item.get<bool>()) : as_integer(item);
      good = good && n && *n >= low && *n <= high;
      if (good) out.push_back(int(*n));
    }
  }
  if (!good)
    refuse(name, fmt::format("an integer or a list of them, {} to {}", low, high));
  return out;
}

std::vector<double> Fields::reals(std::string_view name, double low, double high) const {
  const json* value = find(name);
  std::vector<double> out;
  bool good = value && value->is_array();
  if (good) {
    for (const json& item : *value) {
      const double number = item.is_number() ? item.get<double>() : NAN;
      good = good && number >= low && number <= high;
      out.push_back(number);
    }
  }
  if (!good) refuse(name, fmt::format("a list of numbers, {} to {}", low, high));
  return out;
}

std::vector<int> Fields::per_layer(std::string_view name, int n, int64_t low,
                                   int64_t high) const {
  std::vector<int> values = integers(name, low, high);
  const json* value = find(name);
  if (value->is_number()) values.assign(size_t(n), values.front());
  if (values.size() != size_t(n))
    refuse(name, fmt::format("one number, or a list of {}, one a layer", n));
  return values;
}

std::optional<Fields> Fields::object(std::string_view name) const {
  const json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_object()) refuse(name, "an object");
  return Fields(*value, fmt::format("{}{}.", where_, name));
}

void Fields::ignore(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) read_.emplace(name);
}

void Fields::only(std::string_view name, const json& harmless) const {
  const json* value = find(name);
  if (value && *value != harmless)
    refuse(name, fmt::format("{} (another value is not supported)", shown(harmless)));
}

void Fields::refuse_unread() const {
  for (const auto& [name, value] : object_.items()) {
    if (read_.contains(name) || value.is_null()) continue;
    if (value.is_boolean() && !value.get<bool>()) continue;
    if (speaks_of_arithmetic(name)) {
      fail(
          "{} is {}, wanted it absent: it is not known for this model type and may "
          "change "
          "what the model computes",
          named(name), shown(value));
    }
    log_info("{} is not known and has no effect", named(name));
  }
}

const Fields& empty_fields() {
  static const json object = json::object();
  static const Fields fields(object, "");
  return fields;
}

json parse_object(const std::string& text, const std::string& where) {
  constexpr int kMaxDepth = 16;  // real configs have four
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) fail("{}nested deeper than {} levels", where, kMaxDepth);
    return true;
  };
  json object;
  try {
    object = json::parse(text, shallow);
  } catch (const json::exception& e) {
    fail("{}not valid JSON: {}", where, e.what());
  }
  if (!object.is_object()) fail("{}not a JSON object", where);
  return object;
}

json metadata_json(const Checkpoint& checkpoint, std::string_view prefix) {
  json out = json::object();
  for (const auto& [key, value] : checkpoint.metadata) {
    if (!key.starts_with(prefix)) continue;
    std::string name = key.substr(prefix.size());
    std::visit(
        [&](const auto& v) {
          using V = std::decay_t<decltype(v)>;
          if constexpr (!std::is_same_v<V, std::vector<std::string>>) out[name] = v;
        },
        value);
  }
  return out;
}

}  // namespace ingot
