// A template's text into tokens: template text between tags, and the words inside them.
// Whitespace control (trim_blocks, lstrip_blocks, - and +) is settled here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_int.h"

namespace ingot::jinja {

enum class TokenKind : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  floating,
  op,  // text: + - * ** / // % ~ == != < <= > >= = ( ) [ ] { } . , : | ;
  eof,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // data and strings: as they read; integers: the digits as written
};

// Throws Error "NAME: line N: ...".
std::vector<Token> tokenize(std::string_view source, std::string_view name_for_messages);

}  // namespace ingot::jinja
