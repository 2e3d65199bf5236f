// The part of the parser that reads expressions; statements are jinja_parser.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace ingot::jinja {

// One template, once: a Parser (jinja_parser.cc) takes the program out at the end.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, std::string_view name,
                   const TemplateLimits& limits);

 protected:
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
  bool skip_op(std::string_view op);
  bool skip_word(std::string_view word);
  [[noreturn]] void fail_here(const std::string& message) const;
  std::string describe() const;
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail_here(fmt::format("expected '{}', got {}", op, describe()));
  }
  void expect_word(std::string_view word) {
    if (!skip_word(word))
      fail_here(fmt::format("expected '{}', got {}", word, describe()));
  }
  void expect(TokenKind kind, std::string_view what);
  std::string expect_name();

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
    explicit Nest(ExpressionParser& parser) : parser_(parser) {
      if (++parser.nesting_ > parser.limits_.max_nesting) {
        parser.fail_here(
            fmt::format("nested more than {} deep", parser.limits_.max_nesting));
      }
    }
    ~Nest() { --parser_.nesting_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    ExpressionParser& parser_;
  };

  // Loops and macros have hidden variables only where their bodies name them.
  void note_name(Symbol symbol, bool stored);

  // ---- expressions, loosest first

  struct TupleOptions {
    bool conditions = true;
    std::string_view end = {};
    bool in_parentheses = false;
  };
  bool at_tuple_end(const TupleOptions& options) const;
  const Node* tuple_or_expression(TupleOptions options);
  const Node* expression();
  const Node* or_expression();
  const Node* and_expression();
  const Node* not_expression();
  bool comparison_operator(CompareOp& op);
  const Node* comparison();
  Node* make_binary(BinaryOp op, const Node* left);
  const Node* sum();
  const Node* concatenation();
  const Node* product();
  const Node* power();
  const Node* unary(bool with_filters);
  const Node* primary();
  const Node* name();
  const Node* string();
  const Node* number();
  const Node* parenthesis();
  const Node* list();
  const Node* dict();
  const Node* postfix(const Node* node);
  const Node* filters_and_tests(const Node* node);
  const Node* dotted(const Node* object);
  const Node* subscript(const Node* object);
  const Node* index();
  const Node* call(const Node* callee);
  void arguments(Node* node);
  void argument(Node* node, bool& keywords_began);
  // | a | b(1); `operand` null: the value comes from a block.
  const Node* filter_chain(const Node* operand);
  const Node* filter(const Node* operand);
  std::string dotted_name();
  const Node* test(const Node* operand);
  bool starts_test_argument() const;

  std::string_view name_;
  const TemplateLimits& limits_;
  std::unique_ptr<Program> program_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::vector<Node*> loops_;
  std::vector<Parameters*> macros_;
};

}  // namespace ingot::jinja
