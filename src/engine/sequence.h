// The tokens whose state is in pages: immutable full pages and an append-only open end.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/page_pool.h"

namespace ingot {

// Holds its pages in `pool` and, where the model has recurrent layers, one slot of
// `slots`; both must outlive it.  Room for as many tokens as the pool holds is made at
// the start: nothing is allocated later.  Movable, not copyable.
class Sequence {
 public:
  explicit Sequence(PagePool* pool, PagePool* slots = nullptr);
  ~Sequence();
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  const std::vector<int>& tokens() const { return tokens_; }
  const std::vector<PageId>& pages() const { return pages_; }
  int n_tokens() const { return int(tokens_.size()); }

  // The slot of recurrent state.  Requires: reserved, and slots.
  int slot() const { return int(*slot_); }

  // Room for `count` more tokens; false, and nothing changed, when a pool has too little.
  [[nodiscard]] bool reserve(int count);
  // These tokens' state was written.  Requires: reserved.
  void append(std::span<const int> tokens);
  // Forgets all but the first `count` tokens, and the pages that nothing is left on.
  // Recurrent state reaches back to the start of the page before the last one written;
  // further back it forgets everything.  Returns how many tokens are left: count or 0.
  // Requires: what stays ends in a page that this sequence holds alone, or at a page's
  // end.
  [[nodiscard]] int truncate(int count);
  void check_invariants() const;

 private:
  void release_all();
  PagePool* pool_;
  PagePool* slots_;  // nullptr: no recurrent layers
  std::vector<int> tokens_;
  std::vector<PageId> pages_;
  std::optional<PageId> slot_;
  int oldest_ = 0;  // tokens before this one can't be cut: their recurrent state is gone
};

}  // namespace ingot
