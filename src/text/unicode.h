// What the text room asks about a code point.  The answers are those of the libraries
// behind Hugging Face tokenizers 0.23, which is Unicode 16 for categories and Unicode 9
// for normal forms; utf8proc is younger or older than each, and unicode.cc holds the
// difference.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

// Classes as bits, so that a matcher tests several at once.
enum LetterClass : uint8_t {
  kLetter = 1,         // L
  kNumber = 2,         // N
  kMark = 4,           // M
  kSpace = 8,          // White_Space
  kNewline = 16,       // CR, LF
  kUpperLike = 32,     // Lu Lt Lm Lo M
  kLowerLike = 64,     // Ll Lm Lo M
  kPunctSymbol = 128,  // P S
};

uint8_t letter_class(char32_t c);

bool is_space(char32_t c);        // White_Space
bool is_numeric(char32_t c);      // Nd Nl No, as Rust's char::is_numeric
bool is_punctuation(char32_t c);  // ASCII punctuation or P, as `Punctuation` splits
bool is_word(char32_t c);         // \w of Rust's regex crate
bool is_mark(char32_t c);         // M

// Two-letter general category, such as "Lu".
std::string_view general_category(char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// Requires: text is well-formed UTF-8.
std::string normalized(std::string_view text, NormalForm form);
std::string lowercased(std::string_view text);
std::string without_marks(std::string_view text);

// The code points of a general category ("Lu", or "L" for all its kinds) that Unicode 15
// and 16 added, as regex class ranges "\x{..}-\x{..}": PCRE2 may be older than they are.
std::string newer_ranges(std::string_view category);

}  // namespace ingot
