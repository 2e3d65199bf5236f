#include "text/split_patterns.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace ingot {
namespace {

struct KnownText {
  KnownPattern pattern;
  std::string_view text;
};
// What the six of the llama3 style share is left written out: these are data.
constexpr KnownText kKnown[] = {
    {KnownPattern::gpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {KnownPattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {KnownPattern::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {KnownPattern::qwen3_5,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {KnownPattern::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {KnownPattern::tekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    // The line ends stand in this one as themselves.
    {KnownPattern::deepseek_v3,
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
};

// A text as code points with their classes.
class Letters {
 public:
  explicit Letters(std::string_view text) {
    letters_.reserve(text.size() + 1);
    for (size_t i = 0; i < text.size();) {
      const Utf8Step step = decode_utf8(text, i);
      letters_.push_back({i, step.code_point, letter_class(step.code_point)});
      i += size_t(step.length);
    }
    letters_.push_back({text.size(), 0, 0});  // so that offset(size()) is the end
  }

  size_t size() const { return letters_.size() - 1; }
  size_t offset(size_t i) const { return letters_[i].offset; }
  char32_t at(size_t i) const { return letters_[i].code_point; }
  bool is(size_t i, unsigned classes) const {
    return i < size() && (letters_[i].classes & classes) != 0;
  }
  bool is_none(size_t i, unsigned classes) const {
    return i < size() && (letters_[i].classes & classes) == 0;
  }
  // The end of the run of letters of these classes (not of these, with run_of_none) at i.
  size_t run(size_t i, unsigned classes) const {
    while (is(i, classes)) ++i;
    return i;
  }
  size_t run_of_none(size_t i, unsigned classes) const {
    while (is_none(i, classes)) ++i;
    return i;
  }

 private:
  struct Letter {
    size_t offset;
    char32_t code_point;
    uint8_t classes;
  };
  std::vector<Letter> letters_;
};

enum class Case { exact, ignored };

// The end of 's 't 're 've 'm 'll 'd at i, or i.
size_t contraction(const Letters& s, size_t i, Case mode) {
  if (i + 1 >= s.size() || s.at(i) != '\'') return i;
  const auto letter = [&](size_t k) -> char32_t {
    if (k >= s.size()) return 0;
    const char32_t c = s.at(k);
    if (mode == Case::exact) return c;
    if (c == 0x17f) return 's';  // the long s folds to s
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
  };
  const char32_t first = letter(i + 1);
  const char32_t second = letter(i + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return i + 3;
  if (first == 'l' && second == 'l') return i + 3;
  return i;
}

enum class Newlines { plain, end_a_piece };

// \s*[\r\n]+ (when newlines end a piece), \s+(?!\S), \s+ at white space i.
size_t white_space(const Letters& s, size_t i, Newlines mode) {
  const size_t end = s.run(i, kSpace);
  if (mode == Newlines::end_a_piece) {
    for (size_t k = end; k > i; --k) {
      if (s.is(k - 1, kNewline)) return k;
    }
  }
  if (end == s.size() || end - i < 2) return end;
  return end - 1;  // the last one goes with what follows
}

size_t next_gpt2(const Letters& s, size_t i) {
  if (const size_t end = contraction(s, i, Case::exact); end > i) return end;
  const size_t j = s.at(i) == ' ' && i + 1 < s.size() ? i + 1 : i;
  if (s.is(j, kLetter)) return s.run(j, kLetter);
  if (s.is(j, kNumber)) return s.run(j, kNumber);
  if (s.is_none(j, kSpace)) return s.run_of_none(j, kSpace | kLetter | kNumber);
  return white_space(s, i, Newlines::plain);
}

// " ?[^\s...]+[\r\n]*": the end, or i.
size_t symbols(const Letters& s, size_t i, unsigned not_these, bool slash_ends_too) {
  const size_t j = s.at(i) == ' ' ? i + 1 : i;
  size_t end = s.run_of_none(j, not_these);
  if (end == j) return i;
  while (s.is(end, kNewline) || (slash_ends_too && end < s.size() && s.at(end) == '/'))
    ++end;
  return end;
}

size_t numbers(const Letters& s, size_t i, size_t most) {
  size_t end = i;
  while (end - i < most && s.is(end, kNumber)) ++end;
  return end;
}

size_t next_llama3(const Letters& s, size_t i, unsigned word, size_t most_digits) {
  if (const size_t end = contraction(s, i, Case::ignored); end > i) return end;
  if (s.is_none(i, kNewline | kLetter | kNumber) && s.is(i + 1, word))
    return s.run(i + 1, word);
  if (s.is(i, word)) return s.run(i, word);
  if (s.is(i, kNumber)) return numbers(s, i, most_digits);
  if (const size_t end = symbols(s, i, kSpace | word | kNumber, false); end > i)
    return end;
  return white_space(s, i, Newlines::end_a_piece);
}

// [upper-like]*[lower-like]+ at i, or i.
size_t capitalised(const Letters& s, size_t i) {
  size_t upper = s.run(i, kUpperLike);
  if (s.is(upper, kLowerLike)) return s.run(upper, kLowerLike);
  while (upper > i && !s.is(upper - 1, kLowerLike))
    --upper;  // give back, as a regex does
  return upper;
}

// [upper-like]+[lower-like]* at i, or i.
size_t upper_first(const Letters& s, size_t i) {
  const size_t upper = s.run(i, kUpperLike);
  return upper == i ? i : s.run(upper, kLowerLike);
}

size_t o200k_word(const Letters& s, size_t i) {
  const bool may_lead = s.is_none(i, kNewline | kLetter | kNumber);
  if (may_lead) {
    if (const size_t end = capitalised(s, i + 1); end > i + 1) return end;
  }
  if (const size_t end = capitalised(s, i); end > i) return end;
  if (may_lead) {
    if (const size_t end = upper_first(s, i + 1); end > i + 1) return end;
  }
  return upper_first(s, i);
}

size_t next_o200k(const Letters& s, size_t i, size_t most_digits, bool contractions) {
  if (const size_t end = o200k_word(s, i); end > i)
    return contractions ? contraction(s, end, Case::ignored) : end;
  if (s.is(i, kNumber)) return numbers(s, i, most_digits);
  if (const size_t end = symbols(s, i, kSpace | kLetter | kNumber, true); end > i)
    return end;
  return white_space(s, i, Newlines::end_a_piece);
}

bool is_ascii_letter(const Letters& s, size_t i) {
  return i < s.size() &&
         ((s.at(i) >= 'A' && s.at(i) <= 'Z') || (s.at(i) >= 'a' && s.at(i) <= 'z'));
}

// May match nothing at i: the letter is then part of a gap.
size_t next_deepseek_v3(const Letters& s, size_t i) {
  constexpr unsigned kWord = kLetter | kMark;
  if (s.at(i) < 0x80 && s.is(i, kPunctSymbol) && is_ascii_letter(s, i + 1)) {
    size_t end = i + 1;
    while (is_ascii_letter(s, end)) ++end;
    return end;
  }
  if (s.is_none(i, kNewline | kLetter | kPunctSymbol) && s.is(i + 1, kWord))
    return s.run(i + 1, kWord);
  if (s.is(i, kWord)) return s.run(i, kWord);
  const size_t j = s.at(i) == ' ' ? i + 1 : i;
  if (s.is(j, kPunctSymbol)) return s.run(s.run(j, kPunctSymbol), kNewline);
  if (s.is(i, kSpace)) return white_space(s, i, Newlines::end_a_piece);
  return i;
}

size_t next_known(KnownPattern pattern, const Letters& s, size_t i) {
  switch (pattern) {
    case KnownPattern::gpt2:
      return next_gpt2(s, i);
    case KnownPattern::llama3:
      return next_llama3(s, i, kLetter, 3);
    case KnownPattern::qwen2:
      return next_llama3(s, i, kLetter, 1);
    case KnownPattern::qwen3_5:
      return next_llama3(s, i, kLetter | kMark, 1);
    case KnownPattern::o200k:
      return next_o200k(s, i, 3, true);
    case KnownPattern::tekken:
      return next_o200k(s, i, 1, false);
    case KnownPattern::deepseek_v3:
      return next_deepseek_v3(s, i);
  }
  return i;
}

void find_literal(std::string_view literal, std::string_view text,
                  std::vector<TextRange>& matches) {
  for (size_t i = text.find(literal); i != std::string_view::npos;
       i = text.find(literal, i + literal.size()))
    matches.push_back({i, i + literal.size()});
}

}  // namespace

std::string_view pattern_text(KnownPattern pattern) {
  return std::ranges::find(kKnown, pattern, &KnownText::pattern)->text;
}

std::optional<KnownPattern> known_pattern(std::string_view text) {
  const auto* at = std::ranges::find(kKnown, text, &KnownText::text);
  if (at == std::end(kKnown)) return std::nullopt;
  return at->pattern;
}

void find_known(KnownPattern pattern, std::string_view text,
                std::vector<TextRange>& matches) {
  const Letters letters(text);
  for (size_t i = 0; i < letters.size();) {
    const size_t end = next_known(pattern, letters, i);
    if (end > i) matches.push_back({letters.offset(i), letters.offset(end)});
    i = std::max(end, i + 1);
  }
}

PatternMatcher::PatternMatcher(const Pattern& pattern, std::string_view field)
    : how_(pattern.text) {
  if (pattern.text.empty())
    fail("{}: an empty pattern, wanted something to look for", field);
  if (!pattern.is_regex) return;
  if (const auto known = known_pattern(pattern.text)) {
    how_ = *known;
  } else {
    how_ = Regex(pattern.text, field);
  }
}

void PatternMatcher::find_all(std::string_view text,
                              std::vector<TextRange>& matches) const {
  if (const auto* known = std::get_if<KnownPattern>(&how_)) {
    find_known(*known, text, matches);
  } else if (const auto* literal = std::get_if<std::string>(&how_)) {
    find_literal(*literal, text, matches);
  } else {
    std::get<Regex>(how_).find_all(text, matches);
  }
}

}  // namespace ingot
