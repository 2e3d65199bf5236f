#include "text/jinja_format.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/utf8.h"
#include "text/jinja_eval.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace ingot::jinja {

std::string layout_digits(const std::string& scientific, int low, int high, bool point) {
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  const std::string sign = scientific[0] == '-' ? "-" : "";
  std::string digits;
  for (char c : scientific.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  if (exponent < low || exponent >= high) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa += "." + digits.substr(1);
    return fmt::format("{}{}e{}{:02d}", sign, mantissa, exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return sign + digits + std::string(whole - digits.size(), '0') + (point ? ".0" : "");
  }
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

namespace {

// One conversion, of either style.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  std::optional<int64_t> precision;
  char grouping = 0;
  char type = 0;
};

constexpr int64_t kMaxPrecision = 400;

std::string pad(Run& run, const Spec& spec, std::string sign, std::string body,
                char default_align) {
  const auto used =
      static_cast<int64_t>(count_code_points(sign) + count_code_points(body));
  int64_t missing = std::max<int64_t>(spec.width - used, 0);
  run.check_string(static_cast<size_t>(missing) * spec.fill.size());
  run.step(missing / 4);
  auto fill = [&](int64_t n) {
    std::string out;
    for (; n > 0; --n) out += spec.fill;
    return out;
  };
  switch (spec.align ? spec.align : default_align) {
    case '<':
      return sign + body + fill(missing);
    case '^':
      return fill(missing / 2) + sign + body + fill(missing - missing / 2);
    case '=':
      return sign + fill(missing) + body;
    default:
      return fill(missing) + sign + body;
  }
}

std::string group_digits(std::string digits, char separator, size_t every) {
  const size_t whole =
      std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t i = whole; i > every; i -= every) digits.insert(i - every, 1, separator);
  return digits;
}

std::string in_base(BigInt value, int64_t base, bool upper) {
  std::string digits;
  BigInt quotient, rest;
  if (value.is_zero()) return "0";
  for (; !value.is_zero(); value = quotient) {
    BigInt::divide(value, BigInt(base), quotient, rest);
    digits.push_back((upper ? "0123456789ABCDEF" : "0123456789abcdef")[rest.to_int64()]);
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string sign_of(bool negative, char sign) {
  return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

// percent_style: printf's precision is a least number of digits.
std::string format_int(Run& run, const BigInt& value, const Spec& spec,
                       bool percent_style) {
  const BigInt magnitude = value.is_negative() ? value.negated() : value;
  run.step(static_cast<int64_t>(1 + magnitude.bytes() * magnitude.bytes() / 4));
  std::string digits, prefix;
  switch (spec.type) {
    case 'x':
    case 'X':
      digits = in_base(magnitude, 16, spec.type == 'X');
      prefix = spec.type == 'X' ? "0X" : "0x";
      break;
    case 'o':
      digits = in_base(magnitude, 8, false);
      prefix = "0o";
      break;
    case 'b':
      digits = in_base(magnitude, 2, false);
      prefix = "0b";
      break;
    default:
      digits = magnitude.to_string();
  }
  if (percent_style && spec.precision) {
    run.check_string(static_cast<size_t>(*spec.precision));
    if (static_cast<int64_t>(digits.size()) < *spec.precision) {
      digits.insert(0, static_cast<size_t>(*spec.precision) - digits.size(), '0');
    }
  }
  if (spec.grouping) digits = group_digits(digits, spec.grouping, prefix.empty() ? 3 : 4);
  std::string sign =
      sign_of(value.is_negative(), spec.sign) + (spec.alternate ? prefix : "");
  return pad(run, spec, sign, digits, '>');
}

std::string format_float(Run& run, double value, const Spec& spec) {
  int precision = static_cast<int>(spec.precision.value_or(6));
  if (spec.precision.value_or(0) > kMaxPrecision) run.fail("precision too big");
  const double magnitude = std::fabs(value);
  std::string body;
  const char type = spec.type;
  if (std::isnan(value) || std::isinf(value)) {
    body = std::isnan(value) ? "nan" : "inf";
  } else if (type == 0 && !spec.precision) {
    body = repr_float(magnitude);
  } else if (type == 'f' || type == 'F') {
    body = fmt::format("{:.{}f}", magnitude, precision);
  } else if (type == '%') {
    body = fmt::format("{:.{}f}%", magnitude * 100.0, precision);
  } else if (type == 'e' || type == 'E') {
    body = fmt::format("{:.{}e}", magnitude, precision);
  } else {
    body = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
    bool whole = body.find_first_not_of("0123456789") == body.npos;
    if (type == 0 && whole) body += ".0";
  }
  if (type == 'E' || type == 'F' || type == 'G') {
    for (char& c : body) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  }
  if (spec.grouping) body = group_digits(body, spec.grouping, 3);
  return pad(run, spec, sign_of(std::signbit(value) && !std::isnan(value), spec.sign),
             body, '>');
}

std::string format_text(Run& run, std::string_view text, const Spec& spec, char align) {
  std::string body(text);
  if (spec.precision) {
    size_t bytes = 0;
    for (int64_t n = *spec.precision; n > 0 && bytes < body.size(); --n) {
      bytes += static_cast<size_t>(decode_utf8(body, bytes).length);
    }
    body.resize(bytes);
  }
  return pad(run, spec, "", std::move(body), align);
}

// ---- printf -------------------------------------------------------------------------

class Printf {
 public:
  Printf(Run& run, const Value& text, const Value& values)
      : run_(run),
        format_(text_of(text)),
        markup_(is_markup(text)),
        values_(values),
        format_is_foreign_(!string_of(text).foreign.empty()) {}

  Value finish() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.append(std::string_view(format_).substr(at_, percent - at_),
                  format_is_foreign_);
      at_ = percent + 1;
      if (percent < format_.size()) conversion();
      run_.step();
      run_.check_string(out_.text.size());
    }
    const bool single_left = !values_.is(Kind::tuple) && next_ == 0 && !used_key_;
    const bool mapping = values_.is(Kind::dict) || values_.is(Kind::list) ||
                         values_.is(Kind::range) || values_.is_undefined();
    const bool tuple_left = values_.is(Kind::tuple) && next_ < items_of(values_).size();
    if ((single_left && !mapping) || tuple_left) {
      run_.fail("not all arguments converted during string formatting");
    }
    return make_marked_string(run_, std::move(out_), markup_);
  }

 private:
  char peek() {
    if (at_ >= format_.size()) run_.fail("incomplete format");
    return format_[at_];
  }
  Value next_value() {
    if (values_.is(Kind::tuple)) {
      if (next_ >= items_of(values_).size()) {
        run_.fail("not enough arguments for format string");
      }
      return items_of(values_)[next_++];
    }
    if (next_++ > 0) run_.fail("not enough arguments for format string");
    return values_;
  }
  int64_t number() {
    if (peek() == '*') {
      ++at_;
      return index_of(run_, next_value(), "width");
    }
    int64_t n = 0;
    while (peek() >= '0' && peek() <= '9') {
      n = std::min<int64_t>(n * 10 + (format_[at_++] - '0'), INT32_MAX);
    }
    return n;
  }
  void conversion() {
    Spec spec;
    Value value;
    if (peek() == '(') value = keyed_value();
    bool left = false;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      const char flag = format_[at_];
      left |= flag == '-';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      spec.alternate |= flag == '#';
      spec.zero |= flag == '0';
    }
    spec.width = number();
    if (spec.width < 0) left = true, spec.width = -spec.width;
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(number(), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    spec.type = peek();
    ++at_;
    if (spec.type == '%') {
      out_.append("%", format_is_foreign_);
      return;
    }
    if (value.is_missing()) value = next_value();
    if (left) spec.align = '<';
    run_.read_foreign = false;
    const std::string converted = convert(spec, value);
    out_.append(converted, run_.read_foreign);
  }
  Value keyed_value() {
    if (!values_.is(Kind::dict)) run_.fail("format requires a mapping");
    const size_t close = format_.find(')', at_);
    if (close == std::string::npos) run_.fail("incomplete format key");
    std::string key = format_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    used_key_ = true;
    const Value* found = dict_find(run_, dict_of(values_), key);
    if (found == nullptr) run_.fail("KeyError: '{}'", key);
    return *found;
  }
  std::string convert(Spec spec, const Value& value) {
    const bool number =
        std::string_view("sract").find(spec.type) == std::string_view::npos;
    if (spec.zero && number && spec.align == 0) spec.align = '=', spec.fill = "0";
    switch (spec.type) {
      case 's':
        return format_text(run_,
                           markup_ && !is_markup(value) ? escape_html(str_of(run_, value))
                                                        : str_of(run_, value),
                           spec, '>');
      case 'r':
      case 'a':
        return format_text(run_, repr_of(run_, value), spec, '>');
      case 'c':
        return format_text(run_, character(value), spec, '>');
      case 'd':
      case 'i':
      case 'u':
        if (value.is(Kind::floating)) {
          if (!std::isfinite(value.as_float()))
            run_.fail("cannot convert float to integer");
          return format_int(run_, BigInt::from_double(value.as_float()), spec, true);
        }
        [[fallthrough]];
      case 'x':
      case 'X':
      case 'o':
        if (!value.is_int()) {
          run_.fail("%{} format: a number is required, not {}", spec.type,
                    type_name(value));
        }
        return format_int(run_, big_of(value), spec, true);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number())
          run_.fail("must be real number, not {}", type_name(value));
        return format_float(run_, float_of(run_, value), spec);
      default:
        run_.fail("unsupported format character '{}'", printable_text({&spec.type, 1}));
    }
  }
  std::string character(const Value& value) {
    if (value.is(Kind::string) && string_of(value).length == 1) return text_of(value);
    if (!value.is_int()) run_.fail("%c requires int or char");
    const int64_t code = index_of(run_, value, "%c");
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      run_.fail("%c arg not in range(0x110000)");
    }
    std::string out;
    append_utf8(out, static_cast<char32_t>(code));
    return out;
  }

  Run& run_;
  const std::string& format_;
  const bool markup_;
  const Value& values_;
  size_t at_ = 0;
  size_t next_ = 0;
  bool used_key_ = false;
  const bool format_is_foreign_;
  MarkedText out_;
};

}  // namespace

Value format_printf(Run& run, const Value& text, const Value& values) {
  return Printf(run, text, values).finish();
}

// ---- str.format ---------------------------------------------------------------------

namespace {

Spec parse_spec(Run& run, std::string_view text) {
  Spec spec;
  size_t at = 0;
  auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first =
      text.empty() ? 0 : static_cast<size_t>(decode_utf8(text, 0).length);
  if (first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  auto take = [&](std::string_view allowed) -> char {
    return at < text.size() && allowed.find(text[at]) != allowed.npos ? text[at++] : '\0';
  };
  auto number = [&] {
    int64_t n = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      n = std::min<int64_t>(n * 10 + (text[at++] - '0'), INT32_MAX);
    }
    return n;
  };
  if (char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") && spec.align == 0) spec.align = '=', spec.fill = "0", spec.zero = true;
  spec.width = number();
  spec.grouping = take(",_");
  if (take(".")) spec.precision = number();
  spec.type = take("bcdeEfFgGnosxX%");
  if (at != text.size()) run.fail("Invalid format specifier '{}'", printable_text(text));
  return spec;
}

std::string format_value(Run& run, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return str_of(run, value);
  Spec spec = parse_spec(run, spec_text);
  const bool float_type = spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) !=
                                                std::string_view::npos;
  if (value.is(Kind::string)) {
    if (spec.type != 0 && spec.type != 's') {
      run.fail("Unknown format code '{}' for object of type 'str'", spec.type);
    }
    if (spec.zero) spec.align = '<';
    return format_text(run, text_of(value), spec, '<');
  }
  if (value.is_int() && !float_type) {
    if (spec.type == 's' || spec.type == 'c' || spec.precision) {
      run.fail("Unknown format code for object of type 'int'");
    }
    return format_int(run, big_of(value), spec, false);
  }
  if (value.is_number()) {
    if (spec.type != 0 && !float_type && spec.type != 'n') {
      run.fail("Unknown format code '{}' for object of type 'float'", spec.type);
    }
    return format_float(run, float_of(run, value), spec);
  }
  run.fail("unsupported format string passed to {}", type_name(value));
}

class Braces {
 public:
  Braces(Interpreter& in, const Value& text, const Arguments& arguments)
      : in_(in),
        run_(in.run),
        format_(text_of(text)),
        arguments_(arguments),
        format_is_foreign_(!string_of(text).foreign.empty()) {}

  MarkedText finish() {
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      const bool doubled = at_ < format_.size() && format_[at_] == c;
      if (c == '{' && !doubled) {
        field();
      } else if (c == '}' && !doubled) {
        run_.fail("Single '}}' encountered in format string");
      } else {
        if (c == '{' || c == '}') ++at_;
        out_.append({&c, 1}, format_is_foreign_);
      }
      run_.step();
      run_.check_string(out_.text.size());
    }
    return std::move(out_);
  }

 private:
  void field() {
    const size_t close = format_.find('}', at_);
    if (close == std::string::npos) run_.fail("expected '}}' before end of string");
    std::string body = format_.substr(at_, close - at_);
    at_ = close + 1;
    if (body.find('{') != std::string::npos) {
      run_.fail("nested fields in format strings are not supported");
    }
    std::string spec, conversion;
    if (size_t colon = body.find(':'); colon != std::string::npos) {
      spec = body.substr(colon + 1);
      body.resize(colon);
    }
    if (size_t mark = body.find('!'); mark != std::string::npos) {
      conversion = body.substr(mark + 1);
      body.resize(mark);
    }
    Value value = look_up(body);
    run_.read_foreign = false;
    if (conversion == "r" || conversion == "a") {
      value = make_foreign_string(run_, repr_of(run_, value));
    } else if (conversion == "s") {
      value = make_foreign_string(run_, str_of(run_, value));
    } else if (!conversion.empty()) {
      run_.fail("Unknown conversion specifier {}", printable_text(conversion));
    }
    const std::string formatted = format_value(run_, value, spec);
    out_.append(formatted, run_.read_foreign);
  }
  Value look_up(const std::string& path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    while (end < path.size()) {
      const bool item = path[end] == '[';
      const size_t begin = end + 1;
      end = std::min(item ? path.find(']', begin) : path.find_first_of(".[", begin),
                     path.size());
      std::string key = path.substr(begin, end - begin);
      if (item && end < path.size()) ++end;
      bool digits = !key.empty() && key.size() < 18 &&
                    key.find_first_not_of("0123456789") == std::string::npos;
      value = item ? in_.get_item(value, digits ? Value::integer(std::stoll(key))
                                                : make_string(run_, key))
                   : in_.get_attribute(value, key);
    }
    return value;
  }
  Value argument(const std::string& name) {
    if (name.find_first_not_of("0123456789") == std::string::npos) {
      size_t i = name.empty() ? next_++ : name.size() > 9 ? SIZE_MAX : std::stoul(name);
      if (i >= arguments_.positional.size()) {
        run_.fail("Replacement index {} out of range for positional args tuple", i);
      }
      return arguments_.positional[i];
    }
    for (const auto& [key, value] : arguments_.keyword) {
      if (key == name) return value;
    }
    run_.fail("KeyError: '{}'", printable_text(name));
  }

  Interpreter& in_;
  Run& run_;
  const std::string& format_;
  const Arguments& arguments_;
  size_t at_ = 0;
  size_t next_ = 0;
  const bool format_is_foreign_;
  MarkedText out_;
};

}  // namespace

Value format_braces(Interpreter& interpreter, const Value& text,
                    const Arguments& arguments) {
  return make_marked_string(
      interpreter.run, Braces(interpreter, text, arguments).finish(), is_markup(text));
}

}  // namespace ingot::jinja
