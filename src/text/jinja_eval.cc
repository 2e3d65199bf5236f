#include "text/jinja_eval.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "text/jinja_print.h"

namespace ingot::jinja {

void destroy_eval_object(Object* object) {
  switch (object->kind) {
    case Kind::generator:
      delete static_cast<Generator*>(object);
      return;
    case Kind::loop:
      delete static_cast<Loop*>(object);
      return;
    case Kind::macro:
      delete static_cast<Macro*>(object);
      return;
    case Kind::method:
      delete static_cast<Method*>(object);
      return;
    case Kind::function:
      delete static_cast<Function*>(object);
      return;
    case Kind::cycler:
      delete static_cast<Cycler*>(object);
      return;
    case Kind::joiner:
      delete static_cast<Joiner*>(object);
      return;
    default:
      CHECK(false);
  }
}

void Output::grow(size_t by) {
  const size_t size = marked_.text.size() + by;
  if (size > max_bytes_) run_.fail("the output grows past {} bytes", max_bytes_);
  run_.copying(by);
  // A string doubles when it grows: both copies exist for a moment.
  const size_t wanted = size + marked_.foreign.size() * 2 * sizeof(Span);
  if (wanted <= charged_) return;
  const size_t more = std::max(wanted, 2 * marked_.text.capacity()) - charged_;
  run_.charge(more);
  charged_ += more;
}

void Output::append(std::string_view text, bool is_foreign) {
  grow(text.size());
  marked_.append(text, is_foreign);
}

void Output::append(const Value& string) {
  grow(string_of(string).text.size());
  append_string(marked_, string);
}

Interpreter::Interpreter(const Program& program, const TemplateLimits& limits,
                         std::string_view name, const std::function<std::tm()>& clock)
    : run(limits, name),
      program_(program),
      clock_(clock),
      root_(program.symbols.size()) {}

Interpreter::~Interpreter() {
  // Macros and scopes point at each other; values let go of each other here, shallowly.
  for (Scope& scope : scopes_) {
    auto variables = std::move(scope.variables);
    variables.clear();
  }
}

MarkedText Interpreter::render(const nlohmann::ordered_json& context,
                               const std::vector<std::string_view>& trusted) {
  run.set_stack_base(__builtin_frame_address(0));
  if (!context.is_object()) run.fail("the variables of a template must be a JSON object");
  for (const auto& [name, value] : context.items()) {
    const Symbol symbol = program_.symbols.find(name);
    if (symbol < 0) continue;
    const bool is_own = std::find(trusted.begin(), trusted.end(), name) != trusted.end();
    root_[static_cast<size_t>(symbol)] =
        value_from_json(run, value, is_own ? Origin::model : Origin::request);
  }
  hide(program_.hidden);
  Output output(run, run.limits.max_output_bytes);
  out_ = &output;
  execute(program_.body);
  return output.take();
}

// ---- Statements ---------------------------------------------------------------------

Flow Interpreter::execute(const std::vector<const Node*>& body) {
  run.check_stack();
  for (const Node* node : body) {
    const Flow flow = execute(*node);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Flow Interpreter::execute(const Node& node) {
  run.step();
  run.line = node.line;
  switch (node.kind) {
    case NodeKind::text:
      out_->append(node.text);
      return Flow::next;
    case NodeKind::print:
      execute_print(node);
      return Flow::next;
    case NodeKind::block:
      return execute(node.body);
    case NodeKind::if_:
      return execute_if(node);
    case NodeKind::for_:
      return execute_for(node);
    case NodeKind::set:
      assign(*node.kids[0], evaluate(*node.kids[1]));
      return Flow::next;
    case NodeKind::set_capture: {
      Value text;
      if (Flow flow = capture(node, text); flow != Flow::next) return flow;
      if (node.kids[1] != nullptr) text = evaluate_filter(*node.kids[1], &text);
      assign(*node.kids[0], text);
      return Flow::next;
    }
    case NodeKind::macro:
      execute_macro(node);
      return Flow::next;
    case NodeKind::call_block:
      execute_call_block(node);
      return Flow::next;
    case NodeKind::generation: {
      InScope scope(*this, scope_);
      if (node.hidden != nullptr) hide(node.hidden->body);
      execute(node.body);
      return Flow::next;
    }
    case NodeKind::filter_block: {
      Value text;
      if (Flow flow = capture(node, text); flow != Flow::next) return flow;
      append_text(evaluate_filter(*node.kids[0], &text));
      return Flow::next;
    }
    case NodeKind::with:
      return execute_with(node);
    case NodeKind::break_:
      return Flow::break_;
    case NodeKind::continue_:
      return Flow::continue_;
    default:
      CHECK(false);
  }
}

void Interpreter::execute_print(const Node& node) {
  for (const Node* kid : node.kids) {
    const Value value = evaluate(*kid);
    if (value.is(Kind::string)) {
      out_->append(value);
    } else {
      run.read_foreign = false;
      const std::string text = str_of(run, value);
      out_->append(text, run.read_foreign);
    }
  }
}

void Interpreter::append_text(const Value& text) {
  if (!text.is(Kind::string)) run.fail("expected a string here, not {}", type_name(text));
  out_->append(text);
}

Flow Interpreter::execute_if(const Node& node) {
  for (size_t i = 0; i + 1 < node.kids.size(); i += 2) {
    if (truthy(evaluate(*node.kids[i]))) return execute(node.kids[i + 1]->body);
  }
  return execute(node.other);
}

// What the body prints, as a string; not set when `break` leaves it.
Flow Interpreter::capture(const Node& node, Value& text) {
  InScope scope(*this, scope_);
  if (node.hidden != nullptr) hide(node.hidden->body);
  Output output(run, run.limits.max_string_bytes);
  Output* outer = std::exchange(out_, &output);
  const Flow flow = execute(node.body);
  out_ = outer;
  if (flow == Flow::next) text = make_marked_string(run, output.take());
  return flow;
}

Flow Interpreter::execute_with(const Node& node) {
  std::vector<Value> values;  // evaluated outside the new scope
  for (size_t i = 1; i < node.kids.size(); i += 2)
    values.push_back(evaluate(*node.kids[i]));
  InScope scope(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) assign(*node.kids[2 * i], values[i]);
  if (node.hidden != nullptr) hide(node.hidden->body);
  return execute(node.body);
}

Value Interpreter::make_macro(const Node& node) {
  for (Scope* s = scope_; s != nullptr && !s->captured; s = s->parent) s->captured = true;
  auto* macro = new Macro;
  macro->node = &node;
  macro->scope = scope_;
  charge_object(run, *macro, Kind::macro, sizeof(Macro));
  return Value::object(Kind::macro, macro);
}

void Interpreter::execute_macro(const Node& node) { set(node.symbol, make_macro(node)); }

void Interpreter::execute_call_block(const Node& node) {
  const Value caller = make_macro(node);
  append_text(evaluate_call(*node.kids[0], &caller));
}

// ---- Assignment ---------------------------------------------------------------------

void Interpreter::set(Symbol symbol, Value value) {
  if (scope_ == nullptr) {
    root_[static_cast<size_t>(symbol)] = std::move(value);
    return;
  }
  for (auto& [name, old] : scope_->variables) {
    if (name != symbol) continue;
    old = std::move(value);
    return;
  }
  scope_->variables.emplace_back(symbol, std::move(value));
}

void Interpreter::hide(const std::vector<Symbol>& symbols) {
  for (Symbol symbol : symbols) {
    set(symbol, make_undefined(run, fmt::format("'{}' is undefined",
                                                program_.symbols.name(symbol))));
  }
}

void Interpreter::set_attribute(const Node& target, const Value& value) {
  const Value object = look_up(target.symbol);
  if (!object.is(Kind::name_space))
    run.fail("cannot assign attribute on non-namespace object");
  auto& attributes = static_cast<Namespace*>(object.as_object())->attributes;
  for (auto& [name, old] : attributes) {
    if (name != target.text) continue;
    old = value;
    return;
  }
  run.charge(64 + target.text.size());
  object.as_object()->charged_bytes += 64 + target.text.size();
  attributes.emplace_back(target.text, value);
}

void Interpreter::assign(const Node& target, const Value& value) {
  if (target.kind == NodeKind::name) return set(target.symbol, value);
  if (target.kind == NodeKind::namespace_target) return set_attribute(target, value);
  if (value.is_missing() || !is_iterable(value)) {
    run.fail("cannot unpack non-iterable {} object", type_name(value));
  }
  const std::vector<Value> items = collect(run, value);
  if (items.size() != target.kids.size()) {
    run.fail("cannot unpack {} values into {} names", items.size(), target.kids.size());
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.kids[i], items[i]);
}

// ---- Loops --------------------------------------------------------------------------

Value Interpreter::make_loop(const Node& node, const Value& iterable, int64_t depth0) {
  auto* loop = new Loop;
  loop->node = &node;
  loop->scope = scope_;
  loop->interpreter = this;
  loop->depth0 = depth0;
  charge_object(run, *loop, Kind::loop, sizeof(Loop) + 512);
  Value value = Value::object(Kind::loop, loop);
  loop->source = Iterator(run, iterable);
  if (node.kids[2] == nullptr && has_length(iterable))
    loop->length = length_of(run, iterable);
  return value;
}

Flow Interpreter::execute_for(const Node& node) {
  Value loop = make_loop(node, evaluate(*node.kids[1]), 0);
  return run_loop(node, *static_cast<Loop*>(loop.as_object()), loop);
}

namespace {

// A template can keep `loop` beyond its loop.  It is emptied then, so that no chain of
// them can be built whose destruction would recurse without bound.
class FinishLoop {
 public:
  explicit FinishLoop(Loop& loop) : loop_(loop) {}
  ~FinishLoop() {
    loop_.finished = true;
    const Iterator source = std::exchange(loop_.source, Iterator());
    const std::deque<Value> ahead = std::exchange(loop_.ahead, {});
    const Value values[] = {std::move(loop_.current), std::move(loop_.previous),
                            std::move(loop_.last_changed)};
  }
  FinishLoop(const FinishLoop&) = delete;
  FinishLoop& operator=(const FinishLoop&) = delete;

 private:
  Loop& loop_;
};

}  // namespace

Flow Interpreter::run_loop(const Node& node, Loop& loop, const Value& loop_value) {
  bool completed = false;  // Jinja's `else` runs also when each round ends in continue
  {
    FinishLoop finish(loop);
    Value item;
    InScope scope(*this, scope_);
    for (bool first = true; loop_next(loop, item); first = false) {
      if (!first) scope.renew();
      if (node.hidden != nullptr) hide(node.hidden->body);
      if (node.uses_loop) set(program_.loop, loop_value);
      assign(*node.kids[0], item);
      const Flow flow = execute(node.body);
      if (flow == Flow::break_) break;
      completed |= flow == Flow::next;
    }
  }
  if (completed || node.other.empty()) return Flow::next;
  InScope scope(*this, scope_);
  if (node.hidden != nullptr) hide(node.hidden->other);
  return execute(node.other);
}

// The next item that the loop's condition keeps.
bool Interpreter::loop_fetch(Loop& loop, Value& item) {
  const Node* condition = loop.node->kids[2];
  while (!loop.finished && loop.source.next(item)) {
    if (condition == nullptr) return true;
    InScope scope(*this, loop.scope);
    assign(*loop.node->kids[0], item);
    if (!truthy(evaluate(*condition))) continue;
    // Jinja's filter function unpacks the item and packs it again.
    if (loop.node->kids[0]->kind == NodeKind::tuple)
      item = make_tuple(run, collect(run, item));
    return true;
  }
  return false;
}

bool Interpreter::loop_next(Loop& loop, Value& item) {
  if (!loop.ahead.empty()) {
    item = std::move(loop.ahead.front());
    loop.ahead.pop_front();
  } else if (!loop_fetch(loop, item)) {
    return false;
  }
  ++loop.index0;
  if (loop.node->uses_loop) {
    loop.previous = std::move(loop.current);
    loop.current = item;
  }
  return true;
}

bool Interpreter::loop_peek(Loop& loop) {
  if (!loop.ahead.empty()) return true;
  Value item;
  if (!loop_fetch(loop, item)) return false;
  loop.ahead.push_back(std::move(item));
  return true;
}

int64_t loop_length(Run& run, const Value& value) {
  Loop& loop = *static_cast<Loop*>(value.as_object());
  if (!loop.length) {
    // A filtered loop or a generator: fetch all that is left to know.
    std::vector<Value> rest;
    std::deque<Value> ahead = std::move(loop.ahead);
    loop.ahead.clear();
    while (loop.interpreter->loop_peek(loop)) {
      run.charge(sizeof(Value));
      loop.charged_bytes += sizeof(Value);
      ahead.push_back(std::move(loop.ahead.front()));
      loop.ahead.clear();
    }
    loop.ahead = std::move(ahead);
    loop.length = loop.index0 + 1 + static_cast<int64_t>(loop.ahead.size());
  }
  return *loop.length;
}

Value Interpreter::loop_call(Loop& loop, Arguments& arguments) {
  if (!loop.node->recursive)
    run.fail("the loop must have the 'recursive' marker to be called");
  Bound bound(run, arguments,
              {.name = "loop", .parameters = {"iterable"}, .required = 1});
  if (++macro_depth_ > run.limits.max_macro_depth) {
    run.fail("loops call themselves more than {} deep", run.limits.max_macro_depth);
  }
  Output output(run, run.limits.max_string_bytes);
  Output* outer = std::exchange(out_, &output);
  Scope* outer_scope = std::exchange(scope_, loop.scope);
  Value inner = make_loop(*loop.node, bound[0], loop.depth0 + 1);
  run_loop(*loop.node, *static_cast<Loop*>(inner.as_object()), inner);
  scope_ = outer_scope;
  out_ = outer;
  --macro_depth_;
  return make_marked_string(run, output.take());
}

}  // namespace ingot::jinja
