#include "text/jinja_print.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_eval.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace ingot::jinja {

std::string repr_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  // Shortest digits that read back the same, as d.ddde[+-]xx.
  auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  return layout_digits(std::string(buffer, end.ptr), -4, 16, true);
}

bool is_printable(char32_t code_point) {
  if (code_point == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_repr_text(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  out.push_back(quote);
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    const char32_t c = step.code_point;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out.append(text, i, static_cast<size_t>(step.length));
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
    i += static_cast<size_t>(step.length);
  }
  out.push_back(quote);
}

namespace {

std::string macro_repr(const Value& value) {
  const Node& node = *static_cast<const Macro*>(value.as_object())->node;
  const bool anonymous = node.kind == NodeKind::call_block;
  return anonymous ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", node.text);
}

// Appends while the text stays within the limit.
struct Writer {
  Run& run;
  std::string& out;

  void text(std::string_view piece) {
    if (out.capacity() - out.size() < piece.size()) run.check_room(out.capacity());
    run.copying(piece.size());
    out += piece;
    run.check_string(out.size());
  }
  void items(std::string_view open, const std::vector<Value>& items,
             std::string_view close) {
    text(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text(", ");
      repr(items[i]);
    }
    text(close);
  }
  void dict(const Dict& dict) {
    text("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!std::exchange(first, false)) text(", ");
      repr(key);
      text(": ");
      repr(value);
    }
    text("}");
  }
  void view(const DictView& view) {
    static constexpr std::string_view kNames[] = {"dict_keys([", "dict_values([",
                                                  "dict_items(["};
    text(kNames[static_cast<size_t>(view.what)]);
    bool first = true;
    for (const auto& [key, value] : dict_of(view.dict).entries) {
      if (!std::exchange(first, false)) text(", ");
      if (view.what == ViewOf::items) text("(");
      if (view.what != ViewOf::values) repr(key);
      if (view.what == ViewOf::items) text(", ");
      if (view.what != ViewOf::keys) repr(value);
      if (view.what == ViewOf::items) text(")");
    }
    text("])");
  }
  void name_space(const Namespace& names) {
    text("<Namespace {");
    bool first = true;
    for (const auto& [name, value] : names.attributes) {
      if (!std::exchange(first, false)) text(", ");
      text(fmt::format("'{}': ", name));
      repr(value);
    }
    text("}>");
  }
  void range(const Range& range) {
    text(range.step == 1
             ? fmt::format("range({}, {})", range.start, range.stop)
             : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
  }
  void repr(const Value& value) {
    run.step();
    run.check_stack();
    switch (value.kind()) {
      case Kind::missing:
      case Kind::undefined:
        return text("Undefined");
      case Kind::none:
        return text("None");
      case Kind::boolean:
        return text(value.as_bool() ? "True" : "False");
      case Kind::integer:
        return text(fmt::format("{}", value.as_int()));
      case Kind::big_integer:
        return text(big_of(value).to_string());
      case Kind::floating:
        return text(repr_float(value.as_float()));
      case Kind::string: {
        std::string quoted;
        append_repr_text(quoted, text_of(value));
        return text(is_markup(value) ? fmt::format("Markup({})", quoted) : quoted);
      }
      case Kind::list:
        return items("[", items_of(value), "]");
      case Kind::tuple:
        return items("(", items_of(value), items_of(value).size() == 1 ? ",)" : ")");
      case Kind::dict:
        return dict(dict_of(value));
      case Kind::dict_view:
        return view(*static_cast<const DictView*>(value.as_object()));
      case Kind::range:
        return range(*static_cast<const Range*>(value.as_object()));
      case Kind::name_space:
        return name_space(*static_cast<const Namespace*>(value.as_object()));
      case Kind::loop: {
        const int64_t length = loop_length(run, value);
        const int64_t index = static_cast<const Loop*>(value.as_object())->index0 + 1;
        return text(fmt::format("<LoopContext {}/{}>", index, length));
      }
      case Kind::macro:
        return text(macro_repr(value));
      default:
        return text(fmt::format("<{} object>", type_name(value)));
    }
  }
};

}  // namespace

void append_repr(Run& run, std::string& out, const Value& value) {
  Writer{run, out}.repr(value);
}

void append_str(Run& run, std::string& out, const Value& value) {
  if (value.is(Kind::string)) {
    Writer{run, out}.text(text_of(value));
  } else if (!value.is_undefined() && !value.is_missing()) {
    append_repr(run, out, value);
  }
}

std::string str_of(Run& run, const Value& value) {
  std::string out;
  append_str(run, out, value);
  return out;
}

std::string repr_of(Run& run, const Value& value) {
  std::string out;
  append_repr(run, out, value);
  return out;
}

// ---- JSON ---------------------------------------------------------------------------

namespace {

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonStyle& style) : run_(run), style_(style) {}

  void value(const Value& v) {
    run_.step();
    run_.check_stack();
    run_.check_string(out.size());
    run_.check_room(out.size());
    switch (v.kind()) {
      case Kind::none:
        out += "null";
        return;
      case Kind::boolean:
        out += v.as_bool() ? "true" : "false";
        return;
      case Kind::integer:
      case Kind::big_integer:
        out += big_or_small(v);
        return;
      case Kind::floating:
        out += json_float(v.as_float());
        return;
      case Kind::string:
        string(text_of(v));
        return;
      case Kind::list:
      case Kind::tuple:
        return list(items_of(v));
      case Kind::dict:
        return dict(dict_of(v));
      default:
        run_.fail("Object of type {} is not JSON serializable", type_name(v));
    }
  }

  std::string out;

 private:
  static std::string big_or_small(const Value& v) {
    return v.is(Kind::integer) ? fmt::format("{}", v.as_int()) : big_of(v).to_string();
  }
  static std::string json_float(double v) {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v < 0 ? "-Infinity" : "Infinity";
    return repr_float(v);
  }

  void string(std::string_view text) {
    run_.copying(text.size());
    out.push_back('"');
    for (size_t i = 0; i < text.size();) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte >= 0x80 && style_.ensure_ascii) {
        const Utf8Step step = decode_utf8(text, i);
        escape_utf16(step.code_point);
        i += static_cast<size_t>(step.length);
        continue;
      }
      character(text[i++]);
    }
    out.push_back('"');
  }
  void character(char c) {
    switch (c) {
      case '"':
        out += "\\\"";
        return;
      case '\\':
        out += "\\\\";
        return;
      case '\n':
        out += "\\n";
        return;
      case '\r':
        out += "\\r";
        return;
      case '\t':
        out += "\\t";
        return;
      case '\b':
        out += "\\b";
        return;
      case '\f':
        out += "\\f";
        return;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out.push_back(c);
        }
    }
  }
  void escape_utf16(char32_t c) {
    auto unit = static_cast<uint32_t>(c);
    if (unit >= 0x10000) {
      unit -= 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (unit >> 10),
                         0xDC00 + (unit & 0x3FF));
    } else {
      out += fmt::format("\\u{:04x}", unit);
    }
  }

  void newline() {
    if (!style_.indent) return;
    run_.check_string(out.size() + style_.indent->size() * level_);
    run_.copying(style_.indent->size() * level_);
    out.push_back('\n');
    for (size_t i = 0; i < level_; ++i) out += *style_.indent;
  }
  void open(char bracket) {
    out.push_back(bracket);
    ++level_;
    newline();
  }
  void close(char bracket) {
    --level_;
    newline();
    out.push_back(bracket);
  }
  void list(const std::vector<Value>& items) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    open('[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) separate();
      value(items[i]);
    }
    close(']');
  }
  void separate() {
    out += style_.item_separator;
    newline();
  }

  void key(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return string(text_of(key));
      case Kind::none:
        return string("null");
      case Kind::boolean:
        return string(key.as_bool() ? "true" : "false");
      case Kind::integer:
      case Kind::big_integer:
        return string(big_or_small(key));
      case Kind::floating:
        return string(json_float(key.as_float()));
      default:
        run_.fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }
  void dict(const Dict& dict) {
    if (dict.entries.empty()) {
      out += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) sort(entries);
    open('{');
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) separate();
      key(entries[i]->first);
      out += style_.key_separator;
      value(entries[i]->second);
    }
    close('}');
  }
  void sort(std::vector<const std::pair<Value, Value>*>& entries) {
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
      return order(run_, a->first, b->first, "<") == -1;
    });
  }

  Run& run_;
  const JsonStyle& style_;
  size_t level_ = 0;
};

}  // namespace

std::string to_json(Run& run, const Value& value, const JsonStyle& style) {
  JsonWriter writer(run, style);
  writer.value(value);
  return std::move(writer.out);
}

}  // namespace ingot::jinja
