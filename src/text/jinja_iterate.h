// Walking over values, and the lazy sequences that filters return.
#pragma once

#include "text/jinja_value.h"

namespace ingot::jinja {

class Interpreter;

// What a call passes: f(1, 2, key=3).
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

// Python's iter(): items of sequences and ranges, characters, keys, and whatever a
// generator still has.
class Iterator {
 public:
  Iterator() = default;
  Iterator(Run& run, Value source);  // Error unless is_iterable(source)
  // For lazy sequences: the first next() throws that Error.
  static Iterator unchecked(Run& run, Value source);
  bool next(Value& item);

 private:
  Run* run_ = nullptr;
  Value source_;
  size_t index_ = 0;  // of the next item; of the next byte in strings
};

// A lazy sequence that can be walked once.  `transform` changes the item, or drops it by
// returning false; its parameters lie beside it.
struct Generator : Object {
  using Transform = bool (*)(Interpreter&, Generator&, Value& item);
  Iterator source;
  Transform transform = nullptr;
  Interpreter* interpreter = nullptr;
  std::string name;     // of a filter or test
  Value attribute;      // what to look up first; missing: the item itself
  Value default_value;  // where the attribute is undefined
  Arguments arguments;
  bool keep_if = true;
};

// No transform yet.  `inside`: what else the generator will hold.
// What cannot be walked over is an Error only at the first item, as in Python.
Value make_generator(Run& run, const Value& source, const Arguments* inside = nullptr);
Generator& generator_of(const Value& value);
// One more than the deepest of the values; Error past the limit.
uint32_t depth_around(Run& run, const std::vector<Value>& values);
bool generator_next(Generator& generator, Value& item);

// list(value)
std::vector<Value> collect(Run& run, const Value& value);
// list(reversed(value)); Error for what Python cannot reverse.
std::vector<Value> collect_reversed(Run& run, const Value& value);

int64_t loop_length(Run& run, const Value& loop);  // jinja_eval.cc

}  // namespace ingot::jinja
