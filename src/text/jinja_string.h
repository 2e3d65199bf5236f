// Methods of strings, and the parts of them that filters share.
#pragma once

#include <optional>

#include "text/jinja_eval.h"

namespace ingot::jinja {

MethodFunction find_string_method(std::string_view name);

enum class Side : uint8_t { both, left, right };
// str.strip: whitespace, or any of the characters.
std::string_view strip(std::string_view text, Side side,
                       std::optional<std::string_view> characters);
std::string replace_text(Run& run, std::string_view text, std::string_view from,
                         std::string_view to, int64_t times);  // times < 0: all
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::optional<BigInt> parse_int(std::string_view text, int64_t base);  // Python's int()
std::optional<double> parse_float(std::string_view text);              // Python's float()

}  // namespace ingot::jinja
