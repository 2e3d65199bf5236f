// The alphabet of byte-level vocabularies: every byte as one printable letter
// (tokenizers.md 6), so that a vocabulary file is readable text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ingot {

// The byte's letter, as UTF-8.
std::string_view byte_letter(uint8_t byte);
// Every byte of `bytes` by its letter.
std::string to_byte_letters(std::string_view bytes);
// The way back; nothing when a character is not one of the 256 letters.
std::optional<std::string> from_byte_letters(std::string_view letters);

}  // namespace ingot
