// Oniguruma's Ruby syntax to PCRE2's.  One pass, no tree: what reads the same is copied,
// what differs is spelt out, what has no equal is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace ingot {
namespace {

constexpr int kMaxDepth = 100;
constexpr std::string_view kSpaces =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"
    "\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view kAnyLetter = "(?s:.)";
// Symbols that are Alphabetic without being letters or marks.
constexpr std::string_view kLetterSymbols =
    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";

std::string category(std::string_view name) {
  return fmt::format("\\p{{{}}}{}", name, newer_ranges(name));
}

// The inside of a character class: \w.  Oniguruma counts the superscripts and fractions
// of Latin-1 in, though not in [[:word:]].
std::string posix_word() {
  return category("L") + category("M") + category("Nd") + category("Nl") +
         category("Pc") + std::string(kLetterSymbols);
}
std::string word_class() { return posix_word() + "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"; }

std::string lower_case(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' && c != '_' && c != '-') out += char(std::tolower(uint8_t(c)));
  }
  return out;
}

struct NamedClass {
  std::string_view name;
  std::string_view category;
};
constexpr NamedClass kLongNames[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
};
constexpr std::string_view kShortNames[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
    "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
    "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
// Scripts whose letters are all old enough for PCRE2 10.42 and which real patterns use.
constexpr std::string_view kScripts[] = {
    "Latin", "Greek",    "Cyrillic", "Armenian", "Hebrew",   "Thai",    "Lao",
    "Han",   "Hiragana", "Katakana", "Hangul",   "Bopomofo", "Tibetan", "Georgian"};

// The inside of a class for a property or POSIX name, lower case; nothing when unknown.
std::optional<std::string> named_class(const std::string& name) {
  for (const std::string_view known : kShortNames) {
    if (lower_case(known) == name) return category(known);
  }
  for (const NamedClass& known : kLongNames) {
    if (known.name == name) return category(known.category);
  }
  for (const std::string_view known : kScripts) {
    if (lower_case(known) != name) continue;
    const std::string added =
        name == "han" ? "\\x{31350}-\\x{323af}\\x{2ebf0}-\\x{2ee5d}" : "";
    return fmt::format("\\p{{sc:{}}}{}", known, added);
  }
  if (name == "alpha" || name == "alphabetic")
    return "\\p{Alphabetic}" + newer_ranges("L");
  if (name == "alnum") return "\\p{Alphabetic}" + newer_ranges("L") + category("Nd");
  if (name == "upper" || name == "uppercase")
    return "\\p{Uppercase}" + newer_ranges("Lu");
  if (name == "lower" || name == "lowercase")
    return "\\p{Lowercase}" + newer_ranges("Ll");
  if (name == "digit") return category("Nd");
  if (name == "space" || name == "whitespace") return std::string(kSpaces);
  if (name == "blank") return "\\x{9}\\p{Zs}";
  if (name == "punct") return category("P") + category("S");
  if (name == "cntrl") return "\\p{Cc}";
  if (name == "xdigit") return "0-9A-Fa-f";
  if (name == "word") return posix_word();
  if (name == "ascii") return "\\x{0}-\\x{7f}";
  if (name == "any") return "\\x{0}-\\x{10ffff}";
  return std::nullopt;
}

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view field)
      : pattern_(pattern), field_(field) {}

  std::string run() {
    alternatives(0);
    if (at_ < pattern_.size()) refuse("')' without '('");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(
        "{}: regular expression \"{}\": {} at byte {}, wanted syntax that this engine "
        "knows",
        field_, printable_text(pattern_), what, at_);
  }

  bool at_end() const { return at_ >= pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }
  bool next_is(std::string_view text) const {
    return pattern_.substr(at_).starts_with(text);
  }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_letter() {
    if (at_end()) refuse("unexpected end");
    const Utf8Step step = decode_utf8(pattern_, at_);
    at_ += size_t(step.length);
    return step.code_point;
  }
  static std::string literal(char32_t c) {
    return fmt::format("\\x{{{:x}}}", uint32_t(c));
  }

  // Up to ')' or the end.
  void alternatives(int depth) {
    if (depth > kMaxDepth) refuse("groups nested too deep");
    while (!at_end() && peek() != ')') {
      if (take("|")) {
        out_ += '|';
        continue;
      }
      const size_t atom_begin = out_.size();
      if (atom(depth)) quantifiers(atom_begin);
    }
  }

  // One thing that a quantifier may follow; false for a thing that it may not.
  bool atom(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) {
      out_ += char_class(depth);
      return true;
    }
    if (take(".")) {
      out_ += dot_all_ ? kAnyLetter : "[^\\n]";
      return true;
    }
    if (take("^") || take("$")) {
      out_ += pattern_[at_ - 1];
      return false;
    }
    if (take("\\")) return escape();
    const char c = peek();
    if (c == '*' || c == '+' || c == '?') refuse("a quantifier with nothing before it");
    out_ += literal(take_letter());
    return true;
  }

  bool group(int depth) {
    if (take("?#")) {
      while (!at_end() && peek() != ')') ++at_;
      if (!take(")")) refuse("a comment without ')'");
      return false;
    }
    const bool outer_dot_all = dot_all_;
    std::string open = "(?:";  // captures are never asked for
    bool may_repeat = true;
    bool rest_of_group = false;
    if (take("?")) may_repeat = group_opening(open, rest_of_group);
    out_ += open;
    alternatives(depth + 1);
    // Ruby reads a(?i)b|c as a(?i:b|c).
    if (!rest_of_group && !take(")")) refuse("'(' without ')'");
    out_ += ')';
    dot_all_ = outer_dot_all;
    return may_repeat && !rest_of_group;
  }

  // After "(?".
  bool group_opening(std::string& open, bool& rest_of_group) {
    for (const std::string_view look : {"=", "!", "<=", "<!", ">"}) {
      if (!take(look)) continue;
      open = fmt::format("(?{}", look);
      return look == ">";
    }
    if (next_is("<") || next_is("'")) refuse("a named group");
    bool on = true;
    open = "(?";
    for (; !at_end() && peek() != ':' && peek() != ')'; ++at_) {
      const char c = peek();
      if (c == '-' && on) {
        on = false;
      } else if (c == 'i') {
        open += on ? "i" : "-i";
      } else if (c == 'm') {
        dot_all_ = on;  // Ruby's (?m) lets the dot match a newline
      } else {
        refuse("this kind of group");
      }
    }
    open += ':';
    rest_of_group = !take(":");
    if (rest_of_group && !take(")")) refuse("'(' without ')'");
    return true;
  }

  bool escape() {
    const char c = peek();
    switch (c) {
      case 'A':
      case 'z':
      case 'Z':
        ++at_;
        out_ += {'\\', c};
        return false;
      case 'b':
      case 'B': {
        ++at_;
        const std::string w = fmt::format("[{}]", word_class());
        out_ += c == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w)
                         : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w);
        return false;
      }
      case 'R':
        ++at_;
        out_ += "(?>\\r\\n|[\\x{a}-\\x{d}\\x{85}\\x{2028}\\x{2029}])";
        return true;
      default:
        break;
    }
    bool negated = false;
    if (const auto inside = class_escape(negated)) {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", *inside);
      return true;
    }
    out_ += literal(letter_escape());
    return true;
  }

  // After a backslash: \s, \p{..} and the like as the inside of a class; nothing
  // otherwise.
  std::optional<std::string> class_escape(bool& negated) {
    const char c = peek();
    negated = c >= 'A' && c <= 'Z';
    switch (c) {
      case 's':
      case 'S':
        ++at_;
        return std::string(kSpaces);
      case 'd':
      case 'D':
        ++at_;
        return category("Nd");
      case 'w':
      case 'W':
        ++at_;
        return word_class();
      case 'h':
      case 'H':
        ++at_;
        return "0-9A-Fa-f";
      case 'p':
      case 'P':
        return property(negated);
      default:
        return std::nullopt;
    }
  }

  std::optional<std::string> property(bool& negated) {
    ++at_;
    if (!take("{")) refuse("\\p without {NAME}");
    if (take("^")) negated = !negated;
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) refuse("\\p{ without }");
    auto inside = named_class(lower_case(pattern_.substr(at_, end - at_)));
    if (!inside) refuse("an unknown property");
    at_ = end + 1;
    return inside;
  }

  // After a backslash: a single letter.
  char32_t letter_escape() {
    const char32_t c = take_letter();
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1b;
      case '0':
        if (std::isdigit(uint8_t(peek())) != 0) refuse("an octal escape");
        return 0;
      case 'x':
        if (take("{")) {
          const char32_t value = hex(1, 8);
          if (!take("}")) refuse("\\x{ without }");
          return value;
        }
        return byte_escape();
      case 'u':
        return hex(4, 4);
      default:
        if (c < 0x80 && std::isalnum(int(c)) != 0) refuse("an unknown escape");
        return c;
    }
  }

  // \xHH is a byte in Ruby, so only ASCII is a letter.
  char32_t byte_escape() {
    const char32_t value = hex(1, 2);
    if (value >= 0x80) refuse("a byte that is not ASCII");
    return value;
  }

  char32_t hex(int least, int most) {
    uint64_t value = 0;
    int n = 0;
    for (; n < most && std::isxdigit(uint8_t(peek())) != 0; ++n, ++at_) {
      const char c = peek();
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      value = value * 16 + uint64_t(digit);
    }
    if (n < least) refuse("too few hexadecimal digits");
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) refuse("no code point");
    return char32_t(value);
  }

  // After '['.  The class as an expression that matches one letter.
  std::string char_class(int depth) {
    if (depth > kMaxDepth) refuse("classes nested too deep");
    const bool negated = take("^");
    std::string looks;  // the operands of && so far, as look-aheads
    std::string simple;
    std::string others;  // alternatives that do not fit into one class
    const auto operand = [&] {
      std::string all = simple.empty() ? "" : fmt::format("[{}]", simple);
      if (!others.empty()) all = all.empty() ? others.substr(1) : all + others;
      if (all.empty()) refuse("an empty class");
      simple.clear();
      others.clear();
      return fmt::format("(?:{})", all);
    };
    for (bool first = true; first || !next_is("]"); first = false) {
      if (at_end()) refuse("'[' without ']'");
      if (take("&&")) {
        looks += fmt::format("(?={})", operand());
        continue;
      }
      class_item(depth, simple, others);
    }
    ++at_;
    if (looks.empty() && others.empty())
      return fmt::format("[{}{}]", negated ? "^" : "", simple);
    const std::string last = operand();
    if (looks.empty() && !negated) return last;
    const std::string all = fmt::format("{}{}", looks, last);
    return negated ? fmt::format("(?:(?!{}){})", all, kAnyLetter)
                   : fmt::format("(?:{})", all);
  }

  void class_item(int depth, std::string& simple, std::string& others) {
    if (take("[:")) {
      const bool negated = take("^");
      const size_t end = pattern_.find(":]", at_);
      if (end == std::string_view::npos) refuse("'[:' without ':]'");
      const auto inside = named_class(lower_case(pattern_.substr(at_, end - at_)));
      if (!inside) refuse("an unknown POSIX class");
      at_ = end + 2;
      if (negated) {
        others += fmt::format("|[^{}]", *inside);
      } else {
        simple += *inside;
      }
      return;
    }
    if (take("[")) {
      others += fmt::format("|{}", char_class(depth + 1));
      return;
    }
    if (next_is("\\")) {
      ++at_;
      bool negated = false;
      if (const auto inside = class_escape(negated)) {
        if (negated) {
          others += fmt::format("|[^{}]", *inside);
        } else {
          simple += *inside;
        }
        return;
      }
      --at_;
    }
    const char32_t low = class_letter();
    if (peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
      ++at_;
      if (next_is("[")) refuse("a range that ends in a class");
      const char32_t high = class_letter();
      if (high < low) refuse("an empty range");
      simple += fmt::format("{}-{}", literal(low), literal(high));
    } else {
      simple += literal(low);
    }
  }

  char32_t class_letter() {
    if (!take("\\")) return take_letter();
    if (take("b")) return '\b';
    return letter_escape();
  }

  // Quantifiers after the atom that begins at out_[atom_begin].
  void quantifiers(size_t atom_begin) {
    bool repeated = false;
    while (true) {
      std::string bounds;
      const char c = peek();
      const bool braces = c == '{';
      bool exact = false;
      if (!at_end() && (c == '*' || c == '+' || c == '?')) {
        ++at_;
        bounds = c;
      } else if (braces) {
        bounds = interval(exact);
      }
      if (bounds.empty()) return;
      if (repeated) {  // a quantifier of a quantified thing
        out_.insert(atom_begin, "(?:");
        out_ += ')';
      }
      out_ += bounds;
      repeated = true;
      // In Ruby {n}? and {n,m}+ are no lazy or possessive forms but quantifiers anew.
      if (!(braces && exact) && take("?")) {
        out_ += '?';
      } else if (!braces && take("+")) {
        out_ += '+';
      }
    }
  }

  // "{n}", "{n,}", "{n,m}" or "{,m}"; empty when the brace is a letter.
  std::string interval(bool& exact) {
    size_t i = at_ + 1;
    const auto number = [&] {
      std::string digits;
      while (i < pattern_.size() && std::isdigit(uint8_t(pattern_[i])) != 0 &&
             digits.size() < 6)
        digits += pattern_[i++];
      return digits;
    };
    const std::string low = number();
    const bool comma = i < pattern_.size() && pattern_[i] == ',';
    if (comma) ++i;
    const std::string high = comma ? number() : "";
    if (i >= pattern_.size() || pattern_[i] != '}' || (low.empty() && high.empty()))
      return "";
    at_ = i + 1;
    exact = !comma;
    if (!comma) return fmt::format("{{{}}}", low);
    return fmt::format("{{{},{}}}", low.empty() ? "0" : low, high);
  }

  std::string_view pattern_;
  std::string_view field_;
  size_t at_ = 0;
  std::string out_;
  bool dot_all_ = false;
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view field) {
  return Translator(pattern, field).run();
}

}  // namespace ingot
