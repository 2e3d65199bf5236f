// Expressions, names, attributes and calls of jinja_eval.h.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_print.h"

namespace ingot::jinja {

Value Interpreter::evaluate(const Node& node) {
  run.step();
  if (node.kind == NodeKind::constant) return node.value;
  if (node.kind == NodeKind::name) return look_up(node.symbol);
  run.check_stack();
  return evaluate_compound(node);
}

Value Interpreter::evaluate_compound(const Node& node) {
  switch (node.kind) {
    case NodeKind::attribute:
      return get_attribute(evaluate(*node.kids[0]), node.text);
    case NodeKind::item:
      return evaluate_item(node);
    case NodeKind::call:
      return evaluate_call(node, nullptr);
    case NodeKind::filter:
      return evaluate_filter(node, nullptr);
    case NodeKind::test: {
      const Value operand = evaluate(*node.kids[0]);
      Arguments arguments = evaluate_arguments(node);
      run.line = node.line;
      return Value::boolean(apply_test(node.text, operand, arguments));
    }
    case NodeKind::binary: {
      const Value left = evaluate(*node.kids[0]);
      const Value right = evaluate(*node.kids[1]);
      run.read_foreign = false;
      Value result = binary(run, node.binary_op, left, right);
      if (run.read_foreign) mark_foreign(run, result);
      return result;
    }
    case NodeKind::compare:
      return evaluate_compare(node);
    case NodeKind::logical_and: {
      Value left = evaluate(*node.kids[0]);
      return truthy(left) ? evaluate(*node.kids[1]) : left;
    }
    case NodeKind::logical_or: {
      Value left = evaluate(*node.kids[0]);
      return truthy(left) ? left : evaluate(*node.kids[1]);
    }
    case NodeKind::logical_not:
      return Value::boolean(!truthy(evaluate(*node.kids[0])));
    case NodeKind::condition:
      if (truthy(evaluate(*node.kids[0]))) return evaluate(*node.kids[1]);
      if (node.kids[2] != nullptr) return evaluate(*node.kids[2]);
      return make_undefined(run, "the inline if-expression was false and has no else");
    case NodeKind::concat:
      return evaluate_concat(node);
    case NodeKind::negative:
      return negate(run, evaluate(*node.kids[0]));
    case NodeKind::positive:
      return plus(run, evaluate(*node.kids[0]));
    case NodeKind::list:
      return make_list(run, evaluate_all(node.kids, 0));
    case NodeKind::tuple:
      return make_tuple(run, evaluate_all(node.kids, 0));
    case NodeKind::dict:
      return evaluate_dict(node);
    case NodeKind::slice:
      run.fail("a slice among several indices is not supported");
    default:
      CHECK(false);
  }
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<const Node*>& nodes,
                                             size_t from) {
  std::vector<Value> values;
  values.reserve(nodes.size() - from);
  for (size_t i = from; i < nodes.size(); ++i) values.push_back(evaluate(*nodes[i]));
  return values;
}

Value Interpreter::evaluate_dict(const Node& node) {
  DictBuilder dict(run);
  for (size_t i = 0; i + 1 < node.kids.size(); i += 2) {
    Value key = evaluate(*node.kids[i]);
    dict.set(std::move(key), evaluate(*node.kids[i + 1]));
  }
  return dict.finish();
}

Value Interpreter::evaluate_compare(const Node& node) {
  Value left = evaluate(*node.kids[0]);
  for (size_t i = 0; i < node.compare_ops.size(); ++i) {
    Value right = evaluate(*node.kids[i + 1]);
    if (!compare(run, node.compare_ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Node& node) {
  std::vector<Value> parts = evaluate_all(node.kids, 0);
  MarkedText text;
  for (Value& part : parts) {
    if (!part.is(Kind::string)) {
      run.read_foreign = false;
      part = make_string(run, str_of(run, part));
      if (run.read_foreign) mark_foreign(run, part);
    }
    run.check_string(text.text.size() + string_of(part).text.size());
    run.check_room(2 * (text.text.size() + string_of(part).text.size()));
    append_string(text, part);
  }
  return make_marked_string(run, std::move(text));
}

// ---- Names --------------------------------------------------------------------------

Value Interpreter::look_up(Symbol symbol) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    run.step(static_cast<int64_t>(scope->variables.size() / 16));
    for (const auto& [name, value] : scope->variables) {
      if (name == symbol) return value;
    }
  }
  const Value& value = root_[static_cast<size_t>(symbol)];
  if (!value.is_missing()) return value;
  const std::string& name = program_.symbols.name(symbol);
  if (GlobalFunction global = find_global(name)) {
    auto* function = new Function;
    function->function = global;
    charge_object(run, *function, Kind::function, sizeof(Function));
    return Value::object(Kind::function, function);
  }
  return make_undefined(run, fmt::format("'{}' is undefined", name));
}

// ---- Attributes and items -----------------------------------------------------------

namespace {

std::string_view object_name(const Value& object) {
  return object.is(Kind::none) ? "None" : type_name(object);
}

Value unsafe(Run& run, const Value& object, std::string_view name) {
  return make_undefined(
      run, fmt::format("access to attribute '{}' of '{}' object is unsafe", name,
                       object_name(object)));
}

// What even Python's Undefined has, and the sandbox hides.
bool has_every_object(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__class__", "__init__",    "__doc__",  "__module__", "__str__",   "__repr__",
      "__eq__",    "__ne__",      "__hash__", "__len__",    "__iter__",  "__bool__",
      "__call__",  "__getattr__", "__new__",  "__dir__",    "__slots__", "__setattr__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Names that Python's objects really have; any other underscore name is just absent.
bool is_dunder(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

}  // namespace

Value Interpreter::bind_method(const Value& object, std::string_view name) {
  MethodFunction function = find_method(object, name);
  if (function == nullptr) return {};
  auto* method = new Method;
  method->self = object;
  method->depth = depth_of(object) + 1;
  method->function = function;
  charge_object(run, *method, Kind::method, sizeof(Method));
  return Value::object(Kind::method, method);
}

Value Interpreter::own_attribute(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::name_space: {
      const auto& names = *static_cast<const Namespace*>(object.as_object());
      run.step(static_cast<int64_t>(names.attributes.size() / 8));
      for (const auto& [key, value] : names.attributes) {
        if (key == name) return value;
      }
      return {};
    }
    case Kind::loop:
      return loop_attribute(*static_cast<Loop*>(object.as_object()), name);
    case Kind::macro:
      if (name == "name") {
        return make_string(run,
                           static_cast<const Macro*>(object.as_object())->node->text);
      }
      break;
    case Kind::tuple: {
      const auto& tuple = *static_cast<const Sequence*>(object.as_object());
      if (tuple.is_group && name == "grouper") return tuple.items[0];
      if (tuple.is_group && name == "list") return tuple.items[1];
      break;
    }
    case Kind::cycler:
      if (name == "current") {
        const auto& cycler = *static_cast<const Cycler*>(object.as_object());
        return cycler.items[cycler.position];
      }
      break;
    case Kind::range: {
      const auto& range = *static_cast<const Range*>(object.as_object());
      if (name == "start") return Value::integer(range.start);
      if (name == "stop") return Value::integer(range.stop);
      if (name == "step") return Value::integer(range.step);
      break;
    }
    default:
      break;
  }
  return bind_method(object, name);
}

Value Interpreter::get_attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) {
    if (has_every_object(name)) return unsafe(run, object, name);
    fail_undefined(run, object);
  }
  Value own = own_attribute(object, name);
  const bool hidden = name.starts_with('_') && (is_dunder(name) || !own.is_missing());
  if (hidden || is_unsafe_attribute(object, name)) return unsafe(run, object, name);
  if (!own.is_missing()) return own;
  if (object.is(Kind::dict)) {
    if (const Value* found = dict_find(run, dict_of(object), name)) return *found;
  }
  return make_undefined(
      run, fmt::format("'{} object' has no attribute '{}'", object_name(object), name));
}

Value Interpreter::get_item(const Value& object, const Value& index) {
  if (object.is_undefined()) fail_undefined(run, object);
  Value item = item_at(run, object, index);
  if (!item.is_missing()) return item;
  if (!index.is(Kind::string)) {
    return make_undefined(
        run, fmt::format("'{} object' has no such element", object_name(object)));
  }
  const std::string& name = text_of(index);
  Value own = own_attribute(object, name);
  const bool hidden = name.starts_with('_') && (is_dunder(name) || !own.is_missing());
  if (hidden || is_unsafe_attribute(object, name)) return unsafe(run, object, name);
  if (!own.is_missing()) return own;
  return make_undefined(run, fmt::format("'{} object' has no attribute '{}'",
                                         object_name(object), name.substr(0, 200)));
}

Value Interpreter::evaluate_item(const Node& node) {
  const Value object = evaluate(*node.kids[0]);
  const Node& index = *node.kids[1];
  if (index.kind != NodeKind::slice) return get_item(object, evaluate(index));
  SliceBounds bounds;
  if (index.kids[0] != nullptr) bounds.start = evaluate(*index.kids[0]);
  if (index.kids[1] != nullptr) bounds.stop = evaluate(*index.kids[1]);
  if (index.kids[2] != nullptr) bounds.step = evaluate(*index.kids[2]);
  return slice(run, object, bounds);
}

namespace {

Value loop_cycle(Interpreter& in, const Value& self, Arguments& arguments) {
  const auto& loop = *static_cast<const Loop*>(self.as_object());
  if (arguments.positional.empty()) in.run.fail("no items for cycling given");
  const auto n = static_cast<int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<size_t>(std::max<int64_t>(loop.index0, 0) % n)];
}

Value loop_changed(Interpreter& in, const Value& self, Arguments& arguments) {
  auto& loop = *static_cast<Loop*>(self.as_object());
  Value now = make_tuple(in.run, arguments.positional);
  if (!loop.last_changed.is_missing() && equal(in.run, loop.last_changed, now)) {
    return Value::boolean(false);
  }
  if (!loop.finished) loop.last_changed = std::move(now);
  return Value::boolean(true);
}

Value make_method(Run& run, const Value& self, MethodFunction function) {
  auto* method = new Method;
  method->self = self;
  method->function = function;
  charge_object(run, *method, Kind::method, sizeof(Method));
  return Value::object(Kind::method, method);
}

}  // namespace

Value Interpreter::loop_attribute(Loop& loop, std::string_view name) {
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(!loop_peek(loop));
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") {
    if (loop.index0 > 0) return loop.previous;
    return make_undefined(run, "there is no previous item");
  }
  if (name == "nextitem") {
    if (loop_peek(loop)) return loop.ahead.front();
    return make_undefined(run, "there is no next item");
  }
  ++loop.refs;  // for the Value below
  const Value self = Value::object(Kind::loop, &loop);
  if (name == "length") return Value::integer(loop_length(run, self));
  if (name == "revindex") return Value::integer(loop_length(run, self) - loop.index0);
  if (name == "revindex0")
    return Value::integer(loop_length(run, self) - loop.index0 - 1);
  if (name == "cycle") return make_method(run, self, loop_cycle);
  if (name == "changed") return make_method(run, self, loop_changed);
  return {};
}

// ---- Calls --------------------------------------------------------------------------

Arguments Interpreter::evaluate_arguments(const Node& node) {
  Arguments arguments{evaluate_all(node.kids, 1), {}};
  if (node.extras == nullptr) return arguments;
  for (const Keyword& keyword : node.extras->keywords) {
    arguments.keyword.emplace_back(keyword.name, evaluate(*keyword.value));
  }
  if (node.extras->star != nullptr) {
    for (Value& value : collect(run, evaluate(*node.extras->star))) {
      arguments.positional.push_back(std::move(value));
    }
  }
  if (node.extras->star_star != nullptr) {
    const Value mapping = evaluate(*node.extras->star_star);
    if (!mapping.is(Kind::dict)) run.fail("argument after ** must be a mapping");
    for (const auto& [key, value] : dict_of(mapping).entries) {
      if (!key.is(Kind::string)) run.fail("keywords must be strings");
      for (const auto& other : arguments.keyword) {
        if (other.first == text_of(key)) run.fail("keyword '{}' repeated", other.first);
      }
      run.step(static_cast<int64_t>(arguments.keyword.size()));
      arguments.keyword.emplace_back(text_of(key), value);
    }
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Node& node, const Value* caller) {
  const Node& callee = *node.kids[0];
  // object.method(...) needs no bound method between the two steps.
  if (callee.kind == NodeKind::attribute) {
    const Value object = evaluate(*callee.kids[0]);
    if (!object.is(Kind::loop) && !object.is(Kind::name_space)) {
      if (MethodFunction method = find_method(object, callee.text)) {
        Arguments arguments = evaluate_arguments(node);
        if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
        run.line = node.line;
        return call_method(method, object, arguments);
      }
    }
    const Value function = get_attribute(object, callee.text);
    Arguments arguments = evaluate_arguments(node);
    if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
    run.line = node.line;
    return call(function, arguments);
  }
  const Value function = evaluate(callee);
  Arguments arguments = evaluate_arguments(node);
  if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
  run.line = node.line;
  return call(function, arguments);
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  run.step(static_cast<int64_t>(arguments.positional.size() + arguments.keyword.size()));
  switch (callee.kind()) {
    case Kind::undefined:
      fail_undefined(run, callee);
    case Kind::macro:
      return call_macro(*static_cast<const Macro*>(callee.as_object()), arguments);
    case Kind::function:
      return static_cast<const Function*>(callee.as_object())->function(*this, arguments);
    case Kind::method: {
      const auto& method = *static_cast<const Method*>(callee.as_object());
      return call_method(method.function, method.self, arguments);
    }
    case Kind::loop:
      return loop_call(*static_cast<Loop*>(callee.as_object()), arguments);
    case Kind::joiner: {
      auto& joiner = *static_cast<Joiner*>(callee.as_object());
      if (std::exchange(joiner.used, true)) return joiner.separator;
      return make_string(run, "");
    }
    default:
      run.fail("'{}' object is not callable", type_name(callee));
  }
}

namespace {

// Takes the keyword argument out, or missing.
Value take_keyword(Arguments& arguments, std::string_view name) {
  for (auto it = arguments.keyword.begin(); it != arguments.keyword.end(); ++it) {
    if (it->first != name) continue;
    Value value = std::move(it->second);
    arguments.keyword.erase(it);
    return value;
  }
  return {};
}

}  // namespace

// Sets the parameters in the current scope, as jinja2.runtime.Macro does.
void Interpreter::bind_macro(const Macro& macro, Arguments& arguments) {
  const Parameters& parameters = *macro.node->parameters;
  const size_t n = parameters.names.size();
  const size_t n_given = std::min(n, arguments.positional.size());
  bool found_caller = false;
  std::vector<Value> values(
      arguments.positional.begin(),
      arguments.positional.begin() + static_cast<ptrdiff_t>(n_given));
  for (size_t i = 0; i < n; ++i) {
    const std::string& name = program_.symbols.name(parameters.names[i]);
    found_caller |= parameters.names[i] == program_.caller;
    if (i >= n_given) values.push_back(take_keyword(arguments, name));
  }
  if (parameters.uses_caller && !found_caller) {
    Value caller = take_keyword(arguments, "caller");
    set(program_.caller,
        caller.is_missing() ? make_undefined(run, "no caller defined") : caller);
  }
  if (parameters.uses_kwargs) {
    DictBuilder rest(run);
    for (auto& [key, value] : arguments.keyword) rest.set(key, std::move(value));
    set(program_.kwargs, rest.finish());
  } else if (!arguments.keyword.empty()) {
    run.fail("macro '{}' takes no keyword argument '{}'", macro.node->text,
             arguments.keyword[0].first);
  }
  if (parameters.uses_varargs) {
    set(program_.varargs,
        make_tuple(run, {arguments.positional.begin() + static_cast<ptrdiff_t>(n_given),
                         arguments.positional.end()}));
  } else if (arguments.positional.size() > n) {
    run.fail("macro '{}' takes not more than {} argument(s)", macro.node->text, n);
  }
  const size_t first_default = n - parameters.defaults.size();
  for (size_t i = 0; i < n; ++i) {
    const Symbol symbol = parameters.names[i];
    if (values[i].is_missing()) {
      values[i] = i >= first_default
                      ? evaluate(*parameters.defaults[i - first_default])
                      : make_undefined(run, fmt::format("parameter '{}' was not provided",
                                                        program_.symbols.name(symbol)));
    }
    set(symbol, std::move(values[i]));
  }
}

Value Interpreter::call_macro(const Macro& macro, Arguments& arguments) {
  if (++macro_depth_ > run.limits.max_macro_depth) {
    run.fail("macros call each other more than {} deep", run.limits.max_macro_depth);
  }
  // The caller's variables are out of sight; those around the definition are not.
  Scope* outer_scope = scope_;
  Value text;
  {
    InScope scope(*this, macro.scope);
    bind_macro(macro, arguments);
    capture(*macro.node, text);
  }
  scope_ = outer_scope;
  --macro_depth_;
  return text;
}

Value Interpreter::evaluate_filter(const Node& node, const Value* operand) {
  // `operand` is what a block captured: it stands where the chain has no first value.
  const Value value = node.kids[0] == nullptr ? *operand
                      : node.kids[0]->kind == NodeKind::filter && operand != nullptr
                          ? evaluate_filter(*node.kids[0], operand)
                          : evaluate(*node.kids[0]);
  Arguments arguments = evaluate_arguments(node);
  run.line = node.line;
  return apply_filter(node.text, value, arguments);
}

Value Interpreter::apply_filter(std::string_view name, const Value& value,
                                Arguments& arguments) {
  FilterFunction filter = find_filter(name);
  if (filter == nullptr) run.fail("no filter named '{}'", name);
  run.step(4);
  const bool outer = std::exchange(run.read_foreign, false);
  Value result = filter(*this, value, arguments);
  if (run.read_foreign) mark_foreign(run, result);
  run.read_foreign |= outer;
  return result;
}

Value Interpreter::call_method(MethodFunction method, const Value& self,
                               Arguments& arguments) {
  const bool outer = std::exchange(run.read_foreign, false);
  Value result = method(*this, self, arguments);
  if (run.read_foreign) mark_foreign(run, result);
  run.read_foreign |= outer;
  return result;
}

bool Interpreter::apply_test(std::string_view name, const Value& value,
                             Arguments& arguments) {
  TestFunction test = find_test(name);
  if (test == nullptr) run.fail("no test named '{}'", name);
  return test(*this, value, arguments);
}

}  // namespace ingot::jinja
