// What may follow `is`.
#include "text/jinja_eval.h"
#include "text/jinja_print.h"
#include "text/jinja_string.h"

namespace ingot::jinja {
namespace {

using Test = TestFunction;

// Tests without an argument.
template <bool (*check)(const Value&)>
bool plain(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound(in.run, arguments, {.name = "test", .parameters = {}});
  return check(value);
}
bool defined(const Value& v) { return !v.is_undefined(); }
bool undefined(const Value& v) { return v.is_undefined(); }
bool none(const Value& v) { return v.is(Kind::none); }
bool boolean(const Value& v) { return v.is(Kind::boolean); }
bool is_true(const Value& v) { return v.is(Kind::boolean) && v.as_bool(); }
bool is_false(const Value& v) { return v.is(Kind::boolean) && !v.as_bool(); }
bool integer(const Value& v) { return v.is_int() && !v.is(Kind::boolean); }
bool floating(const Value& v) { return v.is(Kind::floating); }
bool number(const Value& v) { return v.is_number(); }
bool string(const Value& v) { return v.is(Kind::string); }
bool mapping(const Value& v) { return v.is(Kind::dict); }
bool iterable(const Value& v) { return is_iterable(v); }
bool sequence(const Value& v) {
  return has_length(v) && !v.is(Kind::dict_view) && !v.is(Kind::loop);
}
bool callable(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:  // it has __call__, which fails
    case Kind::macro:
    case Kind::method:
    case Kind::function:
    case Kind::joiner:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}
bool escaped(const Value& v) { return is_markup(v); }

// Tests with one argument.
template <CompareOp op>
bool compared(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "test", .parameters = {"other"}, .required = 1, .by_name = false});
  return compare(in.run, op, value, bound[0]);
}
bool same_as(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "sameas", .parameters = {"other"}, .required = 1});
  return value.same_as(bound[0]);
}
bool in_test(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "in", .parameters = {"seq"}, .required = 1});
  return contains(in.run, bound[0], value);
}

bool rest_equals(Interpreter& in, const Value& value, const Value& divisor,
                 int64_t rest) {
  return equal(in.run, binary(in.run, BinaryOp::modulo, value, divisor),
               Value::integer(rest));
}
bool odd(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound(in.run, arguments, {.name = "odd", .parameters = {}});
  return rest_equals(in, value, Value::integer(2), 1);
}
bool even(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound(in.run, arguments, {.name = "even", .parameters = {}});
  return rest_equals(in, value, Value::integer(2), 0);
}
bool divisible_by(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "divisibleby", .parameters = {"num"}, .required = 1});
  return rest_equals(in, value, bound[0], 0);
}

bool cased(Interpreter& in, const Value& value, Arguments& arguments,
           std::string_view method) {
  const Value text = make_string(in.run, str_of(in.run, value));
  return truthy(find_string_method(method)(in, text, arguments));
}
bool lower(Interpreter& in, const Value& value, Arguments& arguments) {
  return cased(in, value, arguments, "islower");
}
bool upper(Interpreter& in, const Value& value, Arguments& arguments) {
  return cased(in, value, arguments, "isupper");
}

bool filter(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound(in.run, arguments, {.name = "filter", .parameters = {}});
  hash_of(in.run, value);  // Error if it cannot be a key of the table
  return value.is(Kind::string) && find_filter(text_of(value)) != nullptr;
}
bool test(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound(in.run, arguments, {.name = "test", .parameters = {}});
  hash_of(in.run, value);
  return value.is(Kind::string) && find_test(text_of(value)) != nullptr;
}

constexpr std::pair<std::string_view, Test> kTests[] = {
    {"defined", plain<defined>},
    {"undefined", plain<undefined>},
    {"none", plain<none>},
    {"string", plain<string>},
    {"mapping", plain<mapping>},
    {"iterable", plain<iterable>},
    {"sequence", plain<sequence>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"boolean", plain<boolean>},
    {"integer", plain<integer>},
    {"float", plain<floating>},
    {"number", plain<number>},
    {"callable", plain<callable>},
    {"escaped", plain<escaped>},
    {"equalto", compared<CompareOp::eq>},
    {"eq", compared<CompareOp::eq>},
    {"==", compared<CompareOp::eq>},
    {"ne", compared<CompareOp::ne>},
    {"!=", compared<CompareOp::ne>},
    {"lt", compared<CompareOp::lt>},
    {"lessthan", compared<CompareOp::lt>},
    {"<", compared<CompareOp::lt>},
    {"le", compared<CompareOp::le>},
    {"<=", compared<CompareOp::le>},
    {"gt", compared<CompareOp::gt>},
    {"greaterthan", compared<CompareOp::gt>},
    {">", compared<CompareOp::gt>},
    {"ge", compared<CompareOp::ge>},
    {">=", compared<CompareOp::ge>},
    {"in", in_test},
    {"sameas", same_as},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible_by},
    {"lower", lower},
    {"upper", upper},
    {"filter", filter},
    {"test", test},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const auto& [key, function] : kTests) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace ingot::jinja
