// UTF-8: decode, validate, and make any bytes fit for a message or for JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

// One step of decoding.  `length` bytes form the code point, or, when `valid` is false,
// are one maximal ill-formed subpart (Unicode 3.9, as Python's and Rust's lossy
// decoding).
struct Utf8Step {
  char32_t code_point;
  int length;
  bool valid;
  bool truncated;  // ill-formed only because the text ends: more bytes could complete it
};
// Requires: offset < text.size().
Utf8Step decode_utf8(std::string_view text, size_t offset);

bool is_valid_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);

// Each maximal ill-formed subpart becomes one U+FFFD.
std::string lossy_utf8(std::string_view bytes);

// For a message or JSON: bad bytes and control characters become \xNN.
std::string printable_text(std::string_view bytes);

}  // namespace ingot
