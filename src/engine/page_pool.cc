#include "engine/page_pool.h"

#include "base/check.h"

namespace ingot {

PagePool::PagePool(int n_pages) : refs_(size_t(n_pages), 0) {
  free_.reserve(size_t(n_pages));
  for (int page = n_pages - 1; page >= 0; --page) free_.push_back(PageId(page));
}

std::optional<PageId> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  refs_[size_t(page)] = 1;
  return page;
}

void PagePool::retain(PageId page) {
  CHECK(refs_[size_t(page)] > 0);
  ++refs_[size_t(page)];
}

void PagePool::release(PageId page) {
  CHECK(refs_[size_t(page)] > 0);
  if (--refs_[size_t(page)] == 0) free_.push_back(page);
}

void PagePool::check_invariants() const {
  std::vector<bool> on_list(refs_.size(), false);
  for (const PageId page : free_) {
    CHECK(!on_list[size_t(page)]);
    on_list[size_t(page)] = true;
  }
  for (size_t i = 0; i < refs_.size(); ++i) {
    CHECK(refs_[i] >= 0);
    CHECK(on_list[i] == (refs_[i] == 0));
  }
}

}  // namespace ingot
