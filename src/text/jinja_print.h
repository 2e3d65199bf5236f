// Values as text: Python's str() and repr(), and json.dumps().
#pragma once

#include <optional>
#include <string>

#include "text/jinja_value.h"

namespace ingot::jinja {

std::string repr_float(double value);  // 1.0, 1e+16, 1e-05, inf, nan
void append_str(Run& run, std::string& out, const Value& value);
void append_repr(Run& run, std::string& out, const Value& value);
void append_repr_text(std::string& out, std::string_view text);
std::string str_of(Run& run, const Value& value);
std::string repr_of(Run& run, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // what one level adds; absent: on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// Error for what json.dumps refuses: undefined, namespaces, generators.
std::string to_json(Run& run, const Value& value, const JsonStyle& style);

bool is_printable(char32_t code_point);  // str.isprintable

}  // namespace ingot::jinja
