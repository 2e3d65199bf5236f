// Runs a Program.  The semantics are Jinja's ImmutableSandboxedEnvironment with
// trim_blocks, lstrip_blocks, loop controls, and the extras of Hugging Face's chat
// templates (raise_exception, strftime_now, tojson, generation).  One Interpreter a
// render.
#pragma once

#include <ctime>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/jinja_ast.h"
#include "text/jinja_iterate.h"

namespace ingot::jinja {

class Interpreter;

// Variables of one loop iteration, macro call or capture; the template's own are not in a
// Scope.  A macro that is defined here keeps its scope until the render ends.
struct Scope {
  Scope* parent = nullptr;  // null: the template's own variables
  bool captured = false;
  std::vector<std::pair<Symbol, Value>> variables;
};

struct Macro : Object {
  const Node* node = nullptr;
  Scope* scope = nullptr;
};

using MethodFunction = Value (*)(Interpreter&, const Value& self, Arguments&);
struct Method : Object {
  Value self;
  MethodFunction function = nullptr;
};

using GlobalFunction = Value (*)(Interpreter&, Arguments&);
struct Function : Object {
  GlobalFunction function = nullptr;
};

struct Loop : Object {
  Iterator source;
  const Node* node = nullptr;
  Scope* scope = nullptr;  // where the condition is evaluated
  Interpreter* interpreter = nullptr;
  std::deque<Value> ahead;  // items fetched early: for nextitem, last and length
  std::optional<int64_t> length;
  Value current, previous, last_changed;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  bool finished = false;
};

struct Cycler : Object {
  std::vector<Value> items;
  size_t position = 0;
};
struct Joiner : Object {
  Value separator;
  bool used = false;
};

// Text on its way out, charged to the run as it grows.
class Output {
 public:
  Output(Run& run, size_t max_bytes) : run_(run), max_bytes_(max_bytes) {}
  ~Output() { run_.discharge(charged_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  void append(std::string_view text, bool is_foreign = false);
  void append(const Value& string);
  MarkedText take() { return std::move(marked_); }

 private:
  Run& run_;
  const size_t max_bytes_;
  void grow(size_t by);
  size_t charged_ = 0;
  MarkedText marked_;
};

enum class Flow : uint8_t { next, break_, continue_ };

class Interpreter {
 public:
  Interpreter(const Program& program, const TemplateLimits& limits, std::string_view name,
              const std::function<std::tm()>& clock);
  ~Interpreter();

  // The variables of `context` whose names are in `trusted` are the model's own (special
  // tokens); all others came with the request.
  MarkedText render(const nlohmann::ordered_json& context,
                    const std::vector<std::string_view>& trusted);

  // For filters, tests and methods.
  Value get_attribute(const Value& object, std::string_view name);  // object.name
  Value get_item(const Value& object, const Value& index);          // object[index]
  Value call(const Value& callee, Arguments& arguments);
  Value apply_filter(std::string_view name, const Value& value, Arguments& arguments);
  bool apply_test(std::string_view name, const Value& value, Arguments& arguments);
  std::tm now() const { return clock_(); }
  bool loop_peek(Loop& loop);  // fetches one item ahead; false at the end

  Run run;  // first: every Value refers to it

 private:
  class InScope;

  // jinja_eval.cc: statements
  Flow execute(const std::vector<const Node*>& body);
  Flow execute(const Node& node);
  Flow execute_if(const Node& node);
  Flow execute_for(const Node& node);
  Flow run_loop(const Node& node, Loop& loop, const Value& loop_value);
  void execute_print(const Node& node);
  void execute_macro(const Node& node);
  void execute_call_block(const Node& node);
  Flow execute_with(const Node& node);
  Flow capture(const Node& node, Value& text);
  void append_text(const Value& text);  // Error unless a string
  Value make_loop(const Node& node, const Value& iterable, int64_t depth0);
  Value make_macro(const Node& node);
  Value loop_call(Loop& loop, Arguments& arguments);
  bool loop_fetch(Loop& loop, Value& item);
  bool loop_next(Loop& loop, Value& item);
  void assign(const Node& target, const Value& value);
  void set(Symbol symbol, Value value);
  void hide(const std::vector<Symbol>& symbols);  // undefined in the scope at hand
  void set_attribute(const Node& target, const Value& value);

  // jinja_expression.cc
  Value evaluate(const Node& node);
  Value evaluate_compound(const Node& node);
  Value evaluate_name(const Node& node);
  Value evaluate_dict(const Node& node);
  Value evaluate_compare(const Node& node);
  Value evaluate_concat(const Node& node);
  Value evaluate_item(const Node& node);
  Value evaluate_call(const Node& node, const Value* caller);
  Value evaluate_filter(const Node& node, const Value* operand);
  std::vector<Value> evaluate_all(const std::vector<const Node*>& nodes, size_t from);
  Arguments evaluate_arguments(const Node& node);
  Value call_method(MethodFunction method, const Value& self, Arguments& arguments);
  Value call_macro(const Macro& macro, Arguments& arguments);
  void bind_macro(const Macro& macro, Arguments& arguments);
  Value look_up(Symbol symbol);
  Value own_attribute(const Value& object, std::string_view name);  // missing: none
  Value loop_attribute(Loop& loop, std::string_view name);
  Value bind_method(const Value& object, std::string_view name);  // missing: none

  friend bool generator_transform(Interpreter&, Generator&, Value&);

  const Program& program_;
  const std::function<std::tm()>& clock_;
  std::vector<Value> root_;  // by symbol
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  Output* out_ = nullptr;
  int macro_depth_ = 0;
};

// Enters a new scope below `parent`, and leaves it.
class Interpreter::InScope {
 public:
  InScope(Interpreter& in, Scope* parent) : in_(in), outer_(in.scope_) { open(parent); }
  ~InScope() {
    close();
    in_.scope_ = outer_;
  }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;
  // The next iteration starts without the last one's variables.
  void renew() {
    Scope* parent = scope_->parent;
    if (!scope_->captured) {
      scope_->variables.clear();
      return;
    }
    close();
    open(parent);
  }

 private:
  void open(Scope* parent) {
    if (in_.free_scopes_.empty()) {
      in_.run.charge(sizeof(Scope) + 64);  // given back with the Interpreter
      in_.free_scopes_.push_back(&in_.scopes_.emplace_back());
    }
    scope_ = in_.free_scopes_.back();
    in_.free_scopes_.pop_back();
    scope_->parent = parent;
    in_.scope_ = scope_;
  }
  void close() {
    if (scope_->captured) return;
    scope_->variables.clear();
    in_.free_scopes_.push_back(scope_);
  }
  Interpreter& in_;
  Scope* outer_;
  Scope* scope_ = nullptr;
};

// The builtins, each table in its own file.
GlobalFunction find_global(std::string_view name);
MethodFunction find_method(const Value& self, std::string_view name);
bool is_unsafe_attribute(const Value& object, std::string_view name);
using FilterFunction = Value (*)(Interpreter&, const Value&, Arguments&);
using TestFunction = bool (*)(Interpreter&, const Value&, Arguments&);
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

enum class Origin : uint8_t { model, request };
Value value_from_json(Run& run, const nlohmann::ordered_json& json, Origin origin);
std::string format_time(const std::tm& time, std::string_view format);

// The parameters of a builtin: by position or by name, missing where not given.
class Bound {
 public:
  struct Signature {
    std::string_view name;
    std::initializer_list<std::string_view> parameters;
    size_t required = 0;
    bool by_name = true;  // Python's str methods mostly take none
  };
  Bound(Run& run, Arguments& arguments, const Signature& signature);
  const Value& operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return !values_[i].is_missing(); }

 private:
  std::vector<Value> values_;
};

}  // namespace ingot::jinja
