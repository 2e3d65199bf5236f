// Filters of single values: text, numbers, JSON.
#include "text/jinja_filters.h"

#include <cmath>

#include "base/utf8.h"
#include "text/jinja_format.h"
#include "text/jinja_print.h"
#include "text/jinja_string.h"
#include "text/jinja_unicode.h"

namespace ingot::jinja {
namespace {

// markupsafe.soft_str: strings stay what they are.
Value soft_string(Run& run, const Value& value) {
  if (value.is(Kind::string)) return value;
  run.read_foreign = false;
  Value string = make_string(run, str_of(run, value));
  if (run.read_foreign) mark_foreign(run, string);
  return string;
}

bool flag(const Bound& bound, size_t i) { return bound.has(i) && truthy(bound[i]); }

void want_none(Interpreter& in, std::string_view name, Arguments& arguments) {
  Bound(in.run, arguments, {.name = name, .parameters = {}});
}

// ---- JSON

std::string separator_of(Run& run, const Value& value) {
  if (!value.is(Kind::string)) run.fail("tojson: separators must be strings");
  return text_of(value);
}

Value to_json_filter(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "tojson",
               .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}});
  JsonStyle style;
  style.ensure_ascii = flag(bound, 0);
  style.sort_keys = flag(bound, 3);
  if (bound.has(1) && !bound[1].is(Kind::none)) {
    if (bound[1].is(Kind::string)) {
      style.indent = text_of(bound[1]);
    } else {
      const int64_t width =
          std::max<int64_t>(index_of(run, bound[1], "tojson: indent"), 0);
      run.check_string(static_cast<size_t>(width));
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
    style.item_separator = ",";
  }
  if (bound.has(2) && !bound[2].is(Kind::none)) {
    const std::vector<Value> pair = collect(run, bound[2]);
    if (pair.size() != 2) run.fail("tojson: separators must be a pair");
    style.item_separator = separator_of(run, pair[0]);
    style.key_separator = separator_of(run, pair[1]);
  }
  return make_string(run, to_json(run, value, style));
}

// ---- text

Value string(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "string", arguments);
  return soft_string(in.run, value);
}
Value safe(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "safe", arguments);
  MarkedText text;
  append_string(text, soft_string(in.run, value));
  return make_marked_string(in.run, std::move(text), true);
}
Value escape(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "escape", arguments);
  if (is_markup(value)) return value;
  return make_string(in.run, escape_html(str_of(in.run, value)), true);
}
Value force_escape(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "forceescape", arguments);
  return make_string(in.run, escape_html(str_of(in.run, value)), true);
}

// Filters that are a string method by another name.
Value by_method(Interpreter& in, std::string_view method, const Value& value,
                Arguments& arguments) {
  return find_string_method(method)(in, soft_string(in.run, value), arguments);
}
Value upper(Interpreter& in, const Value& value, Arguments& arguments) {
  return by_method(in, "upper", value, arguments);
}
Value lower(Interpreter& in, const Value& value, Arguments& arguments) {
  return by_method(in, "lower", value, arguments);
}
Value capitalize(Interpreter& in, const Value& value, Arguments& arguments) {
  return by_method(in, "capitalize", value, arguments);
}
Value trim(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "trim", .parameters = {"chars"}});
  Arguments characters;
  if (bound.has(0)) characters.positional.push_back(bound[0]);
  return by_method(in, "strip", value, characters);
}
Value center(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "center", .parameters = {"width"}});
  Arguments width;
  width.positional.push_back(bound.has(0) ? bound[0] : Value::integer(80));
  return by_method(in, "center", value, width);
}

// A capital after white space, '-', '(', '{', '[' and '<'.
Value title(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "title", arguments);
  const Value text = soft_string(in.run, value);
  in.run.step(static_cast<int64_t>(string_of(text).length));
  std::string out, word;
  auto flush = [&] {
    if (word.empty()) return;
    const auto first = static_cast<size_t>(decode_utf8(word, 0).length);
    out += to_upper(word.substr(0, first)) + to_lower(word.substr(first));
    word.clear();
  };
  bool in_break = false;
  for (size_t i = 0; i < text_of(text).size();) {
    const Utf8Step step = decode_utf8(text_of(text), i);
    const char32_t c = step.code_point;
    const bool is_break =
        is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (is_break != in_break) flush();
    in_break = is_break;
    word.append(text_of(text), i, static_cast<size_t>(step.length));
    i += static_cast<size_t>(step.length);
  }
  flush();
  return make_string(in.run, std::move(out));
}

Value replace(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "replace", .parameters = {"old", "new", "count"}, .required = 2});
  int64_t times = -1;
  if (bound.has(2) && !bound[2].is(Kind::none))
    times = index_of(run, bound[2], "replace");
  return make_string(run, replace_text(run, str_of(run, value), str_of(run, bound[0]),
                                       str_of(run, bound[1]), times));
}

Value indent(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "indent", .parameters = {"width", "first", "blank"}});
  if (value.is_undefined()) fail_undefined(run, value);
  if (!value.is(Kind::string))
    run.fail("indent wants a string, not {}", type_name(value));
  std::string indention = "    ";
  if (bound.has(0) && bound[0].is(Kind::string)) {
    indention = text_of(bound[0]);
  } else if (bound.has(0)) {
    const int64_t width = std::max<int64_t>(index_of(run, bound[0], "indent"), 0);
    run.check_string(static_cast<size_t>(width));
    indention = std::string(static_cast<size_t>(width), ' ');
  }
  const std::string text = text_of(value) + "\n";
  std::string out = flag(bound, 1) ? indention : "";
  bool is_first = true;
  for (std::string_view line : split_lines(text, false)) {
    run.step();
    run.copying(indention.size());
    run.check_string(out.size() + indention.size() + line.size());
    if (!std::exchange(is_first, false)) {
      out += "\n";
      if (!line.empty() || flag(bound, 2)) out += indention;
    }
    out += line;
  }
  return make_string(run, std::move(out), is_markup(value));
}

Value truncate(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(
      run, arguments,
      {.name = "truncate", .parameters = {"length", "killwords", "end", "leeway"}});
  const Value end = bound.has(2) ? bound[2] : make_string(run, "...");
  if (!end.is(Kind::string)) run.fail("truncate: end must be a string");
  const int64_t length = bound.has(0) ? index_of(run, bound[0], "truncate") : 255;
  const int64_t leeway =
      bound.has(3) && !bound[3].is(Kind::none) ? index_of(run, bound[3], "truncate") : 5;
  const auto end_length = static_cast<int64_t>(string_of(end).length);
  if (length < end_length) run.fail("truncate: expected length >= {}", end_length);
  if (leeway < 0) run.fail("truncate: expected leeway >= 0");
  if (length_of(run, value) - leeway <= length) return value;
  if (!value.is(Kind::string))
    run.fail("truncate wants a string, not {}", type_name(value));
  const size_t bytes =
      byte_offset(string_of(value), static_cast<size_t>(length - end_length));
  std::string cut = text_of(value).substr(0, bytes);
  if (!flag(bound, 1)) {
    const size_t space = cut.rfind(' ');
    if (space != std::string::npos) cut.resize(space);
  }
  return make_string(run, cut + text_of(end), is_markup(value));
}

Value word_count(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "wordcount", arguments);
  const std::string text = str_of(in.run, value);
  in.run.step(static_cast<int64_t>(text.size()));
  int64_t n = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    const bool word = is_name_character(step.code_point);
    n += word && !inside;
    inside = word;
    i += static_cast<size_t>(step.length);
  }
  return Value::integer(n);
}

Value format(Interpreter& in, const Value& value, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keyword.empty()) {
    in.run.fail("format cannot take positional and keyword arguments together");
  }
  const Value text = soft_string(in.run, value);
  if (arguments.keyword.empty()) {
    return format_printf(in.run, text,
                         make_tuple(in.run, std::move(arguments.positional)));
  }
  DictBuilder named(in.run);
  for (auto& [key, item] : arguments.keyword) named.set(key, std::move(item));
  return format_printf(in.run, text, named.finish());
}

std::string quote_url(std::string_view text, bool in_query) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
                       c == '~';
    if (plain || (c == '/' && !in_query)) {
      out.push_back(c);
    } else if (c == ' ' && in_query) {
      out.push_back('+');
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value url_encode(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "urlencode", arguments);
  Run& run = in.run;
  if (value.is(Kind::string) || !is_iterable(value)) {
    return make_string(run, quote_url(str_of(run, value), false));
  }
  std::string out;
  const Value pairs = value.is(Kind::dict) ? make_view(run, value, ViewOf::items) : value;
  Iterator iterator(run, pairs);
  for (Value pair; iterator.next(pair);) {
    const std::vector<Value> items = collect(run, pair);
    if (items.size() != 2) run.fail("urlencode wants pairs, got {} items", items.size());
    if (!out.empty()) out += "&";
    out += quote_url(str_of(run, items[0]), true) + "=" +
           quote_url(str_of(run, items[1]), true);
    run.check_string(out.size());
    run.copying(out.size() / 8);
  }
  return make_string(run, std::move(out));
}

// ---- numbers

// int(float): towards zero.
Value int_of_float(Run& run, double value) {
  return make_int(run, BigInt::from_double(value));
}

Value to_int(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments, {.name = "int", .parameters = {"default", "base"}});
  const Value otherwise = bound.has(0) ? bound[0] : Value::integer(0);
  const int64_t base = bound.has(1) ? index_of(run, bound[1], "int") : 10;
  if (value.is_undefined()) fail_undefined(run, value);
  if (value.is(Kind::floating)) {
    if (std::isinf(value.as_float()))
      run.fail("cannot convert float infinity to integer");
    return std::isnan(value.as_float()) ? otherwise : int_of_float(run, value.as_float());
  }
  if (value.is_int()) return make_int(run, big_of(value));
  if (!value.is(Kind::string)) return otherwise;
  run.copying(text_of(value).size() * 16);
  const bool good_base = base == 0 || (base >= 2 && base <= 36);
  if (good_base) {
    if (auto number = parse_int(text_of(value), base)) return make_int(run, *number);
  }
  const std::optional<double> number = parse_float(text_of(value));
  return number && std::isfinite(*number) ? int_of_float(run, *number) : otherwise;
}

Value to_float(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "float", .parameters = {"default"}});
  const Value otherwise = bound.has(0) ? bound[0] : Value::floating(0.0);
  if (value.is_undefined()) fail_undefined(in.run, value);
  if (value.is_number()) return Value::floating(float_of(in.run, value));
  if (!value.is(Kind::string)) return otherwise;
  const std::optional<double> number = parse_float(text_of(value));
  return number ? Value::floating(*number) : otherwise;
}

Value absolute(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "abs", arguments);
  if (value.is_undefined()) fail_undefined(in.run, value);
  if (value.is(Kind::floating)) return Value::floating(std::fabs(value.as_float()));
  if (!value.is_int()) in.run.fail("bad operand type for abs(): '{}'", type_name(value));
  const BigInt number = big_of(value);
  return make_int(in.run, number.is_negative() ? number.negated() : number);
}

// Half to even on the exact binary value, as Python's round().
double round_float(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 340) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits >= 0)
    return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
  // Enough digits that the decimal text is exact, then rounded by one division.
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / unit) * unit;
}

Value round_int(Run& run, const Value& value, int64_t digits) {
  if (digits >= 0) return make_int(run, big_of(value));
  if (digits < -4000) return Value::integer(0);
  BigInt unit(1), quotient, rest;
  for (int64_t i = 0; i < -digits; ++i) unit = unit * BigInt(10);
  run.step(digits * digits / 16);
  BigInt::divide(big_of(value), unit, quotient, rest);
  const int half = compare(rest + rest, unit);
  if (half > 0 || (half == 0 && quotient.is_odd())) quotient = quotient + BigInt(1);
  return make_int(run, quotient * unit);
}

Value round(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments, {.name = "round", .parameters = {"precision", "method"}});
  const int64_t digits = bound.has(0) ? index_of(run, bound[0], "round") : 0;
  const std::string method = bound.has(1) ? str_of(run, bound[1]) : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    run.fail("round: method must be common, ceil or floor");
  }
  if (value.is_undefined()) fail_undefined(run, value);
  if (!value.is_number()) run.fail("type {} doesn't define round()", type_name(value));
  if (method == "common") {
    if (value.is_int()) return round_int(run, value, digits);
    return Value::floating(round_float(value.as_float(), digits));
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = float_of(run, value) * scale;
  if (!std::isfinite(scaled) || scale == 0.0) run.fail("round: the number is too large");
  return Value::floating((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) /
                         scale);
}

constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
    {"tojson", to_json_filter},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"trim", trim},
    {"center", center},
    {"title", title},
    {"replace", replace},
    {"indent", indent},
    {"truncate", truncate},
    {"format", format},
    {"urlencode", url_encode},
    {"wordcount", word_count},
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round},
};

}  // namespace

FilterFunction find_filter(std::string_view name) {
  for (const auto& [key, function] : kFilters) {
    if (key == name) return function;
  }
  if (FilterFunction lazy = find_lazy_filter(name)) return lazy;
  return find_sequence_filter(name);
}

}  // namespace ingot::jinja
