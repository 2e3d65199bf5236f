// Methods of dicts, lists, tuples, ranges and numbers; strings have jinja_string.cc.
#include <algorithm>
#include <cmath>

#include "text/jinja_eval.h"
#include "text/jinja_string.h"

namespace ingot::jinja {
namespace {

using Entry = std::pair<std::string_view, MethodFunction>;

void want_none(Interpreter& in, std::string_view name, Arguments& arguments) {
  Bound(in.run, arguments, {.name = name, .parameters = {}});
}

// ---- dict

Value dict_items(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "items", arguments);
  return make_view(in.run, self, ViewOf::items);
}
Value dict_keys(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "keys", arguments);
  return make_view(in.run, self, ViewOf::keys);
}
Value dict_values(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "values", arguments);
  return make_view(in.run, self, ViewOf::values);
}
Value dict_get(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(
      in.run, arguments,
      {.name = "get", .parameters = {"key", "default"}, .required = 1, .by_name = false});
  const Value* found = dict_find(in.run, dict_of(self), bound[0]);
  return found != nullptr ? *found : bound.has(1) ? bound[1] : Value::none();
}
Value itself(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "copy", arguments);
  return self;  // values never change: a copy cannot be told apart
}
Value dict_from_keys(Interpreter& in, const Value&, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "fromkeys",
               .parameters = {"iterable", "value"},
               .required = 1,
               .by_name = false});
  DictBuilder dict(in.run);
  Iterator keys(in.run, bound[0]);
  for (Value key; keys.next(key);) dict.set(key, bound.has(1) ? bound[1] : Value::none());
  return dict.finish();
}

constexpr Entry kDict[] = {
    {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values},
    {"get", dict_get},     {"copy", itself},    {"fromkeys", dict_from_keys},
};

// ---- list, tuple, range

Value sequence_index(Interpreter& in, const Value& self, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "index",
               .parameters = {"value", "start", "stop"},
               .required = 1,
               .by_name = false});
  const int64_t n = length_of(run, self);
  auto place = [&](size_t i, int64_t otherwise) {
    if (!bound.has(i)) return otherwise;
    int64_t at = index_of(run, bound[i], "index()");
    return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n);
  };
  const int64_t start = place(1, 0), stop = place(2, n);
  Iterator items(run, self);
  int64_t i = 0;
  for (Value item; items.next(item) && i < stop; ++i) {
    if (i >= start && equal(run, item, bound[0])) return Value::integer(i);
  }
  run.fail("index(): the value is not in the {}", type_name(self));
}
Value sequence_count(Interpreter& in, const Value& self, Arguments& arguments) {
  Bound bound(
      in.run, arguments,
      {.name = "count", .parameters = {"value"}, .required = 1, .by_name = false});
  Iterator items(in.run, self);
  int64_t n = 0;
  for (Value item; items.next(item);) n += equal(in.run, item, bound[0]);
  return Value::integer(n);
}

constexpr Entry kList[] = {
    {"index", sequence_index}, {"count", sequence_count}, {"copy", itself}};
constexpr Entry kTuple[] = {{"index", sequence_index}, {"count", sequence_count}};

// ---- numbers, cycler

Value float_is_integer(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "is_integer", arguments);
  if (!self.is(Kind::floating)) return Value::boolean(true);
  const double v = self.as_float();
  return Value::boolean(std::isfinite(v) && v == std::trunc(v));
}
Value int_bit_length(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "bit_length", arguments);
  BigInt rest = big_of(self), quotient, remainder;
  if (rest.is_negative()) rest = rest.negated();
  int64_t bits = 0;
  for (; !rest.is_zero(); ++bits, rest = quotient) {
    in.run.step(static_cast<int64_t>(rest.bytes()));
    BigInt::divide(rest, BigInt(2), quotient, remainder);
  }
  return Value::integer(bits);
}

constexpr Entry kFloat[] = {{"is_integer", float_is_integer}};
constexpr Entry kInt[] = {{"bit_length", int_bit_length}};

Value cycler_next(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "next", arguments);
  auto& cycler = *static_cast<Cycler*>(self.as_object());
  const size_t at = cycler.position;
  cycler.position = (at + 1) % cycler.items.size();
  return cycler.items[at];
}
Value cycler_reset(Interpreter& in, const Value& self, Arguments& arguments) {
  want_none(in, "reset", arguments);
  static_cast<Cycler*>(self.as_object())->position = 0;
  return Value::none();
}

constexpr Entry kCycler[] = {{"next", cycler_next}, {"reset", cycler_reset}};

template <size_t n>
MethodFunction find_in(const Entry (&table)[n], std::string_view name) {
  for (const auto& [key, function] : table) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace

MethodFunction find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::string:
      return find_string_method(name);
    case Kind::dict:
      return find_in(kDict, name);
    case Kind::list:
      return find_in(kList, name);
    case Kind::tuple:
    case Kind::range:
      return find_in(kTuple, name);
    case Kind::floating:
      return find_in(kFloat, name);
    case Kind::boolean:
    case Kind::integer:
    case Kind::big_integer:
      return find_in(kInt, name);
    case Kind::cycler:
      return find_in(kCycler, name);
    default:
      return nullptr;
  }
}

// What ImmutableSandboxedEnvironment keeps from templates: methods that change their
// object.
bool is_unsafe_attribute(const Value& object, std::string_view name) {
  static constexpr std::string_view kListChanges[] = {
      "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  static constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem",
                                                      "setdefault", "update"};
  if (object.is(Kind::list)) {
    return std::count(std::begin(kListChanges), std::end(kListChanges), name) != 0;
  }
  if (object.is(Kind::dict)) {
    return std::count(std::begin(kDictChanges), std::end(kDictChanges), name) != 0;
  }
  return false;
}

}  // namespace ingot::jinja
