#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ops/ops.h"

namespace ingot {
namespace {

int pages_for(int n_tokens) {
  return n_tokens / kPageTokens + (n_tokens % kPageTokens == 0 ? 0 : 1);
}

}  // namespace

Sequence::Sequence(PagePool* pool, PagePool* slots) : pool_(pool), slots_(slots) {
  tokens_.reserve(size_t(pool->n_pages()) * size_t(kPageTokens));
  pages_.reserve(size_t(pool->n_pages()));
}

Sequence::~Sequence() { release_all(); }

Sequence::Sequence(Sequence&& other) noexcept : pool_(other.pool_), slots_(other.slots_) {
  *this = std::move(other);
}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this == &other) return *this;
  release_all();
  pool_ = other.pool_;
  slots_ = other.slots_;
  tokens_ = std::exchange(other.tokens_, {});
  pages_ = std::exchange(other.pages_, {});
  slot_ = std::exchange(other.slot_, {});
  oldest_ = std::exchange(other.oldest_, 0);
  return *this;
}

void Sequence::release_all() {
  for (const PageId page : pages_) pool_->release(page);
  if (slot_) slots_->release(*slot_);
  slot_.reset();
  pages_.clear();
  tokens_.clear();
  oldest_ = 0;
}

bool Sequence::reserve(int count) {
  const int wanted = pages_for(n_tokens() + count) - int(pages_.size());
  if (wanted > pool_->n_free()) return false;
  if (slots_ != nullptr && !slot_) {
    slot_ = slots_->take();
    if (!slot_) return false;
  }
  for (int i = 0; i < wanted; ++i) pages_.push_back(*pool_->take());
  return true;
}

void Sequence::append(std::span<const int> tokens) {
  CHECK(pages_for(n_tokens() + int(tokens.size())) <= int(pages_.size()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  // A full page's last row has written the next page's start over the page before.
  if (slots_ != nullptr)
    oldest_ = std::max(oldest_, (n_tokens() / kPageTokens - 1) * kPageTokens);
}

int Sequence::truncate(int count) {
  CHECK(count >= 0 && count <= n_tokens());
  if (count < oldest_) {
    release_all();
    return 0;
  }
  tokens_.resize(size_t(count));
  while (int(pages_.size()) > pages_for(count)) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
  if (count % kPageTokens != 0) CHECK(pool_->refs(pages_.back()) == 1);
  return count;
}

void Sequence::check_invariants() const {
  CHECK(int(pages_.size()) >= pages_for(n_tokens()));
  for (const PageId page : pages_) CHECK(pool_->refs(page) > 0);
}

}  // namespace ingot
