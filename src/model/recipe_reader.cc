#include "model/recipe_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "model/recipe_fields.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr size_t kMaxText = 1024;
constexpr size_t kMaxNumbers = 1 << 16;

// One reading of a whole recipe.
struct Reading {
  const std::string& where;
  int entries_left = 0;
  int index = -1;  // of the entry that a pattern is read for; -1: not in a pattern

  [[noreturn]] void refuse(const std::string& path, const json& found,
                           const std::string& wanted) const {
    fail("{}field '{}' is {}, wanted {}", where, path, shown_json(found), wanted);
  }
  void count_entry(const std::string& path) {
    if (--entries_left < 0)
      fail("{}field '{}' is one matrix or vector too many, wanted fewer", where, path);
  }
};

template <typename Part>
void read_object(Reading& reading, const json& value, const std::string& path, Part& part,
                 bool has_kind = false);

// The fields of one object; fields() calls it.
class ObjectReader {
 public:
  ObjectReader(Reading& reading, const json& object, const std::string& path)
      : reading_(reading), object_(object), path_(path) {}

  template <typename T>
  void field(const char* name, T& value, Range range = {}) {
    const json* found = find(name);
    if (!found) fail("{}field '{}' is missing", reading_.where, path_of(name));
    read(path_of(name), *found, value, range);
  }
  template <typename T>
  void field_or(const char* name, T& value, const T& usual, Range range = {}) {
    const json* found = find(name);
    if (!found)
      value = usual;
    else
      read(path_of(name), *found, value, range);
  }
  void order(const char* name, RowOrder& value) {
    if (const json* found = find(name)) read(path_of(name), *found, value, {});
  }
  template <typename Part>
  void part(const char* name, std::optional<Part>& value) {
    if (const json* found = find(name)) read(path_of(name), *found, value.emplace(), {});
  }
  template <typename Part>
  void list(const char* name, std::vector<Part>& parts) {
    const json* found = find(name);
    if (!found) return;
    const std::string path = path_of(name);
    if (!found->is_array()) reading_.refuse(path, *found, "a list");
    read_entries(*found, path, parts);
  }
  template <typename Part>
  void repeated(const char* name, std::vector<Part>& parts) {
    const json* found = find(name);
    const std::string path = path_of(name);
    if (!found) fail("{}field '{}' is missing", reading_.where, path);
    if (found->is_array()) return read_entries(*found, path, parts);
    if (!found->is_object()) reading_.refuse(path, *found, "a list, or count and each");
    read_pattern(*found, path, parts);
  }
  void numbers(const char* name, std::vector<float>& values, Range range) {
    const json* found = find(name);
    if (!found) return;
    const std::string path = path_of(name);
    if (!found->is_array() || found->size() > kMaxNumbers)
      reading_.refuse(path, *found,
                      fmt::format("a list of at most {} numbers", kMaxNumbers));
    for (size_t i = 0; i < found->size(); ++i)
      read(path + fmt::format("[{}]", i), (*found)[i], values.emplace_back(), range);
  }
  template <typename... Kinds>
  void kinds(const char* name, std::variant<Kinds...>& value) {
    const json* found = find(name);
    const std::string path = path_of(name);
    if (!found) fail("{}field '{}' is missing", reading_.where, path);
    if (!found->is_object()) reading_.refuse(path, *found, "an object");
    const auto kind = found->find("kind");
    const std::string text =
        kind != found->end() && kind->is_string() ? kind->get<std::string>() : "";
    if (!(read_kind<Kinds>(text, *found, path, value) || ...)) {
      std::string wanted;
      ((wanted += (wanted.empty() ? "" : ", ") +
                  std::string(kind_name(static_cast<Kinds*>(nullptr)))),
       ...);
      if (kind == found->end())
        fail("{}field '{}.kind' is missing, wanted one of {}", reading_.where, path,
             wanted);
      reading_.refuse(path + ".kind", *kind, "one of " + wanted);
    }
  }

  // After all fields: another one is refused.
  void finish(bool has_kind) {
    for (const auto& [name, value] : object_.items()) {
      if (has_kind && name == "kind") continue;
      if (std::find(known_.begin(), known_.end(), name) == known_.end())
        fail("{}field '{}' is not known here, wanted it absent", reading_.where,
             path_of(printable_text(name)));
    }
  }

 private:
  std::string path_of(std::string_view name) const {
    std::string path = path_;
    if (!path.empty()) path += '.';
    return path += name;
  }

  const json* find(std::string_view name) {
    known_.push_back(name);
    const auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }

  template <typename Part>
  void read_entries(const json& list, const std::string& path, std::vector<Part>& parts) {
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string at = path + fmt::format("[{}]", i);
      reading_.count_entry(at);
      read(at, list[i], parts.emplace_back(), {});
    }
  }

  template <typename Part>
  void read_pattern(const json& pattern, const std::string& path,
                    std::vector<Part>& parts) {
    ObjectReader reader(reading_, pattern, path);
    int count = 0;
    reader.field("count", count, kHeads);
    const json* each = reader.find("each");
    if (!each) fail("{}field '{}.each' is missing", reading_.where, path);
    reader.finish(false);
    for (reading_.index = 0; reading_.index < count; ++reading_.index) {
      reading_.count_entry(path);
      read(path + ".each", *each, parts.emplace_back(), {});
    }
    reading_.index = -1;
  }

  template <typename Kind, typename Variant>
  bool read_kind(const std::string& text, const json& object, const std::string& path,
                 Variant& value) {
    if (text != kind_name(static_cast<Kind*>(nullptr))) return false;
    read_object(reading_, object, path, value.template emplace<Kind>(), true);
    return true;
  }

  // ---- Values ------------------------------------------------------------------------

  void read(const std::string& path, const json& found, std::string& value, Range) {
    if (!found.is_string()) reading_.refuse(path, found, "a string");
    value = found.get<std::string>();
    const size_t at = value.find("{i}");
    if (reading_.index >= 0 && at != std::string::npos)
      value.replace(at, 3, std::to_string(reading_.index));
    if (value.size() > kMaxText)
      reading_.refuse(path, found, fmt::format("at most {} bytes", kMaxText));
  }

  void read(const std::string& path, const json& found, bool& value, Range) {
    if (!found.is_boolean()) reading_.refuse(path, found, "true or false");
    value = found.get<bool>();
  }

  void read(const std::string& path, const json& found, int& value, Range range) {
    if (reading_.index >= 0 && found.is_object()) {
      const int64_t first = integer_of(path + ".first", found, "first");
      const int64_t step = integer_of(path + ".step", found, "step");
      if (found.size() != 2) reading_.refuse(path, found, "first and step");
      const int64_t at = first + reading_.index * step;
      check_integer(path, json(at), range);
      value = int(at);
      return;
    }
    check_integer(path, found, range);
    value = found.get<int>();
  }

  void check_integer(const std::string& path, const json& found, Range range) const {
    const bool fits =
        found.is_number_integer() &&
        (!found.is_number_unsigned() || found.get<uint64_t>() <= kMaxInteger) &&
        double(found.get<int64_t>()) >= range.low &&
        double(found.get<int64_t>()) <= range.high;
    if (!fits)
      reading_.refuse(path, found,
                      fmt::format("an integer from {} to {}", int64_t(range.low),
                                  int64_t(range.high)));
  }

  int64_t integer_of(const std::string& path, const json& object, const char* name) {
    const auto it = object.find(name);
    if (it == object.end()) fail("{}field '{}' is missing", reading_.where, path);
    check_integer(path, *it, {-kMaxInteger, kMaxInteger});
    return it->get<int64_t>();
  }

  void read(const std::string& path, const json& found, double& value, Range range) {
    value = found.is_number() ? found.get<double>() : NAN;
    if (!(value >= range.low && value <= range.high))
      reading_.refuse(path, found,
                      fmt::format("a number from {:g} to {:g}", range.low, range.high));
  }
  void read(const std::string& path, const json& found, float& value, Range range) {
    double number = 0;
    read(path, found, number, range);
    value = float(number);
  }

  template <typename Enum>
  requires std::is_enum_v<Enum>
  void read(const std::string& path, const json& found, Enum& value, Range) {
    std::string wanted;
    for (const auto& [kind, name] : enum_names(Enum())) {
      if (found.is_string() && found.get_ref<const std::string&>() == name) {
        value = kind;
        return;
      }
      wanted += (wanted.empty() ? "" : ", ") + std::string(name);
    }
    reading_.refuse(path, found, "one of " + wanted);
  }

  template <typename Part>
  requires std::is_class_v<Part>
  void read(const std::string& path, const json& found, Part& part, Range) {
    read_object(reading_, found, path, part);
  }

  static constexpr int64_t kMaxInteger = std::numeric_limits<int>::max();

  Reading& reading_;
  const json& object_;
  const std::string& path_;
  std::vector<std::string_view> known_;
};

template <typename Part>
void read_object(Reading& reading, const json& value, const std::string& path, Part& part,
                 bool has_kind) {
  if (!value.is_object()) reading.refuse(path, value, "an object");
  ObjectReader reader(reading, value, path);
  fields(reader, part);
  reader.finish(has_kind);
}

}  // namespace

std::string shown_json(const json& value) {
  constexpr size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown - 3) + "...";
  return text;
}

Recipe read_recipe(const json& object, const std::string& where,
                   const RecipeLimits& limits) {
  Recipe recipe;
  Reading reading{.where = where, .entries_left = limits.max_entries};
  read_object(reading, object, "", recipe);
  return recipe;
}

}  // namespace ingot
