#include "text/jinja_ops.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "text/jinja_iterate.h"

namespace ingot::jinja {
namespace {

bool equal_sequences(Run& run, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].same_as(b[i]) && !equal(run, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Run& run, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = dict_find(run, b, key);
    if (other == nullptr) return false;
    if (!value.same_as(*other) && !equal(run, value, *other)) return false;
  }
  return true;
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::big_integer) || b.is(Kind::big_integer)) {
    if (a.is_int() && b.is_int()) return compare(big_of(a), big_of(b));
    double x = a.is_int() ? big_of(a).to_double() : a.as_float();
    double y = b.is_int() ? big_of(b).to_double() : b.as_float();
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  }
  if (a.is_int() && b.is_int()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  // A long double holds every int64 and every double.
  long double x = a.is_int() ? static_cast<long double>(a.as_int()) : a.as_float();
  long double y = b.is_int() ? static_cast<long double>(b.as_int()) : b.as_float();
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool equal_views(Run& run, const Value& a, const Value& b) {
  const auto& x = *static_cast<const DictView*>(a.as_object());
  const auto& y = *static_cast<const DictView*>(b.as_object());
  if (x.what != y.what || x.what == ViewOf::values) return a.same_as(b);
  if (x.what == ViewOf::items) return equal_dicts(run, dict_of(x.dict), dict_of(y.dict));
  const Dict& one = dict_of(x.dict);
  if (one.entries.size() != dict_of(y.dict).entries.size()) return false;
  for (const auto& entry : one.entries) {
    if (dict_find(run, dict_of(y.dict), entry.first) == nullptr) return false;
  }
  return true;
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big_integer:
      return "int";
    case Kind::floating:
      return "float";
    case Kind::string:
      return string_of(value).markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::dict_view:
      return "dict view";
    case Kind::range:
      return "range";
    case Kind::generator:
      return "generator";
    case Kind::name_space:
      return "Namespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::macro:
      return "Macro";
    case Kind::method:
      return "builtin_function_or_method";
    case Kind::function:
      return "function";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
  }
  return "object";
}

void fail_undefined(const Run& run, const Value& undefined) {
  run.fail_text(undefined.is_undefined() ? text_of(undefined) : "a value is undefined");
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_int() != 0;
    case Kind::floating:
      return value.as_float() != 0.0;
    case Kind::string:
      return !text_of(value).empty();
    case Kind::list:
    case Kind::tuple:
      return !items_of(value).empty();
    case Kind::dict:
      return !dict_of(value).entries.empty();
    case Kind::dict_view:
      return !dict_of(static_cast<const DictView*>(value.as_object())->dict)
                  .entries.empty();
    case Kind::range:
      return static_cast<const Range*>(value.as_object())->size() != 0;
    default:
      return true;
  }
}

bool equal(Run& run, const Value& a, const Value& b) {
  run.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
      return true;
    case Kind::string:
      run.copying(std::min(text_of(a).size(), text_of(b).size()));
      return text_of(a) == text_of(b);
    case Kind::list:
    case Kind::tuple:
      run.check_stack();
      return equal_sequences(run, items_of(a), items_of(b));
    case Kind::dict:
      run.check_stack();
      return equal_dicts(run, dict_of(a), dict_of(b));
    case Kind::dict_view:
      return equal_views(run, a, b);
    case Kind::range: {
      const auto& x = *static_cast<const Range*>(a.as_object());
      const auto& y = *static_cast<const Range*>(b.as_object());
      if (x.size() != y.size()) return false;
      if (x.size() == 0) return true;
      return x.start == y.start && (x.size() == 1 || x.step == y.step);
    }
    default:
      return a.same_as(b);
  }
}

int order(Run& run, const Value& a, const Value& b, std::string_view op) {
  run.step();
  if (a.is_undefined()) fail_undefined(run, a);
  if (b.is_undefined()) fail_undefined(run, b);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is(Kind::string) && b.is(Kind::string)) {
    run.copying(std::min(text_of(a).size(), text_of(b).size()));
    int c = text_of(a).compare(text_of(b));  // UTF-8 bytes order as code points do
    return c < 0 ? -1 : c > 0 ? 1 : 0;
  }
  if (a.kind() == b.kind() && a.is_sequence()) {
    run.check_stack();
    const auto& x = items_of(a);
    const auto& y = items_of(b);
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!x[i].same_as(y[i]) && !equal(run, x[i], y[i]))
        return order(run, x[i], y[i], op);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  run.fail("'{}' not supported between instances of '{}' and '{}'", op, type_name(a),
           type_name(b));
}

bool compare(Run& run, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::eq:
      return equal(run, a, b);
    case CompareOp::ne:
      return !equal(run, a, b);
    case CompareOp::lt:
      return order(run, a, b, "<") == -1;
    case CompareOp::gt:
      return order(run, a, b, ">") == 1;
    case CompareOp::le: {
      int c = order(run, a, b, "<=");
      return c == -1 || c == 0;
    }
    case CompareOp::ge: {
      int c = order(run, a, b, ">=");
      return c == 1 || c == 0;
    }
    case CompareOp::in:
      return contains(run, b, a);
    case CompareOp::not_in:
      return !contains(run, b, a);
  }
  CHECK(false);
}

bool contains(Run& run, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is(Kind::string)) {
        run.fail("'in <string>' requires string as left operand, not {}",
                 type_name(item));
      }
      run.copying(text_of(container).size());
      return text_of(container).find(text_of(item)) != std::string::npos;
    case Kind::dict:
      return dict_find(run, dict_of(container), item) != nullptr;
    case Kind::dict_view: {
      const auto& view = *static_cast<const DictView*>(container.as_object());
      if (view.what == ViewOf::keys) {
        return dict_find(run, dict_of(view.dict), item) != nullptr;
      }
      break;
    }
    default:
      break;
  }
  if (!is_iterable(container)) {
    run.fail("argument of type '{}' is not iterable", type_name(container));
  }
  Iterator iterator(run, container);
  for (Value other; iterator.next(other);) {
    if (other.same_as(item) || equal(run, other, item)) return true;
  }
  return false;
}

size_t hash_of_text(std::string_view text) { return std::hash<std::string_view>{}(text); }

size_t hash_of(Run& run, const Value& key) {
  switch (key.kind()) {
    case Kind::none:
      return 0x6e6f6e65;
    case Kind::boolean:
    case Kind::integer:
      return std::hash<int64_t>{}(key.as_int()) * 0x9E3779B97F4A7C15ull >> 7;
    case Kind::floating: {
      double v = key.as_float();
      if (std::fabs(v) < 9e18 && v == std::trunc(v)) {
        return hash_of(run, Value::integer(static_cast<int64_t>(v)));
      }
      // Large whole floats equal big ints: both hash by their double.
      return std::hash<double>{}(v);
    }
    case Kind::big_integer:
      return std::hash<double>{}(big_of(key).to_double());
    case Kind::string:
      run.copying(text_of(key).size());
      return hash_of_text(text_of(key));
    case Kind::tuple: {
      run.check_stack();
      size_t hash = 0x345678;
      for (const Value& item : items_of(key)) hash = hash * 1000003 ^ hash_of(run, item);
      return hash;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::dict_view:
      run.fail("unhashable type: '{}'", type_name(key));
    case Kind::undefined:
      return 1;
    default:
      return std::hash<const void*>{}(key.as_object());
  }
}

bool has_length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::dict_view:
    case Kind::range:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}

int64_t length_of(Run& run, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return static_cast<int64_t>(string_of(value).length);
    case Kind::list:
    case Kind::tuple:
      return static_cast<int64_t>(items_of(value).size());
    case Kind::dict:
      return static_cast<int64_t>(dict_of(value).entries.size());
    case Kind::dict_view: {
      const Value& dict = static_cast<const DictView*>(value.as_object())->dict;
      return static_cast<int64_t>(dict_of(dict).entries.size());
    }
    case Kind::range:
      return static_cast<const Range*>(value.as_object())->size();
    case Kind::loop:
      return loop_length(run, value);
    default:
      run.fail("object of type '{}' has no len()", type_name(value));
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::dict_view:
    case Kind::range:
    case Kind::generator:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}

Value character_at(Run& run, const Value& string, size_t index) {
  const String& s = string_of(string);
  size_t begin = byte_offset(s, index);
  if (!s.is_ascii()) run.copying(begin);
  size_t end = begin + 1;
  while (end < s.text.size() &&
         (static_cast<unsigned char>(s.text[end]) & 0xC0u) == 0x80u) {
    ++end;
  }
  return make_substring(run, s, begin, end);
}

Value range_item(Run&, const Range& range, int64_t index) {
  return Value::integer(range.start + index * range.step);
}

Value item_at(Run& run, const Value& value, const Value& index) {
  if (value.is(Kind::dict)) {
    if (index.is(Kind::list) || index.is(Kind::dict) || index.is(Kind::dict_view))
      return {};
    const Value* found = dict_find(run, dict_of(value), index);
    return found != nullptr ? *found : Value();
  }
  if (!index.is(Kind::integer) && !index.is(Kind::boolean)) return {};
  if (!value.is_sequence() && !value.is(Kind::string) && !value.is(Kind::range))
    return {};
  int64_t n = length_of(run, value);
  int64_t i = index.as_int();
  if (i < 0) i += n;
  if (i < 0 || i >= n) return {};
  if (value.is(Kind::string)) return character_at(run, value, static_cast<size_t>(i));
  if (value.is(Kind::range)) {
    return range_item(run, *static_cast<const Range*>(value.as_object()), i);
  }
  return items_of(value)[static_cast<size_t>(i)];
}

namespace {

struct ResolvedSlice {
  int64_t start, stop, step, count;
};

// A bound as Python clips it: far outside is the end.
int64_t clip_bound(Run& run, const Value& bound, int64_t n, bool downwards) {
  int64_t i = bound.is(Kind::big_integer)
                  ? (big_of(bound).is_negative() ? INT64_MIN / 2 : INT64_MAX / 2)
                  : index_of(run, bound, "slice index");
  if (i < 0) i = std::max(i, INT64_MIN / 2) + n;
  if (downwards) return std::clamp<int64_t>(i, -1, n - 1);
  return std::clamp<int64_t>(i, 0, n);
}

bool is_given(const Value& bound) { return !bound.is_missing() && !bound.is(Kind::none); }

ResolvedSlice resolve_slice(Run& run, const SliceBounds& bounds, int64_t n) {
  int64_t step = is_given(bounds.step) ? index_of(run, bounds.step, "slice step") : 1;
  if (step == 0) run.fail("slice step cannot be zero");
  step = std::clamp<int64_t>(step, -INT64_MAX / 4, INT64_MAX / 4);
  bool down = step < 0;
  int64_t start = is_given(bounds.start) ? clip_bound(run, bounds.start, n, down)
                                         : (down ? n - 1 : 0);
  int64_t stop =
      is_given(bounds.stop) ? clip_bound(run, bounds.stop, n, down) : (down ? -1 : n);
  int64_t count = 0;
  if (!down && start < stop) count = (stop - start - 1) / step + 1;
  if (down && start > stop) count = (start - stop - 1) / -step + 1;
  return {start, stop, step, count};
}

Value slice_string(Run& run, const Value& value, const ResolvedSlice& s) {
  const String& string = string_of(value);
  run.copying(string.text.size());
  if (s.step == 1) {
    size_t begin = byte_offset(string, static_cast<size_t>(s.start));
    size_t end = byte_offset(string, static_cast<size_t>(s.start + s.count));
    return make_substring(run, string, begin, end);
  }
  std::vector<size_t> offsets;  // of each code point
  if (!string.is_ascii()) {
    run.check_room(string.length * sizeof(size_t));
    for (size_t i = 0; i < string.text.size(); ++i) {
      if ((static_cast<unsigned char>(string.text[i]) & 0xC0u) != 0x80u)
        offsets.push_back(i);
    }
  }
  offsets.push_back(string.text.size());
  std::string out;
  for (int64_t k = 0; k < s.count; ++k) {
    auto i = static_cast<size_t>(s.start + k * s.step);
    if (string.is_ascii()) {
      out.push_back(string.text[i]);
    } else {
      out.append(string.text, offsets[i], offsets[i + 1] - offsets[i]);
    }
  }
  run.step(s.count);
  MarkedText marked;
  marked.append(out, !string.foreign.empty());
  return make_marked_string(run, std::move(marked), string.markup);
}

}  // namespace

Value slice(Run& run, const Value& value, const SliceBounds& bounds) {
  if (value.is_undefined()) fail_undefined(run, value);
  if (!value.is_sequence() && !value.is(Kind::string) && !value.is(Kind::range)) {
    run.fail("'{}' object is not subscriptable by a slice", type_name(value));
  }
  const ResolvedSlice s = resolve_slice(run, bounds, length_of(run, value));
  if (value.is(Kind::string)) return slice_string(run, value, s);
  if (value.is(Kind::range)) {
    const auto& range = *static_cast<const Range*>(value.as_object());
    const int64_t start = range.start + s.start * range.step;
    const int64_t step = range.step * std::clamp<int64_t>(s.step, -200'000, 200'000);
    return make_range(run, start, range.start + s.stop * range.step, step);
  }
  run.step(s.count);
  run.check_room(static_cast<size_t>(s.count) * sizeof(Value));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(s.count));
  for (int64_t k = 0; k < s.count; ++k) {
    items.push_back(items_of(value)[static_cast<size_t>(s.start + k * s.step)]);
  }
  return value.is(Kind::list) ? make_list(run, std::move(items))
                              : make_tuple(run, std::move(items));
}

}  // namespace ingot::jinja
