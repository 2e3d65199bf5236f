#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot::jinja {

ExpressionParser::ExpressionParser(std::string_view source, std::string_view name,
                                   const TemplateLimits& limits)
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

bool ExpressionParser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  skip();
  return true;
}

bool ExpressionParser::skip_word(std::string_view word) {
  if (!is_word(word)) return false;
  skip();
  return true;
}

void ExpressionParser::fail_here(const std::string& message) const {
  fail("{}: line {}: {}", name_, now().line, message);
}

std::string ExpressionParser::describe() const {
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

void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (!is(kind)) fail_here(fmt::format("expected {}, got {}", what, describe()));
  skip();
}

std::string ExpressionParser::expect_name() {
  if (!is(TokenKind::name)) fail_here(fmt::format("expected a name, got {}", describe()));
  std::string name = now().text;
  skip();
  return name;
}

void ExpressionParser::note_name(Symbol symbol, bool stored) {
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

// ---- Expressions
// -----------------------------------------------------------------------

bool ExpressionParser::at_tuple_end(const TupleOptions& options) const {
  if (is(TokenKind::variable_end) || is(TokenKind::block_end) || is_op(")")) return true;
  return !options.end.empty() && is_word(options.end);
}

const Node* ExpressionParser::tuple_or_expression(TupleOptions options) {
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

const Node* ExpressionParser::expression() {
  Nest nest(*this);
  const Node* value = or_expression();
  while (skip_word("if")) {
    const Node* test = or_expression();
    const Node* other = skip_word("else") ? expression() : nullptr;
    value = make(NodeKind::condition, {test, value, other});
  }
  return value;
}

const Node* ExpressionParser::or_expression() {
  const Node* left = and_expression();
  while (skip_word("or")) left = make(NodeKind::logical_or, {left, and_expression()});
  return left;
}

const Node* ExpressionParser::and_expression() {
  const Node* left = not_expression();
  while (skip_word("and")) left = make(NodeKind::logical_and, {left, not_expression()});
  return left;
}

const Node* ExpressionParser::not_expression() {
  if (!is_word("not")) return comparison();
  Nest nest(*this);
  skip();
  Node* node = make(NodeKind::logical_not);
  node->kids.push_back(not_expression());
  return node;
}

bool ExpressionParser::comparison_operator(CompareOp& op) {
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

const Node* ExpressionParser::comparison() {
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

Node* ExpressionParser::make_binary(BinaryOp op, const Node* left) {
  Node* node = make(NodeKind::binary, {left});
  node->binary_op = op;
  return node;
}

const Node* ExpressionParser::sum() {
  const Node* left = concatenation();
  while (is_op("+") || is_op("-")) {
    Node* node = make_binary(is_op("+") ? BinaryOp::add : BinaryOp::subtract, left);
    skip();
    node->kids.push_back(concatenation());
    left = node;
  }
  return left;
}

const Node* ExpressionParser::concatenation() {
  const Node* first = product();
  if (!is_op("~")) return first;
  Node* node = make(NodeKind::concat, {first});
  while (skip_op("~")) node->kids.push_back(product());
  return node;
}

const Node* ExpressionParser::product() {
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

const Node* ExpressionParser::power() {
  const Node* left = unary(true);
  while (is_op("**")) {
    Node* node = make_binary(BinaryOp::power, left);
    skip();
    node->kids.push_back(unary(true));
    left = node;
  }
  return left;
}

const Node* ExpressionParser::unary(bool with_filters) {
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

const Node* ExpressionParser::primary() {
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

const Node* ExpressionParser::name() {
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

const Node* ExpressionParser::string() {
  Node* node = make(NodeKind::constant);
  std::string text;
  for (; is(TokenKind::string); skip()) text += now().text;
  node->value = make_constant_string(std::move(text));
  return node;
}

const Node* ExpressionParser::number() {
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

const Node* ExpressionParser::parenthesis() {
  skip();
  const Node* node = tuple_or_expression({.in_parentheses = true});
  expect_op(")");
  return node;
}

const Node* ExpressionParser::list() {
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

const Node* ExpressionParser::dict() {
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

const Node* ExpressionParser::postfix(const Node* node) {
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

const Node* ExpressionParser::filters_and_tests(const Node* node) {
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

const Node* ExpressionParser::dotted(const Node* object) {
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

const Node* ExpressionParser::subscript(const Node* object) {
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

const Node* ExpressionParser::index() {
  const Node* first = is_op(":") ? nullptr : expression();
  if (!is_op(":")) return first;
  skip();
  Node* slice = make(NodeKind::slice, {first, nullptr, nullptr});
  auto at_end = [this] { return is_op("]") || is_op(",") || is_op(":"); };
  if (!at_end()) slice->kids[1] = expression();
  if (skip_op(":") && !at_end()) slice->kids[2] = expression();
  return slice;
}

const Node* ExpressionParser::call(const Node* callee) {
  Node* node = make(NodeKind::call, {callee});
  arguments(node);
  return node;
}

void ExpressionParser::arguments(Node* node) {
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

void ExpressionParser::argument(Node* node, bool& keywords_began) {
  const CallExtras* so_far = node->extras;
  const bool starred = so_far != nullptr && (so_far->star || so_far->star_star);
  const bool double_starred = so_far != nullptr && so_far->star_star;
  if (is_op("*") && !starred) {
    skip();
    extras_of(node)->star = expression();
  } else if (is_op("**") && !double_starred) {
    skip();
    extras_of(node)->star_star = expression();
  } else if (is(TokenKind::name) && after().kind == TokenKind::op &&
             after().text == "=" && !double_starred) {
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

const Node* ExpressionParser::filter_chain(const Node* operand) {
  while (skip_op("|")) operand = filter(operand);
  return operand;
}

const Node* ExpressionParser::filter(const Node* operand) {
  Node* node = make(NodeKind::filter, {operand});
  node->text = dotted_name();
  if (is_op("(")) arguments(node);
  return node;
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) name += "." + expect_name();
  return name;
}

const Node* ExpressionParser::test(const Node* operand) {
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

bool ExpressionParser::starts_test_argument() const {
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

}  // namespace ingot::jinja
