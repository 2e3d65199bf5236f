#include "text/jinja_string.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_format.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace ingot::jinja {
namespace {

// Where the last character of a text begins.
size_t last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u) --begin;
  return begin;
}

bool strips(char32_t c, std::string_view character,
            std::optional<std::string_view> characters) {
  return characters ? characters->find(character) != std::string_view::npos : is_space(c);
}

}  // namespace

std::string_view strip(std::string_view text, Side side,
                       std::optional<std::string_view> characters) {
  while (side != Side::right && !text.empty()) {
    const Utf8Step step = decode_utf8(text, 0);
    const auto length = static_cast<size_t>(step.length);
    if (!strips(step.code_point, text.substr(0, length), characters)) break;
    text.remove_prefix(length);
  }
  while (side != Side::left && !text.empty()) {
    const size_t begin = last_character(text);
    if (!strips(decode_utf8(text, begin).code_point, text.substr(begin), characters))
      break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::string replace_text(Run& run, std::string_view text, std::string_view from,
                         std::string_view to, int64_t times) {
  std::string out;
  size_t at = 0;
  run.copying(text.size());
  for (; times != 0; --times) {
    run.step();
    run.check_string(out.size() + to.size());
    run.check_room(2 * (out.size() + to.size()));
    if (from.empty()) {  // between all characters
      out += to;
      if (at >= text.size()) return out;
      const auto length = static_cast<size_t>(decode_utf8(text, at).length);
      out += text.substr(at, length);
      at += length;
      continue;
    }
    const size_t found = text.find(from, at);
    if (found == text.npos) break;
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  out += text.substr(at);
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    const char32_t c = step.code_point;
    const size_t end = i;
    i += static_cast<size_t>(step.length);
    const bool breaks = (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                        c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::optional<BigInt> parse_int(std::string_view text, int64_t base) {
  text = strip(text, Side::both, {});
  std::string digits;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    if (text[0] == '-') digits = "-";
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  if (text.empty() || text.size() > 4300) return {};
  char before = '_';  // an underscore stands only between digits
  for (char c : text) {
    const char lower = static_cast<char>(c | 0x20);
    const int64_t digit = c >= '0' && c <= '9'           ? c - '0'
                          : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                         : 99;
    if (c == '_' ? before == '_' : digit >= base) return {};
    if (c != '_') digits.push_back(c);
    before = c;
  }
  if (before == '_') return {};
  return BigInt::parse(digits, static_cast<unsigned>(base));
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Side::both, {});
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() &&
                         std::isdigit(static_cast<unsigned char>(text[i - 1])) &&
                         std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (text[i] == '_' && between) continue;
    if ((text[i] | 0x20) == 'x' || text[i] == '(') return {};  // strtod's extras
    clean.push_back(text[i]);
  }
  if (clean.empty()) return {};
  std::string_view rest = clean;
  if (rest[0] == '+') rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '+') return {};
  double value = 0;
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size()) return {};
  if (error == std::errc::result_out_of_range) return std::strtod(clean.c_str(), nullptr);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// ---- The methods --------------------------------------------------------------------

namespace {

const std::string& want_text(Run& run, const Value& value, std::string_view method) {
  if (value.is_undefined()) fail_undefined(run, value);
  if (!value.is(Kind::string)) {
    run.fail("{}() wants a string, not {}", method, type_name(value));
  }
  return text_of(value);
}

// Markup escapes what it takes in.
std::string taken_in(const Value& self, const Value& text) {
  return is_markup(self) && !is_markup(text) ? escape_html(text_of(text)) : text_of(text);
}

Value like(Run& run, const Value& self, std::string text) {
  return make_string(run, std::move(text), is_markup(self));
}

// Requires: `part` views into the text of `self`.
Value part_of(Run& run, const Value& self, std::string_view part) {
  const String& whole = string_of(self);
  const auto begin =
      part.empty() ? 0 : static_cast<size_t>(part.data() - whole.text.data());
  return make_substring(run, whole, begin, begin + part.size());
}

void want_none(Interpreter& in, std::string_view name, Arguments& arguments) {
  Bound(in.run, arguments, {.name = name, .parameters = {}});
}

template <std::string (*change)(std::string_view)>
Value changed(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "str method", arguments);
  in.run.step(static_cast<int64_t>(string_of(self).length));
  return like(in.run, self, change(text_of(self)));
}

template <Side side>
Value stripped(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "strip", .parameters = {"chars"}, .by_name = false});
  std::optional<std::string_view> characters;
  if (bound.has(0) && !bound[0].is(Kind::none)) {
    characters = want_text(in.run, bound[0], "strip");
  }
  return part_of(in.run, self, strip(text_of(self), side, characters));
}

// The part of the text that start and end (code points) leave, and where it begins.
std::string_view window(Run& run, const Value& self, const Value& start, const Value& end,
                        int64_t& first) {
  const String& s = string_of(self);
  const auto n = static_cast<int64_t>(s.length);
  auto place = [&](const Value& v, int64_t otherwise) {
    if (v.is_missing() || v.is(Kind::none)) return otherwise;
    const int64_t at = index_of(run, v, "index");
    return at < 0 ? std::max<int64_t>(at + n, 0) : at;
  };
  first = place(start, 0);
  const int64_t last = std::min(place(end, n), n);
  if (first > last) {
    first = -1;
    return {};
  }
  run.copying(s.text.size());
  const size_t begin = byte_offset(s, static_cast<size_t>(first));
  return std::string_view(s.text).substr(
      begin, byte_offset(s, static_cast<size_t>(last)) - begin);
}

template <bool at_start>
Value starts_or_ends(Interpreter& in, const Value& self, Arguments& arguments) {
  const std::string_view name = at_start ? "startswith" : "endswith";
  Bound bound(in.run, arguments,
              {.name = name,
               .parameters = {"prefix", "start", "end"},
               .required = 1,
               .by_name = false});
  int64_t first = 0;
  const std::string_view text = window(in.run, self, bound[1], bound[2], first);
  std::vector<Value> options{bound[0]};
  if (bound[0].is(Kind::tuple)) options = items_of(bound[0]);
  for (const Value& option : options) {
    const std::string& part = want_text(in.run, option, name);
    if (first >= 0 && (at_start ? text.starts_with(part) : text.ends_with(part))) {
      return Value::boolean(true);
    }
  }
  return Value::boolean(false);
}

template <bool from_right, bool must_exist>
Value found_at(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "find",
               .parameters = {"sub", "start", "end"},
               .required = 1,
               .by_name = false});
  const std::string& part = want_text(in.run, bound[0], "find");
  int64_t first = 0;
  const std::string_view text = window(in.run, self, bound[1], bound[2], first);
  const size_t at = first < 0    ? text.npos
                    : from_right ? text.rfind(part)
                                 : text.find(part);
  if (at != text.npos) {
    return Value::integer(first +
                          static_cast<int64_t>(count_code_points(text.substr(0, at))));
  }
  if (must_exist) in.run.fail("substring not found");
  return Value::integer(-1);
}

Value count(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "count",
               .parameters = {"sub", "start", "end"},
               .required = 1,
               .by_name = false});
  const std::string& part = want_text(in.run, bound[0], "count");
  int64_t first = 0;
  const std::string_view text = window(in.run, self, bound[1], bound[2], first);
  if (first < 0) return Value::integer(0);
  if (part.empty())
    return Value::integer(static_cast<int64_t>(count_code_points(text)) + 1);
  int64_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  in.run.step(n);
  return Value::integer(n);
}

Value replace(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "replace",
               .parameters = {"old", "new", "count"},
               .required = 2,
               .by_name = false});
  want_text(in.run, bound[0], "replace");
  want_text(in.run, bound[1], "replace");
  const int64_t times = bound.has(2) ? index_of(in.run, bound[2], "replace()") : -1;
  return like(in.run, self,
              replace_text(in.run, text_of(self), text_of(bound[0]),
                           taken_in(self, bound[1]), times));
}

Value to_list(Run& run, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  for (std::string_view part : parts) items.push_back(part_of(run, self, part));
  return make_list(run, std::move(items));
}

std::vector<std::string_view> split_at_space(std::string_view text, int64_t times,
                                             bool from_right) {
  std::vector<std::string_view> parts;
  text = strip(text, from_right ? Side::right : Side::left, {});
  while (!text.empty()) {
    if (times-- == 0) {
      parts.push_back(strip(text, from_right ? Side::right : Side::left, {}));
      break;
    }
    size_t at = from_right ? text.size() : 0;
    while (from_right ? at > 0 : at < text.size()) {
      const size_t next = from_right ? last_character(text.substr(0, at)) : at;
      const Utf8Step step = decode_utf8(text, next);
      if (is_space(step.code_point)) break;
      at = from_right ? next : at + static_cast<size_t>(step.length);
    }
    parts.push_back(from_right ? text.substr(at) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at);
    text = strip(text, from_right ? Side::right : Side::left, {});
  }
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       int64_t times, bool from_right) {
  std::vector<std::string_view> parts;
  while (times-- != 0) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    const std::string_view before = text.substr(0, at);
    const std::string_view after = text.substr(at + separator.size());
    parts.push_back(from_right ? after : before);
    text = from_right ? before : after;
  }
  parts.push_back(text);
  return parts;
}

template <bool from_right>
Value split(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "split", .parameters = {"sep", "maxsplit"}});
  const int64_t times = bound.has(1) ? index_of(in.run, bound[1], "split()") : -1;
  in.run.copying(16 * text_of(self).size());
  in.run.check_room(text_of(self).size());
  std::vector<std::string_view> parts;
  if (!bound.has(0) || bound[0].is(Kind::none)) {
    parts = split_at_space(text_of(self), times, from_right);
  } else {
    const std::string& separator = want_text(in.run, bound[0], "split");
    if (separator.empty()) in.run.fail("empty separator");
    parts = split_at(text_of(self), separator, times, from_right);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return to_list(in.run, self, parts);
}

Value splitlines(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "splitlines", .parameters = {"keepends"}});
  in.run.step(static_cast<int64_t>(text_of(self).size()));
  return to_list(in.run, self,
                 split_lines(text_of(self), bound.has(0) && truthy(bound[0])));
}

template <bool from_right>
Value partition(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(
      in.run, arguments,
      {.name = "partition", .parameters = {"sep"}, .required = 1, .by_name = false});
  const std::string& separator = want_text(in.run, bound[0], "partition");
  if (separator.empty()) in.run.fail("empty separator");
  const std::string_view text = text_of(self);
  size_t at = from_right ? text.rfind(separator) : text.find(separator);
  size_t after = at + separator.size();
  if (at == text.npos) at = after = from_right ? 0 : text.size();
  std::vector<Value> parts;
  parts.push_back(part_of(in.run, self, text.substr(0, at)));
  parts.push_back(part_of(in.run, self, text.substr(at, after - at)));
  parts.push_back(part_of(in.run, self, text.substr(after)));
  return make_tuple(in.run, std::move(parts));
}

Value join(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(
      in.run, arguments,
      {.name = "join", .parameters = {"iterable"}, .required = 1, .by_name = false});
  MarkedText out;
  Iterator items(in.run, bound[0]);
  bool first = true;
  for (Value item; items.next(item);) {
    if (!std::exchange(first, false)) append_string(out, self);
    if (!item.is(Kind::string)) {
      in.run.fail("sequence item: expected str instance, {} found", type_name(item));
    }
    if (is_markup(self) && !is_markup(item)) {
      out.append(taken_in(self, item), !string_of(item).foreign.empty());
    } else {
      append_string(out, item);
    }
    in.run.check_string(out.text.size());
    in.run.check_room(2 * out.text.size());
    in.run.copying(string_of(self).text.size() + string_of(item).text.size());
  }
  return make_marked_string(in.run, std::move(out), is_markup(self));
}

template <bool (*every)(char32_t)>
Value all_are(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "str method", arguments);
  const std::string& text = text_of(self);
  in.run.step(static_cast<int64_t>(text.size()));
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    if (!every(step.code_point)) return Value::boolean(false);
    i += static_cast<size_t>(step.length);
  }
  return Value::boolean(!text.empty());
}
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

Value is_ascii(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "isascii", arguments);
  return Value::boolean(string_of(self).is_ascii());
}
Value is_all_printable(Interpreter& in, const Value& self, Arguments& arguments) {
  if (text_of(self).empty()) return Value::boolean(true);
  return all_are<is_printable>(in, self, arguments);
}

template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value all_cased_are(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "str method", arguments);
  const std::string& text = text_of(self);
  in.run.step(static_cast<int64_t>(text.size()));
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    if (other(step.code_point) || is_title(step.code_point)) return Value::boolean(false);
    any |= wanted(step.code_point);
    i += static_cast<size_t>(step.length);
  }
  return Value::boolean(any);
}

template <char align>
Value padded(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "center",
               .parameters = {"width", "fillchar"},
               .required = 1,
               .by_name = false});
  const int64_t width = index_of(in.run, bound[0], "width");
  const std::string fill = bound.has(1) ? want_text(in.run, bound[1], "center") : " ";
  if (count_code_points(fill) != 1)
    in.run.fail("the fill character must be one character");
  const int64_t missing = width - static_cast<int64_t>(string_of(self).length);
  if (missing <= 0) return self;
  if (missing > static_cast<int64_t>(in.run.limits.max_string_bytes)) {
    in.run.check_string(in.run.limits.max_string_bytes + 1);
  }
  in.run.step(missing / 8);
  int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  if (align == '^') left += missing & width & 1;  // as CPython centers
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text_of(self);
  for (int64_t i = left; i < missing; ++i) out += fill;
  return like(in.run, self, std::move(out));
}

Value zero_filled(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(
      in.run, arguments,
      {.name = "zfill", .parameters = {"width"}, .required = 1, .by_name = false});
  const int64_t missing =
      index_of(in.run, bound[0], "width") - static_cast<int64_t>(string_of(self).length);
  if (missing <= 0) return self;
  in.run.check_string(text_of(self).size() + static_cast<size_t>(missing));
  in.run.step(missing / 8);
  std::string out = text_of(self);
  const bool sign = !out.empty() && (out[0] == '+' || out[0] == '-');
  out.insert(sign ? 1 : 0, static_cast<size_t>(missing), '0');
  return like(in.run, self, std::move(out));
}

template <bool prefix>
Value removed(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(
      in.run, arguments,
      {.name = "removeprefix", .parameters = {"affix"}, .required = 1, .by_name = false});
  const std::string& affix = want_text(in.run, bound[0], "removeprefix");
  std::string_view text = text_of(self);
  if (prefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!prefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return part_of(in.run, self, text);
}

Value expand_tabs(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "expandtabs", .parameters = {"tabsize"}});
  const int64_t size = bound.has(0) ? index_of(in.run, bound[0], "tabsize") : 8;
  std::string out;
  int64_t column = 0;
  for (char c : text_of(self)) {
    if (c == '\t') {
      const int64_t n = size > 0 ? size - column % size : 0;
      in.run.check_string(out.size() + static_cast<size_t>(n));
      in.run.step(1 + n / 16);
      out.append(static_cast<size_t>(n), ' ');
      column += n;
      continue;
    }
    out.push_back(c);
    if ((static_cast<unsigned char>(c) & 0xC0u) != 0x80u) ++column;
    if (c == '\n' || c == '\r') column = 0;
  }
  return like(in.run, self, std::move(out));
}

Value format(Interpreter& in, const Value& self, Arguments& arguments) {
  return format_braces(in, self, arguments);
}
Value format_map(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "format_map", .parameters = {"m"}, .required = 1});
  if (!bound[0].is(Kind::dict)) in.run.fail("format_map() wants a mapping");
  Arguments named;
  for (const auto& [key, value] : dict_of(bound[0]).entries) {
    if (key.is(Kind::string)) named.keyword.emplace_back(text_of(key), value);
  }
  return format_braces(in, self, named);
}

constexpr std::pair<std::string_view, MethodFunction> kMethods[] = {
    {"split", split<false>},
    {"strip", stripped<Side::both>},
    {"lstrip", stripped<Side::left>},
    {"rstrip", stripped<Side::right>},
    {"startswith", starts_or_ends<true>},
    {"endswith", starts_or_ends<false>},
    {"replace", replace},
    {"upper", changed<to_upper>},
    {"lower", changed<to_lower>},
    {"casefold", changed<to_lower>},
    {"title", changed<to_title>},
    {"capitalize", changed<to_capitalized>},
    {"swapcase", changed<swap_case>},
    {"find", found_at<false, false>},
    {"rfind", found_at<true, false>},
    {"index", found_at<false, true>},
    {"rindex", found_at<true, true>},
    {"count", count},
    {"join", join},
    {"splitlines", splitlines},
    {"rsplit", split<true>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"removeprefix", removed<true>},
    {"removesuffix", removed<false>},
    {"isdigit", all_are<is_digit_character>},
    {"isdecimal", all_are<is_decimal>},
    {"isnumeric", all_are<is_numeric>},
    {"isalpha", all_are<is_alpha>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<is_space>},
    {"isprintable", is_all_printable},
    {"isascii", is_ascii},
    {"isupper", all_cased_are<is_upper, is_lower>},
    {"islower", all_cased_are<is_lower, is_upper>},
    {"zfill", zero_filled},
    {"center", padded<'^'>},
    {"ljust", padded<'<'>},
    {"rjust", padded<'>'>},
    {"expandtabs", expand_tabs},
    {"format", format},
    {"format_map", format_map},
};

}  // namespace

MethodFunction find_string_method(std::string_view name) {
  for (const auto& [key, function] : kMethods) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace ingot::jinja
