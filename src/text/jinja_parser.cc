#include "text/jinja_parser.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja_expression_parser.h"
#include "text/jinja_scopes.h"

namespace ingot::jinja {

Symbol SymbolTable::intern(std::string_view name) {
  auto [entry, added] =
      symbols_.try_emplace(std::string(name), static_cast<Symbol>(names_.size()));
  if (added) names_.emplace_back(name);
  return entry->second;
}

Symbol SymbolTable::find(std::string_view name) const {
  auto found = symbols_.find(std::string(name));
  return found == symbols_.end() ? -1 : found->second;
}

Program::~Program() {
  for (Node& node : nodes) {
    if (node.value.kind() < Kind::big_integer) continue;
    Object* constant = node.value.as_object();
    node.value = Value();  // lets go of it while it still exists
    destroy_object(constant);
  }
}

namespace {

using Words = std::span<const std::string_view>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  std::unique_ptr<const Program> run() {
    program_->body = statements({});
    find_hidden_names(*program_, name_);
    return std::move(program_);
  }

 private:
  // ---- statements

  std::vector<const Node*> statements(Words end_words) {
    Nest nest(*this);
    std::vector<const Node*> body;
    while (!is(TokenKind::eof)) {
      if (is(TokenKind::data)) {
        Node* text = make(NodeKind::text);
        text->text = now().text;
        body.push_back(text);
        skip();
      } else if (is(TokenKind::variable_begin)) {
        skip();
        Node* print = make(NodeKind::print);
        print->kids.push_back(tuple_or_expression({}));
        expect(TokenKind::variable_end, "'}}'");
        body.push_back(print);
      } else {
        skip();  // block_begin
        if (is(TokenKind::name) && std::find(end_words.begin(), end_words.end(),
                                             now().text) != end_words.end()) {
          return body;
        }
        body.push_back(statement());
        expect(TokenKind::block_end, "'%}'");
      }
    }
    if (!end_words.empty()) {
      fail_here(fmt::format("unexpected end of the template, wanted '{}'", end_words[0]));
    }
    return body;
  }

  // The statements between `%}` and one of the end words, which stays the current token.
  std::vector<const Node*> body_until(Words end_words) {
    skip_op(":");
    expect(TokenKind::block_end, "'%}'");
    return statements(end_words);
  }
  std::vector<const Node*> body_until(std::string_view end_word) {
    std::vector<const Node*> body = body_until(Words(&end_word, 1));
    skip();
    return body;
  }

  const Node* statement() {
    if (!is(TokenKind::name))
      fail_here(fmt::format("expected a tag, got {}", describe()));
    const std::string word = now().text;
    Node* node = make(NodeKind::block);
    skip();
    if (word == "set") return set(node);
    if (word == "if") return if_statement(node);
    if (word == "for") return for_statement(node);
    if (word == "macro") return macro(node);
    if (word == "call") return call_block(node);
    if (word == "filter") return filter_block(node);
    if (word == "with") return with(node);
    if (word == "print") return print(node);
    if (word == "generation") {
      node->kind = NodeKind::generation;
      return in_own_frame(node, "endgeneration");
    }
    if (word == "break" || word == "continue") {
      if (loop_nesting_ == 0) fail_here(fmt::format("'{}' outside a loop", word));
      node->kind = word == "break" ? NodeKind::break_ : NodeKind::continue_;
      return node;
    }
    fail("{}: line {}: unknown tag '{}'", name_, node->line, printable_text(word));
  }

  // A body that is a function of its own: break cannot leave it.
  Node* in_own_frame(Node* node, std::string_view end_word) {
    const int outer = std::exchange(loop_nesting_, 0);
    node->body = body_until(end_word);
    loop_nesting_ = outer;
    return node;
  }

  Node* set(Node* node) {
    const Node* target = assign_target(TargetOf::set);
    if (skip_op("=")) {
      node->kind = NodeKind::set;
      node->kids = {target, tuple_or_expression({})};
      return node;
    }
    node->kind = NodeKind::set_capture;
    const Node* filters = is_op("|") ? filter_chain(nullptr) : nullptr;
    node->kids = {target, filters};
    node->body = body_until("endset");
    return node;
  }

  Node* if_statement(Node* node) {
    static constexpr std::string_view kEnds[] = {"elif", "else", "endif"};
    node->kind = NodeKind::if_;
    while (true) {
      node->kids.push_back(tuple_or_expression({.conditions = false}));
      Node* branch = make(NodeKind::block);
      branch->body = body_until(Words(kEnds));
      node->kids.push_back(branch);
      if (skip_word("elif")) continue;
      if (skip_word("else")) {
        node->other = body_until("endif");
      } else {
        skip();
      }
      return node;
    }
  }

  Node* for_statement(Node* node) {
    static constexpr std::string_view kEnds[] = {"endfor", "else"};
    node->kind = NodeKind::for_;
    const Node* target = assign_target(TargetOf::for_loop);
    expect_word("in");
    const Node* iterable = tuple_or_expression({.conditions = false, .end = "recursive"});
    const Node* condition = skip_word("if") ? expression() : nullptr;
    node->recursive = skip_word("recursive");
    node->kids = {target, iterable, condition};
    loops_.push_back(node);
    ++loop_nesting_;
    node->body = body_until(Words(kEnds));
    --loop_nesting_;
    loops_.pop_back();
    const bool has_else = is_word("else");
    skip();
    if (has_else) node->other = body_until("endfor");
    return node;
  }

  Node* macro(Node* node) {
    node->kind = NodeKind::macro;
    node->text = assignable(expect_name());
    node->symbol = program_->symbols.intern(node->text);
    signature(node);
    return macro_body(node, "endmacro");
  }
  Node* call_block(Node* node) {
    node->kind = NodeKind::call_block;
    node->text = "caller";
    if (is_op("(")) {
      signature(node);
    } else {
      node->parameters = &program_->parameters.emplace_back();
    }
    const Node* call = expression();
    if (call->kind != NodeKind::call) fail_here("expected a call");
    node->kids = {call};
    return macro_body(node, "endcall");
  }
  Node* macro_body(Node* node, std::string_view end_word) {
    macros_.push_back(node->parameters);
    in_own_frame(node, end_word);
    macros_.pop_back();
    return node;
  }
  void signature(Node* node) {
    Parameters& parameters = program_->parameters.emplace_back();
    node->parameters = &parameters;
    expect_op("(");
    while (!is_op(")")) {
      if (!parameters.names.empty()) expect_op(",");
      const Symbol name = program_->symbols.intern(assignable(expect_name()));
      if (std::count(parameters.names.begin(), parameters.names.end(), name) != 0) {
        fail_here("a parameter is named twice");
      }
      if (skip_op("=")) {
        parameters.defaults.push_back(expression());
      } else if (!parameters.defaults.empty()) {
        fail_here("a parameter without a default follows one with a default");
      }
      parameters.names.push_back(name);
    }
    skip();
  }

  Node* filter_block(Node* node) {
    node->kind = NodeKind::filter_block;
    node->kids = {filter_chain(filter(nullptr))};
    node->body = body_until("endfilter");
    return node;
  }

  Node* with(Node* node) {
    node->kind = NodeKind::with;
    while (!is(TokenKind::block_end) && !is(TokenKind::eof)) {
      if (!node->kids.empty()) expect_op(",");
      node->kids.push_back(assign_target(TargetOf::with));
      expect_op("=");
      node->kids.push_back(expression());
    }
    node->body = body_until("endwith");
    return node;
  }

  Node* print(Node* node) {
    node->kind = NodeKind::print;
    while (!is(TokenKind::block_end) && !is(TokenKind::eof)) {
      if (!node->kids.empty()) expect_op(",");
      node->kids.push_back(expression());
    }
    return node;
  }

  // ---- targets

  enum class TargetOf { set, for_loop, with };

  std::string assignable(std::string name) const {
    static constexpr std::string_view kReserved[] = {"true", "false", "none",
                                                     "True", "False", "None"};
    if (std::count(std::begin(kReserved), std::end(kReserved), name) != 0) {
      fail_here(fmt::format("cannot assign to '{}'", name));
    }
    return name;
  }

  const Node* assign_target(TargetOf what) {
    Nest nest(*this);
    Node* first = single_target(what);
    if (!is_op(",")) return first;
    Node* tuple = make(NodeKind::tuple, {first});
    while (skip_op(",")) {
      if (is(TokenKind::block_end) || is_op(")") || is_op("=") ||
          (what == TargetOf::for_loop && is_word("in"))) {
        break;
      }
      tuple->kids.push_back(single_target(what));
    }
    return tuple;
  }
  Node* single_target(TargetOf what) {
    Nest nest(*this);
    if (skip_op("(") || is_op("[")) return nested_target(what);
    Node* target = make(NodeKind::name);
    std::string name = expect_name();
    if (what == TargetOf::set && is_op(".")) {
      skip();
      target->kind = NodeKind::namespace_target;
      target->text = expect_name();
    } else {
      name = assignable(std::move(name));
      if (what == TargetOf::for_loop && name == "loop") {
        fail_here("cannot assign to the special variable 'loop' of a for loop");
      }
    }
    target->symbol = program_->symbols.intern(name);
    note_name(target->symbol, /*stored=*/target->kind == NodeKind::name);
    return target;
  }
  Node* nested_target(TargetOf what) {
    const std::string_view close = skip_op("[") ? "]" : ")";
    Node* tuple = make(NodeKind::tuple);
    bool comma = close == "]";
    while (!is_op(close)) {
      tuple->kids.push_back(single_target(what));
      if (!skip_op(",")) break;
      comma = true;
    }
    expect_op(close);
    if (!comma && tuple->kids.size() == 1) return const_cast<Node*>(tuple->kids[0]);
    return tuple;
  }

  int loop_nesting_ = 0;
};

}  // namespace

std::unique_ptr<const Program> parse(std::string_view source, std::string_view name,
                                     const TemplateLimits& limits) {
  return Parser(source, name, limits).run();
}

}  // namespace ingot::jinja
