// Characters as Python's str methods see them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ingot::jinja {

bool is_space(char32_t c);                     // str.isspace, and \s of Python's re
size_t leading_space(std::string_view text);   // bytes
size_t trailing_space(std::string_view text);  // bytes
bool is_name_start(char32_t c);                // str.isidentifier
bool is_name_character(char32_t c);            // \w of Python's re

bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit_character(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
inline bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);  // str.title
std::string to_capitalized(std::string_view text);
std::string swap_case(std::string_view text);

}  // namespace ingot::jinja
