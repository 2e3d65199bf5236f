// The tokens whose state is in pages: immutable full pages and an append-only open end.
#pragma once

#include <span>
#include <vector>

#include "engine/page_pool.h"

namespace ingot {

// Holds its pages in `pool`, which must outlive it.  Movable, not copyable.

class Sequence {
 public:
  explicit Sequence(PagePool* pool) : pool_(pool) {}
  ~Sequence();
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  const std::vector<int>& tokens() const { return tokens_; }
  const std::vector<PageId>& pages() const { return pages_; }
  int n_tokens() const { return int(tokens_.size()); }

  // Room for `count` more tokens; false, and nothing changed, when the pool has too few
  // pages.
  [[nodiscard]] bool reserve(int count);
  // These tokens' state was written.  Requires: reserved.
  void append(std::span<const int> tokens);
  // Forgets all but the first `count` tokens, and the pages that nothing is left on.
  // Requires: what stays ends in a page that this sequence holds alone, or at a page's
  // end.
  void truncate(int count);
  void check_invariants() const;

 private:
  void release_all();
  PagePool* pool_;
  std::vector<int> tokens_;
  std::vector<PageId> pages_;
};

}  // namespace ingot
