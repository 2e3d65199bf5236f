// For the fuzz targets: JSON text mutated piece by piece (numbers, strings, members).
#pragma once

#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "formats/fuzz_numbers.h"

namespace ingot {

using Piece = std::pair<size_t, size_t>;  // begin, end

// Runs of digits, or the insides of strings.
inline std::vector<Piece> number_pieces(const std::string& text) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && std::isdigit(uint8_t(text[end]))) ++end;
    if (end > i) pieces.push_back({i, end});
    i = end + 1;
  }
  return pieces;
}
inline std::vector<Piece> string_pieces(const std::string& text) {
  std::vector<Piece> pieces;
  size_t open = text.find('"');
  while (open != std::string::npos) {
    const size_t close = text.find('"', open + 1);
    if (close == std::string::npos) break;
    pieces.push_back({open + 1, close});
    open = text.find('"', close + 1);
  }
  return pieces;
}

// Innermost {...} and [...] pieces, brackets included.
inline std::vector<Piece> bracket_pieces(const std::string& text) {
  std::vector<Piece> pieces;
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '[') open.push_back(i);
    if ((text[i] == '}' || text[i] == ']') && !open.empty()) {
      pieces.push_back({open.back(), i + 1});
      open.pop_back();
    }
  }
  return pieces;
}

inline std::string piece_text(const std::string& text, Piece p) {
  return text.substr(p.first, p.second - p.first);
}

// One change that keeps the text close to JSON; `words` are strings worth trying.
inline void mutate_json(std::string& text, FuzzRandom& random,
                        const std::vector<std::string>& words, uint64_t limit) {
  const std::vector<Piece> numbers = number_pieces(text);
  const std::vector<Piece> strings = string_pieces(text);
  const std::vector<Piece> brackets = bracket_pieces(text);
  const auto replace = [&](Piece p, const std::string& with) {
    text.replace(p.first, p.second - p.first, with);
  };
  switch (random.below(7)) {
    case 0:
    case 1:
      if (!numbers.empty()) {
        const Piece p = numbers[random.below(numbers.size())];
        const uint64_t old = std::strtoull(text.c_str() + p.first, nullptr, 10);
        replace(p, std::to_string(edge_number(random, old, limit)));
      }
      return;
    case 2:
      if (numbers.size() > 1)  // one number copied over another
        replace(numbers[random.below(numbers.size())],
                piece_text(text, numbers[random.below(numbers.size())]));
      return;
    case 3:
      if (!strings.empty())
        replace(strings[random.below(strings.size())], words[random.below(words.size())]);
      return;
    case 4:
      if (strings.size() > 1)
        replace(strings[random.below(strings.size())],
                piece_text(text, strings[random.below(strings.size())]));
      return;
    case 5:
      if (!brackets.empty())
        replace(brackets[random.below(brackets.size())],
                piece_text(text, brackets[random.below(brackets.size())]));
      return;
    default:
      if (!brackets.empty()) {  // a member or element twice
        const Piece p = brackets[random.below(brackets.size())];
        const std::string body = text.substr(p.first + 1, p.second - p.first - 2);
        if (!body.empty()) text.insert(p.second - 1, "," + body);
      }
      return;
  }
}

}  // namespace ingot
