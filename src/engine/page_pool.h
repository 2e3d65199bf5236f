// A fixed set of state pages, shared by reference count.  A page is free (refs == 0, on
// the free list) or held (refs > 0).  Only a sequence's open page is written, and it has
// one holder; a full page never changes.  One thread only: no locks.
#pragma once

#include <optional>
#include <vector>

namespace ingot {

enum class PageId : int {};

class PagePool {
 public:
  explicit PagePool(int n_pages);
  std::optional<PageId> take();  // refs == 1; nothing when every page is held
  void retain(PageId page);      // Requires: page is held.
  void release(PageId page);     // Requires: page is held.  Frees it at refs == 0.
  int n_free() const { return int(free_.size()); }
  int n_pages() const { return int(refs_.size()); }
  int refs(PageId page) const { return refs_[size_t(page)]; }
  void check_invariants() const;

 private:
  std::vector<int> refs_;
  std::vector<PageId> free_;  // taken from the back, lowest page first at the start
};

}  // namespace ingot
