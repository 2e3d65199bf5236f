// A parsed template.  Nodes live in one deque, so that no tree, however deep, is
// destroyed by recursion; they point at each other and never change after parsing.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja_ops.h"

namespace ingot::jinja {

using Symbol = int;  // an interned variable name

enum class NodeKind : uint8_t {
  // Expressions, and what lies in `kids`:
  constant,     // value
  name,         // symbol
  list,         // items
  tuple,        // items
  dict,         // key, value, key, value, ...
  condition,    // test, then, else or null
  logical_and,  // left, right
  logical_or,
  logical_not,  // operand
  compare,      // first, then one for each of `compare_ops`
  binary,       // left, right; binary_op
  concat,       // parts
  negative,     // operand
  positive,
  attribute,  // object; text: the name
  item,       // object, index
  slice,      // start, stop, step, each may be null; only as an item's index
  call,       // callee, then positional arguments; `keywords`, `star`, `star_star`
  filter,     // operand or null, then arguments; text: the name
  test,       // operand, then arguments; text: the name
  // Statements:
  text,          // text: template text as written
  print,         // expressions
  block,         // body
  if_,           // test, block, test, block, ...; `other`: else
  for_,          // target, iterable, condition or null; body; other: else
  set,           // target, value
  set_capture,   // target, filter or null; body
  macro,         // symbol; parameters; body
  call_block,    // call; parameters; body
  generation,    // body
  filter_block,  // filter; body
  with,          // target, value, target, value, ...; body
  break_,
  continue_,
  namespace_target,  // symbol, text: the attribute (only as an assignment's target)
};

struct Node;

struct Keyword {
  std::string name;
  const Node* value;
};

struct Parameters {
  std::vector<Symbol> names;
  std::vector<const Node*> defaults;  // of the last ones
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

// What calls, filters and tests have beyond positional arguments.
struct CallExtras {
  std::vector<Keyword> keywords;
  const Node* star = nullptr;
  const Node* star_star = nullptr;
};

// Names that are undefined at a scope's start (jinja_scopes.h).
struct HiddenNames {
  std::vector<Symbol> body;
  std::vector<Symbol> other;
};

struct Node {
  NodeKind kind;
  BinaryOp binary_op = BinaryOp::add;
  bool recursive = false;  // for
  bool uses_loop = false;  // for: the body says `loop`
  int line = 0;
  Symbol symbol = -1;
  Value value;
  std::string text;
  std::vector<const Node*> kids;
  std::vector<const Node*> body;
  std::vector<const Node*> other;
  std::vector<CompareOp> compare_ops;
  CallExtras* extras = nullptr;  // null where there is none
  const HiddenNames* hidden = nullptr;
  Parameters* parameters = nullptr;
};

class SymbolTable {
 public:
  Symbol intern(std::string_view name);
  Symbol find(std::string_view name) const;  // -1 if no part of the template says it
  const std::string& name(Symbol symbol) const {
    return names_[static_cast<size_t>(symbol)];
  }
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string, Symbol> symbols_;
  std::vector<std::string> names_;
};

struct Program {
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  std::deque<Node> nodes;
  std::deque<CallExtras> extras;
  std::deque<Parameters> parameters;
  std::deque<HiddenNames> hidden_names;
  std::vector<Symbol> hidden;  // at the template's own level
  std::vector<const Node*> body;
  SymbolTable symbols;
  Symbol loop, caller, varargs, kwargs;
};

}  // namespace ingot::jinja
