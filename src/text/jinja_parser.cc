#include "text/jinja_parser.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja_lexer.h"

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

class Parser {
 public:
  Parser(std::string_view source, std::string_view name, const TemplateLimits& limits)
      : name_(name), limits_(limits), program_(std::make_unique<Program>()) {
    if (source.size() > limits.max_source_bytes) {
      fail("{}: the chat template has {} bytes, the limit is {}", name, source.size(),
           limits.max_source_bytes);
    }
    if (!is_valid_utf8(source)) fail("{}: the chat template is not UTF-8", name);
    tokens_ = tokenize(source, name);
    program_->loop = program_->symbols.intern("loop");
    program_->caller = program_->symbols.intern("caller");
    program_->varargs = program_->symbols.intern("varargs");
    program_->kwargs = program_->symbols.intern("kwargs");
  }

  std::unique_ptr<const Program> run() {
    program_->body = statements({});
    return std::move(program_);
  }

 private:
  // ---- tokens

  const Token& now() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void skip() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::op) && now().text == op; }
  bool is_word(std::string_view word) const {
    return is(TokenKind::name) && now().text == word;
  }
  bool skip_op(std::string_view op) {
    if (!is_op(op)) return false;
    skip();
    return true;
  }
  bool skip_word(std::string_view word) {
    if (!is_word(word)) return false;
    skip();
    return true;
  }
  [[noreturn]] void fail_here(const std::string& message) const {
    fail("{}: line {}: {}", name_, now().line, message);
  }
  std::string describe() const {
    switch (now().kind) {
      case TokenKind::eof:
        return "the end of the template";
      case TokenKind::data:
        return "template text";
      case TokenKind::variable_begin:
        return "'{{'";
      case TokenKind::variable_end:
        return "'}}'";
      case TokenKind::block_begin:
        return "'{%'";
      case TokenKind::block_end:
        return "'%}'";
      default:
        return "'" + printable_text(now().text.substr(0, 60)) + "'";
    }
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail_here(fmt::format("expected '{}', got {}", op, describe()));
  }
  void expect_word(std::string_view word) {
    if (!skip_word(word)) fail_here(fmt::format("expected '{}', got {}", word, describe()));
  }
  void expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) fail_here(fmt::format("expected {}, got {}", what, describe()));
    skip();
  }
  std::string expect_name() {
    if (!is(TokenKind::name)) fail_here(fmt::format("expected a name, got {}", describe()));
    std::string name = now().text;
    skip();
    return name;
  }

  // ---- nodes

  Node* make(NodeKind kind, std::vector<const Node*> kids = {}) {
    Node& node = program_->nodes.emplace_back();
    node.kind = kind;
    node.line = now().line;
    node.kids = std::move(kids);
    return &node;
  }
  CallExtras* extras_of(Node* node) {
    if (node->extras == nullptr) node->extras = &program_->extras.emplace_back();
    return node->extras;
  }

  // Every recursion passes here: brackets, statements, not, -, else.
  class Nest {
   public:
    explicit Nest(Parser& parser) : parser_(parser) {
      if (++parser.nesting_ > parser.limits_.max_nesting) {
        parser.fail_here(
            fmt::format("nested more than {} deep", parser.limits_.max_nesting));
      }
    }
    ~Nest() { --parser_.nesting_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Parser& parser_;
  };

  // ---- statements (jinja_parser.cc, first half)

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
        if (is(TokenKind::name) &&
            std::find(end_words.begin(), end_words.end(), now().text) != end_words.end()) {
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
    if (!is(TokenKind::name)) fail_here(fmt::format("expected a tag, got {}", describe()));
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
    static constexpr std::string_view kReserved[] = {"true",  "false", "none",
                                                     "True",  "False", "None"};
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

  // Loops and macros have hidden variables only where their bodies name them.
  void note_name(Symbol symbol, bool stored) {
    if (stored) return;
    if (symbol == program_->loop) {
      for (Node* loop : loops_) loop->uses_loop = true;
    }
    for (Parameters* macro : macros_) {
      macro->uses_varargs |= symbol == program_->varargs;
      macro->uses_kwargs |= symbol == program_->kwargs;
      macro->uses_caller |= symbol == program_->caller;
    }
  }

  // ---- expressions

  struct TupleOptions {
    bool conditions = true;
    std::string_view end = {};
    bool in_parentheses = false;
  };

  bool at_tuple_end(const TupleOptions& options) const {
    if (is(TokenKind::variable_end) || is(TokenKind::block_end) || is_op(")")) return true;
    return !options.end.empty() && is_word(options.end);
  }

  const Node* tuple_or_expression(TupleOptions options) {
    Nest nest(*this);
    std::vector<const Node*> items;
    bool is_tuple = false;
    while (true) {
      if (!items.empty()) expect_op(",");
      if (at_tuple_end(options)) break;
      items.push_back(options.conditions ? expression() : or_expression());
      if (!is_op(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!items.empty()) return items[0];
      if (!options.in_parentheses) {
        fail_here(fmt::format("expected an expression, got {}", describe()));
      }
    }
    return make(NodeKind::tuple, std::move(items));
  }

  const Node* expression() {
    Nest nest(*this);
    const Node* value = or_expression();
    while (skip_word("if")) {
      const Node* test = or_expression();
      const Node* other = skip_word("else") ? expression() : nullptr;
      value = make(NodeKind::condition, {test, value, other});
    }
    return value;
  }
  const Node* or_expression() {
    const Node* left = and_expression();
    while (skip_word("or")) left = make(NodeKind::logical_or, {left, and_expression()});
    return left;
  }
  const Node* and_expression() {
    const Node* left = not_expression();
    while (skip_word("and")) left = make(NodeKind::logical_and, {left, not_expression()});
    return left;
  }
  const Node* not_expression() {
    if (!is_word("not")) return comparison();
    Nest nest(*this);
    skip();
    Node* node = make(NodeKind::logical_not);
    node->kids.push_back(not_expression());
    return node;
  }

  bool comparison_operator(CompareOp& op) {
    static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
        {"==", CompareOp::eq}, {"!=", CompareOp::ne}, {"<", CompareOp::lt},
        {"<=", CompareOp::le}, {">", CompareOp::gt},  {">=", CompareOp::ge}};
    for (const auto& [text, value] : kOps) {
      if (!skip_op(text)) continue;
      op = value;
      return true;
    }
    if (skip_word("in")) {
      op = CompareOp::in;
      return true;
    }
    if (is_word("not") && after().kind == TokenKind::name && after().text == "in") {
      skip();
      skip();
      op = CompareOp::not_in;
      return true;
    }
    return false;
  }
  const Node* comparison() {
    const Node* first = sum();
    CompareOp op;
    if (!comparison_operator(op)) return first;
    Node* node = make(NodeKind::compare, {first});
    do {
      node->compare_ops.push_back(op);
      node->kids.push_back(sum());
    } while (comparison_operator(op));
    return node;
  }

  Node* make_binary(BinaryOp op, const Node* left) {
    Node* node = make(NodeKind::binary, {left});
    node->binary_op = op;
    return node;
  }
  const Node* sum() {
    const Node* left = concatenation();
    while (is_op("+") || is_op("-")) {
      Node* node = make_binary(is_op("+") ? BinaryOp::add : BinaryOp::subtract, left);
      skip();
      node->kids.push_back(concatenation());
      left = node;
    }
    return left;
  }
  const Node* concatenation() {
    const Node* first = product();
    if (!is_op("~")) return first;
    Node* node = make(NodeKind::concat, {first});
    while (skip_op("~")) node->kids.push_back(product());
    return node;
  }
  const Node* product() {
    const Node* left = power();
    while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
      const std::string& op = now().text;
      Node* node = make_binary(op == "*"    ? BinaryOp::multiply
                               : op == "/"  ? BinaryOp::divide
                               : op == "//" ? BinaryOp::floor_divide
                                            : BinaryOp::modulo,
                               left);
      skip();
      node->kids.push_back(power());
      left = node;
    }
    return left;
  }
  const Node* power() {
    const Node* left = unary(true);
    while (is_op("**")) {
      Node* node = make_binary(BinaryOp::power, left);
      skip();
      node->kids.push_back(unary(true));
      left = node;
    }
    return left;
  }

  const Node* unary(bool with_filters) {
    const Node* node = nullptr;
    if (is_op("-") || is_op("+")) {
      Nest nest(*this);
      Node* sign = make(is_op("-") ? NodeKind::negative : NodeKind::positive);
      skip();
      sign->kids.push_back(unary(false));
      node = sign;
    } else {
      node = primary();
    }
    node = postfix(node);
    return with_filters ? filters_and_tests(node) : node;
  }

  const Node* primary() {
    switch (now().kind) {
      case TokenKind::name:
        return name();
      case TokenKind::string:
        return string();
      case TokenKind::integer:
      case TokenKind::floating:
        return number();
      case TokenKind::op:
        if (is_op("(")) return parenthesis();
        if (is_op("[")) return list();
        if (is_op("{")) return dict();
        break;
      default:
        break;
    }
    fail_here(fmt::format("unexpected {}", describe()));
  }
  const Node* name() {
    const std::string& text = now().text;
    Node* node = make(NodeKind::constant);
    if (text == "true" || text == "True") {
      node->value = Value::boolean(true);
    } else if (text == "false" || text == "False") {
      node->value = Value::boolean(false);
    } else if (text == "none" || text == "None") {
      node->value = Value::none();
    } else {
      node->kind = NodeKind::name;
      node->symbol = program_->symbols.intern(text);
      note_name(node->symbol, /*stored=*/false);
    }
    skip();
    return node;
  }
  const Node* string() {
    Node* node = make(NodeKind::constant);
    std::string text;
    for (; is(TokenKind::string); skip()) text += now().text;
    node->value = make_constant_string(std::move(text));
    return node;
  }
  const Node* number() {
    Node* node = make(NodeKind::constant);
    const std::string& text = now().text;
    if (is(TokenKind::floating)) {
      node->value = Value::floating(std::strtod(text.c_str(), nullptr));
    } else {
      if (text.size() > 4300) fail_here("an integer of more than 4300 digits");
      const char mark = text.size() > 2 ? static_cast<char>(text[1] | 0x20) : '\0';
      const unsigned base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      BigInt value = BigInt::parse(std::string_view(text).substr(base == 10 ? 0 : 2), base);
      if (value.fits_int64()) {
        node->value = Value::integer(value.to_int64());
      } else {
        auto* big = new BigInteger;
        big->kind = Kind::big_integer;
        big->value = std::move(value);
        node->value = Value::object(Kind::big_integer, big);
      }
    }
    skip();
    return node;
  }
  const Node* parenthesis() {
    skip();
    const Node* node = tuple_or_expression({.in_parentheses = true});
    expect_op(")");
    return node;
  }
  const Node* list() {
    Nest nest(*this);
    Node* node = make(NodeKind::list);
    skip();
    while (!is_op("]")) {
      if (!node->kids.empty()) expect_op(",");
      if (is_op("]")) break;
      node->kids.push_back(expression());
    }
    skip();
    return node;
  }
  const Node* dict() {
    Nest nest(*this);
    Node* node = make(NodeKind::dict);
    skip();
    while (!is_op("}")) {
      if (!node->kids.empty()) expect_op(",");
      if (is_op("}")) break;
      node->kids.push_back(expression());
      expect_op(":");
      node->kids.push_back(expression());
    }
    skip();
    return node;
  }

  const Node* postfix(const Node* node) {
    while (true) {
      if (is_op(".")) {
        node = dotted(node);
      } else if (is_op("[")) {
        node = subscript(node);
      } else if (is_op("(")) {
        node = call(node);
      } else {
        return node;
      }
    }
  }
  const Node* filters_and_tests(const Node* node) {
    while (true) {
      if (is_op("|")) {
        node = filter_chain(node);
      } else if (is_word("is")) {
        node = test(node);
      } else if (is_op("(")) {
        node = call(node);
      } else {
        return node;
      }
    }
  }

  const Node* dotted(const Node* object) {
    skip();
    Node* node = make(NodeKind::attribute, {object});
    if (is(TokenKind::name)) {
      node->text = now().text;
      skip();
      return node;
    }
    if (!is(TokenKind::integer)) fail_here("expected a name or a number after '.'");
    node->kind = NodeKind::item;
    node->kids.push_back(number());
    return node;
  }
  const Node* subscript(const Node* object) {
    Nest nest(*this);
    Node* node = make(NodeKind::item, {object});
    skip();
    std::vector<const Node*> indices;
    while (!is_op("]")) {
      if (!indices.empty()) expect_op(",");
      indices.push_back(index());
    }
    skip();
    node->kids.push_back(indices.size() == 1 ? indices[0]
                                             : make(NodeKind::tuple, std::move(indices)));
    return node;
  }
  const Node* index() {
    const Node* first = is_op(":") ? nullptr : expression();
    if (!is_op(":")) return first;
    skip();
    Node* slice = make(NodeKind::slice, {first, nullptr, nullptr});
    auto at_end = [this] { return is_op("]") || is_op(",") || is_op(":"); };
    if (!at_end()) slice->kids[1] = expression();
    if (skip_op(":") && !at_end()) slice->kids[2] = expression();
    return slice;
  }

  const Node* call(const Node* callee) {
    Node* node = make(NodeKind::call, {callee});
    arguments(node);
    return node;
  }
  void arguments(Node* node) {
    Nest nest(*this);
    bool comma = false;
    bool keywords_began = false;
    expect_op("(");
    while (!is_op(")")) {
      if (std::exchange(comma, true)) {
        expect_op(",");
        if (is_op(")")) break;
      }
      argument(node, keywords_began);
    }
    skip();
  }
  void argument(Node* node, bool& keywords_began) {
    const CallExtras* so_far = node->extras;
    const bool starred = so_far != nullptr && (so_far->star || so_far->star_star);
    const bool double_starred = so_far != nullptr && so_far->star_star;
    if (is_op("*") && !starred) {
      skip();
      extras_of(node)->star = expression();
    } else if (is_op("**") && !double_starred) {
      skip();
      extras_of(node)->star_star = expression();
    } else if (is(TokenKind::name) && after().kind == TokenKind::op && after().text == "=" &&
               !double_starred) {
      keywords_began = true;
      std::string key = expect_name();
      skip();
      const Node* value = expression();
      for (const Keyword& other : extras_of(node)->keywords) {
        if (other.name == key) fail_here(fmt::format("keyword '{}' repeated", key));
      }
      extras_of(node)->keywords.push_back({std::move(key), value});
    } else {
      if (starred || keywords_began) fail_here("invalid syntax for a call's arguments");
      node->kids.push_back(expression());
    }
  }

  // | a | b(1); `operand` null: the value comes from a block.
  const Node* filter_chain(const Node* operand) {
    while (skip_op("|")) operand = filter(operand);
    return operand;
  }
  const Node* filter(const Node* operand) {
    Node* node = make(NodeKind::filter, {operand});
    node->text = dotted_name();
    if (is_op("(")) arguments(node);
    return node;
  }
  std::string dotted_name() {
    std::string name = expect_name();
    while (skip_op(".")) name += "." + expect_name();
    return name;
  }

  const Node* test(const Node* operand) {
    skip();
    const bool negated = skip_word("not");
    Node* node = make(NodeKind::test, {operand});
    node->text = dotted_name();
    if (is_op("(")) {
      arguments(node);
    } else if (starts_test_argument()) {
      if (is_word("is")) fail_here("tests cannot be chained with 'is'");
      Nest nest(*this);
      node->kids.push_back(postfix(primary()));
    }
    return negated ? make(NodeKind::logical_not, {node}) : node;
  }
  bool starts_test_argument() const {
    switch (now().kind) {
      case TokenKind::name:
        return !is_word("else") && !is_word("or") && !is_word("and");
      case TokenKind::string:
      case TokenKind::integer:
      case TokenKind::floating:
        return true;
      default:
        return is_op("[") || is_op("{");
    }
  }

  std::string_view name_;
  const TemplateLimits& limits_;
  std::unique_ptr<Program> program_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loop_nesting_ = 0;
  std::vector<Node*> loops_;
  std::vector<Parameters*> macros_;
};

}  // namespace

std::unique_ptr<const Program> parse(std::string_view source, std::string_view name,
                                     const TemplateLimits& limits) {
  return Parser(source, name, limits).run();
}

}  // namespace ingot::jinja
