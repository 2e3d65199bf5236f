#include "text/jinja_scopes.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace ingot::jinja {
namespace {

enum class Origin : uint8_t { outside, set_here };  // where a scope's name gets its start

// One scope as jinja2.idtracking.Symbols sees it.
struct Symbols {
  const Symbols* parent = nullptr;
  std::map<Symbol, Origin> names;
  std::set<Symbol> stores;

  bool knows(Symbol symbol) const {
    for (const Symbols* s = this; s != nullptr; s = s->parent) {
      if (s->names.contains(symbol)) return true;
    }
    return false;
  }
  void load(Symbol symbol) {
    if (!knows(symbol)) names[symbol] = Origin::outside;
  }
  void store(Symbol symbol) {
    stores.insert(symbol);
    if (names.contains(symbol)) return;
    names[symbol] = knows(symbol) ? Origin::outside : Origin::set_here;
  }
  void parameter(Symbol symbol) {
    stores.insert(symbol);
    names[symbol] = Origin::outside;
  }
  // What holds after an if: set for sure only where all three branches set it.
  void merge(const Symbols (&branches)[3]) {
    std::map<Symbol, int> n_stores;
    for (const Symbols& branch : branches) {
      for (Symbol symbol : branch.stores) {
        if (!stores.contains(symbol)) ++n_stores[symbol];
      }
    }
    for (const Symbols& branch : branches) {
      for (const auto& [symbol, origin] : branch.names) names[symbol] = origin;
      stores.insert(branch.stores.begin(), branch.stores.end());
    }
    for (const auto& [symbol, n] : n_stores) {
      if (n < 3) names[symbol] = Origin::outside;
    }
  }
};

class Analysis {
 public:
  Analysis(Program& program, std::string_view name) : program_(program), name_(name) {}

  void run() {
    Symbols root;
    statements(program_.body, root);
    std::set<Symbol> read_inside;
    inner_scopes(program_.body, root, read_inside);
    program_.hidden = hidden_in(root, read_inside);
  }

 private:
  using Body = std::vector<const Node*>;

  // Every name that an expression reads; chains may be long, so no recursion.
  template <typename Use>
  static void each_name(const Node* expression, Use use) {
    Body open{expression};
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      if (node == nullptr) continue;
      const bool is_name =
          node->kind == NodeKind::name || node->kind == NodeKind::namespace_target;
      if (is_name) use(*node);
      open.insert(open.end(), node->kids.rbegin(), node->kids.rend());
      if (node->extras == nullptr) continue;
      for (const Keyword& keyword : node->extras->keywords) open.push_back(keyword.value);
      open.push_back(node->extras->star);
      open.push_back(node->extras->star_star);
    }
  }
  static void loads(const Node* expression, Symbols& symbols) {
    each_name(expression, [&](const Node& name) { symbols.load(name.symbol); });
  }
  static void stores(const Node* target, Symbols& symbols) {
    each_name(target, [&](const Node& name) {
      if (name.kind == NodeKind::name) {
        symbols.store(name.symbol);
      } else {
        symbols.load(name.symbol);
      }
    });
  }
  static void parameters_of(const Node* target, Symbols& symbols) {
    each_name(target, [&](const Node& name) { symbols.parameter(name.symbol); });
  }

  // ---- one scope: what lies in bodies of other scopes does not count

  void statements(const Body& body, Symbols& symbols) {
    for (const Node* node : body) statement(*node, symbols);
  }
  void statement(const Node& node, Symbols& symbols) {
    switch (node.kind) {
      case NodeKind::print:
        for (const Node* kid : node.kids) loads(kid, symbols);
        return;
      case NodeKind::if_:
        return if_statement(node, symbols);
      case NodeKind::for_:
        return loads(node.kids[1], symbols);
      case NodeKind::set:
        loads(node.kids[1], symbols);
        return stores(node.kids[0], symbols);
      case NodeKind::set_capture:
        return stores(node.kids[0], symbols);
      case NodeKind::macro:
        return symbols.store(node.symbol);
      case NodeKind::call_block:
      case NodeKind::filter_block:
        return loads(node.kids[0], symbols);
      case NodeKind::with:
        for (size_t i = 1; i < node.kids.size(); i += 2) loads(node.kids[i], symbols);
        return;
      default:
        return;
    }
  }
  void if_statement(const Node& node, Symbols& symbols) {
    loads(node.kids[0], symbols);
    pay_for_copies_of(symbols);
    Symbols branches[3] = {symbols, symbols, symbols};  // if, all elifs, else
    statements(node.kids[1]->body, branches[0]);
    for (size_t i = 2; i + 1 < node.kids.size(); i += 2) {
      Symbols& elif = branches[1];
      loads(node.kids[i], elif);
      pay_for_copies_of(elif);
      Symbols inner[3] = {elif, elif, elif};
      statements(node.kids[i + 1]->body, inner[0]);
      elif.merge(inner);
    }
    statements(node.other, branches[2]);
    symbols.merge(branches);
  }

  // ---- the scopes inside

  static std::vector<Symbol> hidden_in(const Symbols& symbols,
                                       const std::set<Symbol>& read_inside) {
    std::vector<Symbol> hidden;
    for (const auto& [symbol, origin] : symbols.names) {
      // Nobody notices unless a scope inside reads the name.
      if (origin == Origin::set_here && read_inside.contains(symbol))
        hidden.push_back(symbol);
    }
    return hidden;
  }

  void inner_scopes(const Body& body, const Symbols& outer, std::set<Symbol>& read) {
    for (const Node* node : body) inner_scope(*node, outer, read);
  }
  void inner_scope(const Node& node, const Symbols& outer, std::set<Symbol>& read) {
    switch (node.kind) {
      case NodeKind::if_:
        for (size_t i = 1; i < node.kids.size(); i += 2) {
          inner_scopes(node.kids[i]->body, outer, read);
        }
        return inner_scopes(node.other, outer, read);
      case NodeKind::for_:
      case NodeKind::set_capture:
      case NodeKind::macro:
      case NodeKind::call_block:
      case NodeKind::generation:
      case NodeKind::filter_block:
      case NodeKind::with:
        break;
      default:
        return;
    }
    Symbols symbols;
    symbols.parent = &outer;
    declare(node, symbols);
    std::vector<Symbol> of_body = scope(node.body, symbols, read);
    std::vector<Symbol> of_other;
    if (node.kind == NodeKind::for_) {
      each_name(node.kids[2], [&](const Node& name) { read.insert(name.symbol); });
      Symbols other;
      other.parent = &outer;
      of_other = scope(node.other, other, read);
    }
    if (of_body.empty() && of_other.empty()) return;
    HiddenNames& hidden = program_.hidden_names.emplace_back();
    hidden.body = std::move(of_body);
    hidden.other = std::move(of_other);
    const_cast<Node&>(node).hidden = &hidden;  // the program is still ours alone
  }
  void declare(const Node& node, Symbols& symbols) const {
    if (node.kind == NodeKind::for_) {
      if (node.uses_loop) symbols.parameter(program_.loop);
      parameters_of(node.kids[0], symbols);
    }
    if (node.kind == NodeKind::with) {
      for (size_t i = 0; i < node.kids.size(); i += 2)
        parameters_of(node.kids[i], symbols);
    }
    if (node.parameters != nullptr) {
      for (Symbol name : node.parameters->names) symbols.parameter(name);
      for (const Node* value : node.parameters->defaults) loads(value, symbols);
    }
  }
  std::vector<Symbol> scope(const Body& body, Symbols& symbols, std::set<Symbol>& read) {
    statements(body, symbols);
    std::set<Symbol> read_inside;
    inner_scopes(body, symbols, read_inside);
    std::vector<Symbol> hidden = hidden_in(symbols, read_inside);
    for (const auto& entry : symbols.names) read.insert(entry.first);
    each_read(body, read);
    read.insert(read_inside.begin(), read_inside.end());
    return hidden;
  }
  // Names that the scope reads though a scope around it knows them.
  static void each_read(const Body& body, std::set<Symbol>& read) {
    for (const Node* node : body) {
      for (const Node* kid : node->kids) {
        if (kid != nullptr && kid->kind == NodeKind::block) {
          each_read(kid->body, read);
        } else {
          each_name(kid, [&](const Node& name) { read.insert(name.symbol); });
        }
      }
      if (node->kind == NodeKind::if_) each_read(node->other, read);
    }
  }

  // A template with thousands of names and of branches would take minutes.
  void pay_for_copies_of(const Symbols& symbols) {
    n_copied_ += symbols.names.size() + 1;
    if (n_copied_ > 300'000) {
      fail("{}: the template has too many variables and branches", name_);
    }
  }

  Program& program_;
  std::string_view name_;
  size_t n_copied_ = 0;
};

}  // namespace

void find_hidden_names(Program& program, std::string_view name) {
  Analysis(program, name).run();
}

}  // namespace ingot::jinja
