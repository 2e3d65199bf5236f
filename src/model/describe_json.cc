// The recipe as JSON: every field, under the names that recipe.h uses.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/describe.h"
#include "model/recipe_fields.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

// `every`: fields that are as usual too.
template <typename Part>
ordered_json json_of(const Part& part, bool every = false);

ordered_json shown(const std::string& text, bool) { return text; }
ordered_json shown(bool value, bool) { return value; }
ordered_json shown(int value, bool) { return value; }
ordered_json shown(double value, bool) { return value; }
ordered_json shown(float value, bool) { return shortest(value); }
template <typename Enum>
requires std::is_enum_v<Enum> ordered_json shown(Enum value, bool) {
  for (const auto& [kind, name] : enum_names(value))
    if (kind == value) return name;
  return "?";
}
template <typename Part>
requires std::is_class_v<Part> ordered_json shown(const Part& part, bool every) {
  return json_of(part, every);
}

// ---- Lists whose entries are alike ---------------------------------------------------
//
// {"count": 3, "each": {"name": "experts.{i}.up", "order": {"first": {"first": 0, "step":
// 8}}}} says what entry i is: {i} in a text is its index, and a number may grow in steps.

// `one` with what differs in `zero` turned into a text with {i}, if only an index does.
bool find_text(const std::string& zero, std::string& one) {
  const size_t at =
      size_t(std::mismatch(zero.begin(), zero.end(), one.begin(), one.end()).first -
             zero.begin());
  if (zero.size() != one.size() || at == zero.size()) return false;
  if (zero[at] != '0' || one[at] != '1') return false;
  one.replace(at, 1, "{i}");
  return zero.substr(at + 1) == one.substr(at + 3);
}

// Turns entry `one` into the pattern that has `zero` before it.
bool find_pattern(const ordered_json& zero, ordered_json& one) {
  if (zero == one) return true;
  if (zero.is_string() && one.is_string())
    return find_text(zero.get_ref<const std::string&>(), one.get_ref<std::string&>());
  if (zero.is_number_integer() && one.is_number_integer()) {
    const auto first = zero.get<int64_t>();
    one = {{"first", first}, {"step", one.get<int64_t>() - first}};
    return true;
  }
  if (zero.type() != one.type() || zero.size() != one.size()) return false;
  if (!zero.is_structured()) return false;
  auto from = zero.begin();
  for (auto to = one.begin(); to != one.end(); ++to, ++from) {
    if (zero.is_object() && from.key() != to.key()) return false;
    if (!find_pattern(*from, *to)) return false;
  }
  return true;
}

// Whether entry i, as the pattern says, is `entry`.
bool fits(const ordered_json& pattern, int64_t i, const ordered_json& entry) {
  if (pattern.is_string()) {
    std::string text = pattern.get<std::string>();
    const size_t at = text.find("{i}");
    if (at != std::string::npos) text.replace(at, 3, std::to_string(i));
    return entry.is_string() && entry.get_ref<const std::string&>() == text;
  }
  if (pattern.is_object() && entry.is_number_integer() && pattern.contains("step"))
    return entry.get<int64_t>() ==
           pattern["first"].get<int64_t>() + i * pattern["step"].get<int64_t>();
  if (!pattern.is_structured()) return pattern == entry;
  if (pattern.type() != entry.type() || pattern.size() != entry.size()) return false;
  auto to = entry.begin();
  for (auto from = pattern.begin(); from != pattern.end(); ++from, ++to) {
    if (pattern.is_object() && from.key() != to.key()) return false;
    if (!fits(*from, i, *to)) return false;
  }
  return true;
}

bool has_steps(const ordered_json& pattern) {
  if (!pattern.is_structured()) return false;
  if (pattern.is_object() && pattern.contains("step")) return true;
  return std::any_of(pattern.begin(), pattern.end(), has_steps);
}

// Leaves out of the pattern what `entry` leaves out as usual.
void leave_usual_out(ordered_json& pattern, const ordered_json& entry) {
  if (pattern.is_array() && entry.is_array()) {
    for (size_t i = 0; i < pattern.size(); ++i) leave_usual_out(pattern[i], entry.at(i));
  }
  if (!pattern.is_object() || !entry.is_object()) return;
  for (auto it = pattern.begin(); it != pattern.end();) {
    const auto kept = entry.find(it.key());
    if (kept != entry.end()) leave_usual_out(*it, *kept);
    if (kept == entry.end() && !has_steps(*it))
      it = pattern.erase(it);
    else
      ++it;
  }
}

template <typename Part>
ordered_json json_of_alike(const std::vector<Part>& parts) {
  ordered_json plain = ordered_json::array();
  for (const Part& part : parts) plain.push_back(json_of(part));
  if (parts.size() < 3) return plain;
  // A number that grows from the usual one stands in every entry but the first.
  const ordered_json zero = json_of(parts[0], true);
  ordered_json pattern = json_of(parts[1], true);
  bool alike = find_pattern(zero, pattern);
  for (size_t i = 0; alike && i < parts.size(); ++i)
    alike = fits(pattern, int64_t(i), json_of(parts[i], true));
  if (!alike) return plain;
  leave_usual_out(pattern, plain[1]);
  return {{"count", parts.size()}, {"each", std::move(pattern)}};
}

// ---- Fields -------------------------------------------------------------------------

struct JsonWriter {
  ordered_json& out;
  bool every = false;

  template <typename T>
  void field(const char* name, const T& value, Range = {}) {
    out[name] = shown(value, every);
  }
  template <typename T>
  void field_or(const char* name, const T& value, const T& usual, Range = {}) {
    if (every || value != usual) out[name] = shown(value, every);
  }
  void order(const char* name, const RowOrder& value) {
    if (every || !value.plain()) out[name] = json_of(value, every);
  }
  template <typename Part>
  void part(const char* name, const std::optional<Part>& value) {
    if (value) out[name] = json_of(*value, every);
  }
  template <typename Part>
  void list(const char* name, const std::vector<Part>& parts) {
    for (const Part& part : parts) out[name].push_back(json_of(part, every));
  }
  template <typename Part>
  void repeated(const char* name, const std::vector<Part>& parts) {
    out[name] = json_of_alike(parts);
  }
  void numbers(const char* name, const std::vector<float>& values, Range) {
    for (const float value : values) out[name].push_back(shortest(value));
  }
  template <typename... Kinds>
  void kinds(const char* name, const std::variant<Kinds...>& value) {
    std::visit(
        [&](const auto& kind) {
          ordered_json object = {{"kind", kind_name(&kind)}};
          JsonWriter writer{object, every};
          fields(writer, kind);
          out[name] = std::move(object);
        },
        value);
  }
};

template <typename Part>
ordered_json json_of(const Part& part, bool every) {
  ordered_json out = ordered_json::object();
  JsonWriter writer{out, every};
  fields(writer, part);
  return out;
}

}  // namespace

std::string recipe_json(const Recipe& recipe) {
  return json_of(recipe).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace ingot
