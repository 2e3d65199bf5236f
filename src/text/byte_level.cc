#include "text/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace ingot {
namespace {

constexpr int kLetterLimit = 0x144;  // letters are U+0021 .. U+0143

struct Alphabet {
  std::array<std::string, 256> letters;
  std::array<int, kLetterLimit> bytes;  // -1: no letter of the alphabet
};

bool is_its_own_letter(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int letter = is_its_own_letter(byte) ? byte : next++;
    append_utf8(alphabet.letters[size_t(byte)], char32_t(letter));
    alphabet.bytes[size_t(letter)] = byte;
  }
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet instance = make_alphabet();
  return instance;
}

}  // namespace

std::string_view byte_letter(uint8_t byte) { return alphabet().letters[byte]; }

std::string to_byte_letters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) out += byte_letter(uint8_t(c));
  return out;
}

std::optional<std::string> from_byte_letters(std::string_view letters) {
  std::string out;
  out.reserve(letters.size());
  for (size_t i = 0; i < letters.size();) {
    const Utf8Step step = decode_utf8(letters, i);
    if (!step.valid || step.code_point >= kLetterLimit) return std::nullopt;
    const int byte = alphabet().bytes[step.code_point];
    if (byte < 0) return std::nullopt;
    out += char(byte);
    i += size_t(step.length);
  }
  return out;
}

}  // namespace ingot
