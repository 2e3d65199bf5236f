#include "engine/sequence.h"

#include <utility>

#include "base/check.h"
#include "ops/ops.h"

namespace ingot {
namespace {

int pages_for(int n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

Sequence::~Sequence() { release_all(); }

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(other.pool_),
      tokens_(std::move(other.tokens_)),
      pages_(std::move(other.pages_)) {
  other.tokens_.clear();
  other.pages_.clear();
}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this == &other) return *this;
  release_all();
  pool_ = other.pool_;
  tokens_ = std::exchange(other.tokens_, {});
  pages_ = std::exchange(other.pages_, {});
  return *this;
}

void Sequence::release_all() {
  for (const PageId page : pages_) pool_->release(page);
  pages_.clear();
  tokens_.clear();
}

bool Sequence::reserve(int count) {
  const int wanted = pages_for(n_tokens() + count) - int(pages_.size());
  if (wanted > pool_->n_free()) return false;
  for (int i = 0; i < wanted; ++i) pages_.push_back(*pool_->take());
  return true;
}

void Sequence::append(std::span<const int> tokens) {
  CHECK(pages_for(n_tokens() + int(tokens.size())) <= int(pages_.size()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void Sequence::truncate(int count) {
  CHECK(count >= 0 && count <= n_tokens());
  tokens_.resize(size_t(count));
  while (int(pages_.size()) > pages_for(count)) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
  if (count % kPageTokens != 0) CHECK(pool_->refs(pages_.back()) == 1);
}

void Sequence::check_invariants() const {
  CHECK(int(pages_.size()) >= pages_for(n_tokens()));
  for (const PageId page : pages_) CHECK(pool_->refs(page) > 0);
}

}  // namespace ingot
