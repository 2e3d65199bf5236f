// The values of a template: Python's, as far as templates can see them.
// A Value is 16 bytes; what does not fit is an Object, counted by reference and charged
// to the Run that made it.  Objects that templates cannot change never form cycles; the
// two that they can (Namespace, Scope) belong to the Run and are emptied when it ends.
// One thread per Run.  Constants of a Program are immortal and shared between threads.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_int.h"
#include "text/jinja_limits.h"

namespace ingot::jinja {

enum class Kind : uint8_t {
  missing,  // no value at all: an unset variable, an absent argument; templates never see
            // it
  undefined,
  none,
  boolean,
  integer,  // 64 bits; larger ones are big_integer
  floating,
  // From here on, `object` is set.
  big_integer,
  string,
  list,
  tuple,
  dict,
  dict_view,
  range,
  generator,
  name_space,
  loop,
  macro,
  method,    // a builtin bound to a value
  function,  // a builtin of the environment
  cycler,
  joiner,
};

class Run;
struct Object;

class Value {
 public:
  Value() : kind_(Kind::missing) { bits_.integer = 0; }
  Value(const Value& other) : kind_(other.kind_), bits_(other.bits_) { retain(); }
  Value(Value&& other) noexcept : kind_(other.kind_), bits_(other.bits_) {
    other.kind_ = Kind::missing;
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Value() { release(); }

  static Value none() { return Value(Kind::none); }
  static Value boolean(bool value) {
    Value v(Kind::boolean);
    v.bits_.integer = value;
    return v;
  }
  static Value integer(int64_t value) {
    Value v(Kind::integer);
    v.bits_.integer = value;
    return v;
  }
  static Value floating(double value) {
    Value v(Kind::floating);
    v.bits_.floating = value;
    return v;
  }
  // Takes over the first reference.  Undefined values carry a String: the reason.
  static Value object(Kind kind, Object* object) {
    Value v(kind);
    v.bits_.object = object;
    return v;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::missing; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_int() const {  // what Python calls int: booleans too
    return kind_ == Kind::integer || kind_ == Kind::boolean || kind_ == Kind::big_integer;
  }
  bool is_number() const { return is_int() || kind_ == Kind::floating; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }

  bool as_bool() const { return bits_.integer != 0; }
  int64_t as_int() const { return bits_.integer; }  // Requires: integer or boolean
  double as_float() const { return bits_.floating; }
  Object* as_object() const { return bits_.object; }
  bool same_as(const Value& other) const;  // Python's `is`

 private:
  explicit Value(Kind kind) : kind_(kind) { bits_.integer = 0; }
  bool has_object() const {
    return kind_ >= Kind::big_integer || kind_ == Kind::undefined;
  }
  void retain() const;
  void release();

  Kind kind_;
  union {
    int64_t integer;
    double floating;
    Object* object;
  } bits_;
};

// `run` is null for the immortal constants of a Program.
struct Object {
  Run* run = nullptr;
  uint32_t refs = 1;
  uint32_t depth = 0;  // of containers below this one: bounds every recursion over values
  size_t charged_bytes = 0;
  Kind kind = Kind::none;
};

// Bytes [begin, end) of a string.
struct Span {
  size_t begin, end;
};

// Text under construction that remembers which parts came from the request: in order, not
// empty, apart from each other.  Such parts may not become control tokens
// (chat_template.h).
struct MarkedText {
  std::string text;
  std::vector<Span> foreign;
  void append(std::string_view piece, bool is_foreign);
  void append(std::string_view piece, const std::vector<Span>& foreign_in_piece);
};
std::vector<Span> spans_within(const std::vector<Span>& spans, size_t begin, size_t end);

struct String : Object {
  std::string text;            // UTF-8
  size_t length = 0;           // in code points
  std::vector<Span> foreign;   // what came from the request
  bool foreign_known = false;  // false: made by an operation that does not track it
  bool markup = false;         // markupsafe.Markup: what |escape and |safe return
  bool is_ascii() const { return length == text.size(); }
};
struct BigInteger : Object {
  BigInt value;
};
struct Sequence : Object {  // list, tuple
  bool is_group = false;    // a tuple of groupby: has .grouper and .list
  std::vector<Value> items;
};
struct Dict : Object {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion
  std::vector<uint32_t> slots;                   // open addressing, entry + 1; when large
};
enum class ViewOf : uint8_t { keys, values, items };
struct DictView : Object {
  Value dict;
  ViewOf what = ViewOf::keys;
};
struct Range : Object {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};
struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;
};

// Requires: a string.  Notes in the Run if any of it came from the request.
const std::string& text_of(const Value& string);
inline const String& string_of(const Value& v) {
  return *static_cast<const String*>(v.as_object());
}
inline const std::vector<Value>& items_of(const Value& v) {
  return static_cast<const Sequence*>(v.as_object())->items;
}
inline const Dict& dict_of(const Value& v) {
  return *static_cast<const Dict*>(v.as_object());
}
inline bool is_markup(const Value& v) {
  return v.is(Kind::string) && string_of(v).markup;
}

// What a render has used so far, and where it is.
class Run {
 public:
  Run(const TemplateLimits& limits, std::string_view name);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  void step(int64_t n = 1) {
    steps_ += n;
    if (steps_ > limits.max_steps) out_of_steps();
  }
  void copying(size_t bytes) { step(static_cast<int64_t>(bytes / 16)); }
  void charge(size_t bytes);  // live bytes go up; Error at the limit
  void discharge(size_t bytes) { live_bytes_ -= bytes; }
  void check_room(size_t bytes) const;  // Error if so many more bytes would not fit
  void check_string(size_t bytes) const;
  void check_stack() const;
  void set_stack_base(const void* base) { stack_base_ = static_cast<const char*>(base); }
  int64_t steps() const { return steps_; }
  size_t live_bytes() const { return live_bytes_; }

  // throw Error "NAME: line N: ..."
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_text(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_text(const std::string& message) const;

  // Whether the operation at hand has read text that came from the request: then what it
  // makes counts as such too, unless it keeps account itself (String::foreign_known).
  bool read_foreign = false;

  // Namespaces live as long as the run: a template can make rings of them.
  void adopt(Value name_space) { namespaces_.push_back(std::move(name_space)); }

  const TemplateLimits& limits;
  std::string_view name;
  int line = 1;

 private:
  [[noreturn]] void out_of_steps() const;
  int64_t steps_ = 0;
  size_t live_bytes_ = 0;
  const char* stack_base_ = nullptr;
  std::vector<Value> namespaces_;
};

Value make_string(Run& run, std::string text, bool markup = false);
Value make_marked_string(Run& run, MarkedText text, bool markup = false);
Value make_foreign_string(Run& run, std::string text);  // all of it from the request
Value make_substring(Run& run, const String& string, size_t begin, size_t end);  // bytes
void append_string(MarkedText& out, const Value& string);
// Marks what an operation made after reading text from the request.
void mark_foreign(Run& run, const Value& result);
Value make_constant_string(std::string text);  // immortal: the caller deletes it
Value make_int(Run& run, BigInt value);        // small again where it fits
Value make_list(Run& run, std::vector<Value> items);
Value make_tuple(Run& run, std::vector<Value> items);
Value make_range(Run& run, int64_t start, int64_t stop, int64_t step);
Value make_view(Run& run, Value dict, ViewOf what);
Value make_namespace(Run& run);
Value make_undefined(Run& run, std::string reason);
Value make_undefined(Run& run, const char* reason);

// Dicts are built once and then never change.
class DictBuilder {
 public:
  explicit DictBuilder(Run& run);
  ~DictBuilder();
  DictBuilder(const DictBuilder&) = delete;
  DictBuilder& operator=(const DictBuilder&) = delete;
  void set(Value key,
           Value value);  // the last of two equal keys wins, in the first's place
  void set(std::string_view key, Value value);
  bool add(const Value& key);  // with none, unless it is there: a set
  Value finish();

 private:
  Run& run_;
  Dict* dict_;
};
// The value of a key, or null.  Error if the key cannot be one (a list).
const Value* dict_find(Run& run, const Dict& dict, const Value& key);
const Value* dict_find(Run& run, const Dict& dict, std::string_view key);

// Registers an object made outside this file (jinja_eval.h), and destroys any.
void charge_object(Run& run, Object& object, Kind kind, size_t bytes);
void destroy_object(Object* object);
// jinja_eval.cc: for the kinds that are declared there.
void destroy_eval_object(Object* object);
uint32_t depth_of(const Value& value);

size_t count_code_points(std::string_view text);
// Byte offset of code point `index`; Requires: index <= length.
size_t byte_offset(const String& string, size_t index);

inline void Value::retain() const {
  if (has_object() && bits_.object->run != nullptr) ++bits_.object->refs;
}
inline void Value::release() {
  if (has_object() && bits_.object->run != nullptr && --bits_.object->refs == 0) {
    destroy_object(bits_.object);
  }
}

}  // namespace ingot::jinja
