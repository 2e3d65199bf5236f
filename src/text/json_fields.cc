#include "text/json_fields.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {
namespace {

std::string_view type_name(simdjson::dom::element_type type) {
  switch (type) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "a truth value";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

}  // namespace

void JsonField::refuse(std::string_view wanted) const {
  fail("{}: {}, wanted {}", place_, type_name(element_.type()), wanted);
}

bool JsonField::has(std::string_view key) const {
  simdjson::dom::element value;
  return object().at_key(key).get(value) == simdjson::SUCCESS && !value.is_null();
}

JsonField JsonField::at(std::string_view key) const {
  simdjson::dom::element value;
  if (object().at_key(key).get(value) != simdjson::SUCCESS)
    fail("{}: \"{}\" is missing", place_, key);
  return {value, fmt::format("{}{}{}", place_, place_.ends_with(':') ? " " : ".", key)};
}

bool JsonField::flag(std::string_view key, bool otherwise) const {
  return has(key) ? at(key).boolean() : otherwise;
}
std::string JsonField::text(std::string_view key, std::string_view otherwise) const {
  return std::string(has(key) ? at(key).string() : otherwise);
}
size_t JsonField::count(std::string_view key, size_t otherwise) const {
  return has(key) ? size_t(at(key).integer(0, int64_t(1) << 40)) : otherwise;
}

simdjson::dom::object JsonField::object() const {
  simdjson::dom::object value;
  if (element_.get(value) != simdjson::SUCCESS) refuse("an object");
  return value;
}

simdjson::dom::array JsonField::array() const {
  simdjson::dom::array value;
  if (element_.get(value) != simdjson::SUCCESS) refuse("a list");
  return value;
}

std::string_view JsonField::string() const {
  std::string_view value;
  if (element_.get(value) != simdjson::SUCCESS) refuse("a string");
  return value;
}

int64_t JsonField::integer(int64_t least, int64_t most) const {
  int64_t value = 0;
  if (!element_.is_int64() || element_.get(value) != simdjson::SUCCESS)
    refuse(fmt::format("an integer from {} to {}", least, most));
  if (value < least || value > most)
    fail("{}: {}, wanted an integer from {} to {}", place_, value, least, most);
  return value;
}

bool JsonField::boolean() const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) refuse("true or false");
  return value;
}

char32_t JsonField::letter() const {
  const std::string_view text = string();
  if (text.empty() || size_t(decode_utf8(text, 0).length) != text.size())
    fail("{}: \"{}\", wanted one character", place_, printable_text(text));
  return decode_utf8(text, 0).code_point;
}

JsonField JsonField::item(size_t index, simdjson::dom::element element) const {
  return {element, fmt::format("{}[{}]", place_, index)};
}

}  // namespace ingot
