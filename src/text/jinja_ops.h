// What operators and subscripts mean, in Python's way.
#pragma once

#include <functional>
#include <optional>

#include "text/jinja_value.h"

namespace ingot::jinja {

enum class BinaryOp : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power
};
enum class CompareOp : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

bool truthy(const Value& value);
bool equal(Run& run, const Value& a, const Value& b);
// -1, 0, 1; 2 when unordered (NaN).  Error for types that Python does not order.
int order(Run& run, const Value& a, const Value& b, std::string_view op);
bool compare(Run& run, CompareOp op, const Value& a, const Value& b);
bool contains(Run& run, const Value& container, const Value& item);
size_t hash_of(Run& run, const Value& key);  // Error if unhashable
size_t hash_of_text(std::string_view text);

Value binary(Run& run, BinaryOp op, const Value& a, const Value& b);
Value negate(Run& run, const Value& value);
Value plus(Run& run, const Value& value);

// 'str', 'int', 'NoneType', ...: Python's name of the type.
std::string_view type_name(const Value& value);
// Error for any use that an undefined value does not allow.
[[noreturn]] void fail_undefined(const Run& run, const Value& undefined);

// len(); Error for what has none.
int64_t length_of(Run& run, const Value& value);
bool has_length(const Value& value);
bool is_iterable(const Value& value);

// value[index] for integers and keys; missing where Python raises LookupError or
// TypeError.
Value item_at(Run& run, const Value& value, const Value& index);
struct SliceBounds {
  Value start, stop, step;  // missing or none: not given
};
Value slice(Run& run, const Value& value, const SliceBounds& bounds);
Value character_at(Run& run, const Value& string, size_t index);
Value range_item(Run& run, const Range& range, int64_t index);

BigInt big_of(const Value& value);              // Requires: is_int()
double float_of(Run& run, const Value& value);  // Requires: is_number()
// An int that must fit 64 bits, such as a count; Error naming `what`.
int64_t index_of(Run& run, const Value& value, std::string_view what);

}  // namespace ingot::jinja
