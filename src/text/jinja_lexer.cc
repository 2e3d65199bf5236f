#include "text/jinja_lexer.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja_unicode.h"

namespace ingot::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name) : name_(name) {
    source_.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] != '\r') {
        source_.push_back(source[i]);
      } else {
        source_.push_back('\n');
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      }
    }
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) template_text();
    add(TokenKind::eof, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_at(const std::string& message) const {
    fail("{}: line {}: {}", name_, line_, message);
  }
  void add(TokenKind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text)});
  }
  bool starts(std::string_view word, size_t at) const {
    return std::string_view(source_).substr(at, word.size()) == word;
  }
  void advance(size_t to) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                    source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }
  size_t skip_space(size_t at) const {
    return at + leading_space(std::string_view(source_).substr(at));
  }
  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at]
                                                                             : 0;
  }

  // ---- outside tags

  // Text up to the next opener, then what the opener opens.
  void template_text() {
    size_t open = at_;
    while (true) {
      open = source_.find('{', open);
      if (open == std::string::npos) {
        add_data(at_, source_.size(), 0, false);
        at_ = source_.size();
        return;
      }
      char c = open + 1 < source_.size() ? source_[open + 1] : '\0';
      if (c == '{' || c == '%' || c == '#') break;
      ++open;
    }
    const char what = source_[open + 1];
    const char sign = sign_at(open + 2);
    add_data(at_, open, sign, what != '{');
    size_t inside = open + 2 + (sign ? 1 : 0);
    if (what == '#') {
      advance(inside);
      comment();
    } else if (size_t raw = what == '%' ? raw_begin(inside) : 0; raw != 0) {
      advance(raw);
      raw_text();
    } else {
      add(what == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "");
      advance(inside);
      tag(what == '{');
    }
  }

  void add_data(size_t begin, size_t end, char sign, bool may_lstrip) {
    std::string_view text = std::string_view(source_).substr(begin, end - begin);
    size_t keep = text.size();
    if (sign == '-') {
      keep -= trailing_space(text);
    } else if (sign != '+' && may_lstrip) {
      size_t line_start = text.rfind('\n') + 1;  // 0 when there is none
      if (line_start > 0 || line_starting_) {
        std::string_view rest = text.substr(line_start);
        if (leading_space(rest) == rest.size()) keep = line_start;
      }
    }
    if (keep > 0) add(TokenKind::data, std::string(text.substr(0, keep)));
    advance(end);
  }

  // The end of `raw %}` if that is what stands here, else 0.
  size_t raw_begin(size_t at) const {
    at = skip_space(at);
    if (!starts("raw", at)) return 0;
    at = skip_space(at + 3);
    if (starts("-%}", at)) return skip_space(at + 3);
    return starts("%}", at) ? at + 2 : 0;
  }

  size_t trimmed_newline(size_t at) const {
    return at < source_.size() && source_[at] == '\n' ? at + 1 : at;
  }

  void raw_text() {
    for (size_t open = at_; (open = source_.find("{%", open)) != std::string::npos;
         ++open) {
      const char sign = sign_at(open + 2);
      size_t at = skip_space(open + 2 + (sign ? 1 : 0));
      if (!starts("endraw", at)) continue;
      at = skip_space(at + 6);
      size_t end = starts("+%}", at)   ? at + 3
                   : starts("-%}", at) ? skip_space(at + 3)
                   : starts("%}", at)  ? trimmed_newline(at + 2)
                                       : 0;
      if (end == 0) continue;
      add_data(at_, open, sign, true);
      advance(end);
      return;
    }
    fail_at("missing end of raw directive");
  }

  void comment() {
    size_t close = source_.find("#}", at_);
    if (close == std::string::npos) fail_at("missing end of comment tag");
    const char sign = close > at_ ? sign_at(close - 1) : 0;
    size_t end = close + 2;
    if (sign == '-') end = skip_space(end);
    if (sign == 0) end = trimmed_newline(end);
    advance(end);
  }

  // ---- inside tags

  void tag(bool is_variable) {
    std::string open_brackets;
    while (true) {
      advance_space();
      if (at_ >= source_.size()) return;  // the parser says what is missing
      if (open_brackets.empty() && tag_end(is_variable)) return;
      token(open_brackets);
    }
  }
  void advance_space() { advance(skip_space(at_)); }

  bool tag_end(bool is_variable) {
    const std::string_view close = is_variable ? "}}" : "%}";
    const char sign = sign_at(at_);
    if (sign == '+' && is_variable) return false;
    const size_t at = at_ + (sign ? 1 : 0);
    if (!starts(close, at)) return false;
    add(is_variable ? TokenKind::variable_end : TokenKind::block_end, "");
    size_t end = at + 2;
    if (sign == '-') end = skip_space(end);
    if (sign == 0 && !is_variable) end = trimmed_newline(end);
    advance(end);
    return true;
  }

  void token(std::string& open_brackets) {
    const char c = source_[at_];
    if (is_digit(c) && number()) return;
    if (c == '\'' || c == '"') return string(c);
    if (is_name_character(decode_utf8(source_, at_).code_point)) return name();
    op(open_brackets);
  }

  // digits with single underscores between them, from `at`; npos if there are none
  size_t digits_end(size_t at) const {
    if (at >= source_.size() || !is_digit(source_[at])) return std::string::npos;
    while (at < source_.size() &&
           (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                      is_digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }
  size_t exponent_end(size_t at) const {
    if (at >= source_.size() || (source_[at] | 0x20) != 'e') return std::string::npos;
    return digits_end(at + 1 + (sign_at(at + 1) ? 1 : 0));
  }
  size_t float_end() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return std::string::npos;  // m.content.0.type
    size_t whole = digits_end(at_);
    size_t fraction = whole < source_.size() && source_[whole] == '.'
                          ? digits_end(whole + 1)
                          : std::string::npos;
    if (fraction == std::string::npos) return exponent_end(whole);
    size_t end = exponent_end(fraction);
    return end == std::string::npos ? fraction : end;
  }
  size_t integer_end() const {
    const char base = source_[at_] == '0' && at_ + 1 < source_.size()
                          ? static_cast<char>(source_[at_ + 1] | 0x20)
                          : '\0';
    auto is_digit_of = [base](char c) {
      return base == 'x'   ? is_hex(c)
             : base == 'o' ? c >= '0' && c <= '7'
                           : c == '0' || c == '1';
    };
    if (base == 'x' || base == 'o' || base == 'b') {
      size_t at = at_ + 2;
      while (at < source_.size() && (is_digit_of(source_[at]) ||
                                     (source_[at] == '_' && at + 1 < source_.size() &&
                                      is_digit_of(source_[at + 1])))) {
        ++at;
      }
      if (at > at_ + 2) return at;
    }
    if (source_[at_] != '0') return digits_end(at_);
    size_t at = at_ + 1;  // 0, 00, 0_0
    while (at < source_.size() &&
           (source_[at] == '0' ||
            (source_[at] == '_' && at + 1 < source_.size() && source_[at + 1] == '0'))) {
      ++at;
    }
    return at;
  }
  bool number() {
    size_t end = float_end();
    const bool is_float = end != std::string::npos;
    if (!is_float) end = integer_end();
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(is_float ? TokenKind::floating : TokenKind::integer, std::move(text));
    advance(end);
    return true;
  }

  void name() {
    size_t end = at_;
    bool valid = true;
    while (end < source_.size()) {
      const Utf8Step step = decode_utf8(source_, end);
      if (!is_name_character(step.code_point)) break;
      if (end == at_) valid = is_name_start(step.code_point);
      end += static_cast<size_t>(step.length);
    }
    if (!valid) fail_at("invalid character in identifier");
    add(TokenKind::name, source_.substr(at_, end - at_));
    advance(end);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote)
      end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at("a string literal is not closed");
    std::string text = unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    add(TokenKind::string, std::move(text));
    advance(end + 1);
  }

  std::string unescape(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out.push_back(text[i]);
        continue;
      }
      i = escape(text, i + 1, out);
    }
    return out;
  }
  // Returns the index of the escape's last byte.
  size_t escape(std::string_view text, size_t i, std::string& out) const {
    static constexpr std::string_view kFrom = "abfnrtv\\'\"";
    static constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    const char c = text[i];
    if (c == '\n') return i;
    if (size_t k = kFrom.find(c); k != kFrom.npos) {
      out.push_back(kTo[k]);
      return i;
    }
    if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t end = i;
      for (; end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7';
           ++end) {
        code = code * 8 + static_cast<uint32_t>(text[end] - '0');
      }
      append_utf8(out, code);
      return end - 1;
    }
    const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n == 0) {
      if (c == 'N') fail_at("\\N{...} escapes are not supported");
      out.push_back('\\');
      out.push_back(c);
      return i;
    }
    uint64_t code = 0;
    for (size_t k = i + 1; k <= i + n; ++k) {
      if (k >= text.size() || !is_hex(text[k]))
        fail_at(fmt::format("truncated \\{} escape", c));
      code = code * 16 + static_cast<uint64_t>(is_digit(text[k])
                                                   ? text[k] - '0'
                                                   : (text[k] | 0x20) - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      fail_at(fmt::format("\\{} escape names no character: {:x}", c, code));
    }
    append_utf8(out, static_cast<char32_t>(code));
    return i + n;
  }

  void op(std::string& open_brackets) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    const std::string_view here = std::string_view(source_).substr(at_);
    for (std::string_view two : kTwo) {
      if (here.substr(0, 2) != two) continue;
      add(TokenKind::op, std::string(two));
      return advance(at_ + 2);
    }
    const char c = here[0];
    if (kOne.find(c) == kOne.npos) {
      const auto length = static_cast<size_t>(decode_utf8(here, 0).length);
      fail_at(
          fmt::format("unexpected char '{}'", printable_text(here.substr(0, length))));
    }
    bracket(c, open_brackets);
    add(TokenKind::op, std::string(1, c));
    advance(at_ + 1);
  }
  void bracket(char c, std::string& open_brackets) const {
    if (c == '(') open_brackets.push_back(')');
    if (c == '[') open_brackets.push_back(']');
    if (c == '{') open_brackets.push_back('}');
    if (c != ')' && c != ']' && c != '}') return;
    if (open_brackets.empty()) fail_at(fmt::format("unexpected '{}'", c));
    if (open_brackets.back() != c) {
      fail_at(fmt::format("unexpected '{}', expected '{}'", c, open_brackets.back()));
    }
    open_brackets.pop_back();
  }

  std::string source_;
  std::string_view name_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view name_for_messages) {
  return Lexer(source, name_for_messages).run();
}

}  // namespace ingot::jinja
