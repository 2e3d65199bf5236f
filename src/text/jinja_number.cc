// Arithmetic of jinja_ops.h.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace ingot::jinja {
namespace {

[[noreturn]] void fail_operands(Run& run, std::string_view op, const Value& a,
                                const Value& b) {
  run.fail("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(a),
           type_name(b));
}

double python_mod(double a, double b) {
  double mod = std::fmod(a, b);
  if (mod == 0.0) return std::copysign(0.0, b);
  return (b < 0) != (mod < 0) ? mod + b : mod;
}

double python_floor_divide(double a, double b) {
  double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0.0 && (b < 0) != (mod < 0)) div -= 1.0;
  if (div == 0.0) return std::copysign(0.0, a / b);
  double floor = std::floor(div);
  return div - floor > 0.5 ? floor + 1.0 : floor;
}

Value float_arithmetic(Run& run, BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return Value::floating(a + b);
    case BinaryOp::subtract:
      return Value::floating(a - b);
    case BinaryOp::multiply:
      return Value::floating(a * b);
    case BinaryOp::divide:
      if (b == 0.0) run.fail("division by zero");
      return Value::floating(a / b);
    case BinaryOp::floor_divide:
      if (b == 0.0) run.fail("division by zero");
      return Value::floating(python_floor_divide(a, b));
    case BinaryOp::modulo:
      if (b == 0.0) run.fail("modulo by zero");
      return Value::floating(python_mod(a, b));
    case BinaryOp::power: {
      if (a == 0.0 && b < 0) run.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::trunc(b)) {
        run.fail("a complex result is not supported");
      }
      double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        run.fail("numerical result out of range");
      }
      return Value::floating(result);
    }
  }
  CHECK(false);
}

Value int_power(Run& run, const Value& a, const Value& b) {
  if (big_of(b).is_negative()) {
    return float_arithmetic(run, BinaryOp::power, float_of(run, a), float_of(run, b));
  }
  BigInt base = big_of(a);
  if (b.is(Kind::big_integer)) {
    // Only 0, 1 and -1 have such powers.
    if (compare(base, BigInt(-1)) < 0 || compare(base, BigInt(1)) > 0) {
      run.fail("an integer grows past 4096 bytes");
    }
    return Value::integer(base.is_negative() && !big_of(b).is_odd() ? 1
                                                                    : base.to_int64());
  }
  BigInt result(1);
  for (int64_t e = b.as_int(); e > 0; e >>= 1) {
    if ((e & 1) != 0) result = result * base;
    if (e > 1) base = base * base;
    run.step(static_cast<int64_t>(base.bytes() / 4 + 1));
    if (base.bytes() + result.bytes() > 16384)
      run.fail("an integer grows past 4096 bytes");
  }
  return make_int(run, std::move(result));
}

Value big_arithmetic(Run& run, BinaryOp op, const Value& a, const Value& b) {
  BigInt x = big_of(a), y = big_of(b), quotient, rest;
  run.step(static_cast<int64_t>(1 + x.bytes() * (1 + y.bytes()) / 64));
  switch (op) {
    case BinaryOp::add:
      return make_int(run, x + y);
    case BinaryOp::subtract:
      return make_int(run, x - y);
    case BinaryOp::multiply:
      return make_int(run, x * y);
    case BinaryOp::floor_divide:
    case BinaryOp::modulo:
      if (y.is_zero()) run.fail("integer division or modulo by zero");
      run.step(static_cast<int64_t>(x.bytes() * (1 + y.bytes()) / 4));
      BigInt::divide(x, y, quotient, rest);
      return make_int(run, op == BinaryOp::modulo ? rest : quotient);
    case BinaryOp::divide: {
      if (y.is_zero()) run.fail("division by zero");
      double result = x.to_double() / y.to_double();
      if (!std::isfinite(result))
        run.fail("integer division result too large for a float");
      return Value::floating(result);
    }
    case BinaryOp::power:
      return int_power(run, a, b);
  }
  CHECK(false);
}

Value int_arithmetic(Run& run, BinaryOp op, const Value& a, const Value& b) {
  if (a.is(Kind::big_integer) || b.is(Kind::big_integer))
    return big_arithmetic(run, op, a, b);
  const int64_t x = a.as_int(), y = b.as_int();
  int64_t result = 0;
  switch (op) {
    case BinaryOp::add:
      if (__builtin_add_overflow(x, y, &result)) break;
      return Value::integer(result);
    case BinaryOp::subtract:
      if (__builtin_sub_overflow(x, y, &result)) break;
      return Value::integer(result);
    case BinaryOp::multiply:
      if (__builtin_mul_overflow(x, y, &result)) break;
      return Value::integer(result);
    case BinaryOp::divide:
      if (y == 0) run.fail("division by zero");
      return Value::floating(static_cast<double>(x) / static_cast<double>(y));
    case BinaryOp::floor_divide:
    case BinaryOp::modulo: {
      if (y == 0) run.fail("integer division or modulo by zero");
      if (y == -1) break;  // INT64_MIN // -1 does not fit
      int64_t rest = x % y;
      bool below = rest != 0 && (rest < 0) != (y < 0);
      if (op == BinaryOp::modulo) return Value::integer(below ? rest + y : rest);
      return Value::integer(x / y - (below ? 1 : 0));
    }
    case BinaryOp::power:
      break;
  }
  return big_arithmetic(run, op, a, b);
}

Value join_strings(Run& run, const Value& a, const Value& b) {
  const String &x = string_of(a), &y = string_of(b);
  run.check_string(x.text.size() + y.text.size());
  run.check_room(2 * (x.text.size() + y.text.size()));
  const bool markup = x.markup || y.markup;
  MarkedText out;
  for (const String* part : {&x, &y}) {
    if (markup && !part->markup) {
      out.append(escape_html(part->text), !part->foreign.empty());
    } else {
      out.append(part->text, part->foreign);
    }
  }
  return make_marked_string(run, std::move(out), markup);
}

Value join_lists(Run& run, const Value& a, const Value& b) {
  const auto &x = items_of(a), &y = items_of(b);
  run.check_room((x.size() + y.size()) * sizeof(Value));
  run.step(static_cast<int64_t>(x.size() + y.size()));
  std::vector<Value> items;
  items.reserve(x.size() + y.size());
  items.insert(items.end(), x.begin(), x.end());
  items.insert(items.end(), y.begin(), y.end());
  return a.is(Kind::list) ? make_list(run, std::move(items))
                          : make_tuple(run, std::move(items));
}

Value repeat(Run& run, const Value& value, const Value& times) {
  if (times.is(Kind::big_integer) && !big_of(times).is_negative() && truthy(value)) {
    run.fail("cannot repeat so many times");
  }
  int64_t n = times.is(Kind::big_integer) ? 0 : std::max<int64_t>(times.as_int(), 0);
  const auto size = static_cast<size_t>(length_of(run, value));
  if (size == 0) n = 0;
  if (value.is(Kind::string)) {
    const std::string& text = text_of(value);
    if (n > 0 && static_cast<size_t>(n) > run.limits.max_string_bytes / text.size()) {
      run.check_string(run.limits.max_string_bytes + 1);
    }
    std::string out;
    run.check_room(text.size() * static_cast<size_t>(n));
    out.reserve(text.size() * static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) out += text;
    run.step(n / 16);
    return make_string(run, std::move(out), string_of(value).markup);
  }
  if (n > 0 &&
      static_cast<size_t>(n) > run.limits.max_live_bytes / sizeof(Value) / size) {
    run.check_room(run.limits.max_live_bytes + 1);
  }
  run.check_room(size * static_cast<size_t>(n) * sizeof(Value));
  run.step(n * static_cast<int64_t>(size));
  std::vector<Value> items;
  items.reserve(size * static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    items.insert(items.end(), items_of(value).begin(), items_of(value).end());
  }
  return value.is(Kind::list) ? make_list(run, std::move(items))
                              : make_tuple(run, std::move(items));
}

std::string_view symbol_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::subtract:
      return "-";
    case BinaryOp::multiply:
      return "*";
    case BinaryOp::divide:
      return "/";
    case BinaryOp::floor_divide:
      return "//";
    case BinaryOp::modulo:
      return "%";
    case BinaryOp::power:
      return "**";
  }
  return "?";
}

}  // namespace

BigInt big_of(const Value& value) {
  CHECK(value.is_int());
  if (!value.is(Kind::big_integer)) return BigInt(value.as_int());
  return static_cast<const BigInteger*>(value.as_object())->value;
}

double float_of(Run& run, const Value& value) {
  if (value.is(Kind::floating)) return value.as_float();
  if (!value.is(Kind::big_integer)) return static_cast<double>(value.as_int());
  double result = big_of(value).to_double();
  if (!std::isfinite(result)) run.fail("int too large to convert to float");
  return result;
}

int64_t index_of(Run& run, const Value& value, std::string_view what) {
  if (value.is_undefined()) fail_undefined(run, value);
  if (value.is(Kind::big_integer)) run.fail("{}: the integer is too large", what);
  if (!value.is_int()) {
    run.fail("{}: '{}' object cannot be interpreted as an integer", what,
             type_name(value));
  }
  return value.as_int();
}

Value binary(Run& run, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_int() && b.is_int()) return int_arithmetic(run, op, a, b);
    return float_arithmetic(run, op, float_of(run, a), float_of(run, b));
  }
  if (op == BinaryOp::modulo && a.is(Kind::string)) return format_printf(run, a, b);
  if (a.is_undefined()) fail_undefined(run, a);
  if (b.is_undefined()) fail_undefined(run, b);
  if (op == BinaryOp::add) {
    if (a.is(Kind::string) && b.is(Kind::string)) return join_strings(run, a, b);
    if (a.is_sequence() && a.kind() == b.kind()) return join_lists(run, a, b);
  }
  if (op == BinaryOp::multiply) {
    if ((a.is(Kind::string) || a.is_sequence()) && b.is_int()) return repeat(run, a, b);
    if ((b.is(Kind::string) || b.is_sequence()) && a.is_int()) return repeat(run, b, a);
  }
  fail_operands(run, symbol_of(op), a, b);
}

Value negate(Run& run, const Value& value) {
  if (value.is_undefined()) fail_undefined(run, value);
  if (value.is(Kind::floating)) return Value::floating(-value.as_float());
  if (value.is_int()) return make_int(run, big_of(value).negated());
  run.fail("bad operand type for unary -: '{}'", type_name(value));
}

Value plus(Run& run, const Value& value) {
  if (value.is_undefined()) fail_undefined(run, value);
  if (value.is(Kind::floating) || value.is(Kind::big_integer)) return value;
  if (value.is_int()) return Value::integer(value.as_int());
  run.fail("bad operand type for unary +: '{}'", type_name(value));
}

}  // namespace ingot::jinja
