#include "text/vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"

namespace ingot {
namespace {

uint32_t hash_of(std::string_view text) {
  return uint32_t(XXH3_64bits(text.data(), text.size()));
}

}  // namespace

void Vocabulary::reserve(size_t n_tokens, size_t n_bytes) {
  letters_.reserve(n_bytes);
  entries_.reserve(n_tokens);
  if (n_tokens * 2 > slots_.size()) grow(std::bit_ceil(n_tokens * 2));
}

size_t Vocabulary::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id >= 0 &&
         (slots_[at].hash != hash || text_of(entries_[size_t(slots_[at].id)]) != text))
    at = (at + 1) & mask;
  return at;
}

void Vocabulary::grow(size_t n_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(n_slots));
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t at = slot.hash & (n_slots - 1);
    while (slots_[at].id >= 0) at = (at + 1) & (n_slots - 1);
    slots_[at] = slot;
  }
}

bool Vocabulary::add(std::string_view text, int id) {
  CHECK(id >= 0 && id <= kMaxTokenId);
  if (size_t(id) >= entries_.size()) entries_.resize(size_t(id) + 1);
  if (entries_[size_t(id)].length != kHole) return false;
  if ((n_used_ + 1) * 2 > slots_.size()) grow(std::bit_ceil((n_used_ + 8) * 2));
  entries_[size_t(id)] = {uint32_t(letters_.size()), uint32_t(text.size())};
  letters_ += text;
  CHECK(letters_.size() < kHole);
  const uint32_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.id < 0) ++n_used_;
  slot = {hash, id};
  return true;
}

std::optional<int> Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const int id = slots_[slot_of(text, hash_of(text))].id;
  if (id < 0) return std::nullopt;
  return id;
}

void Vocabulary::find_each(std::span<const std::string_view> texts,
                           std::span<int> ids) const {
  CHECK(ids.size() == texts.size());
  constexpr size_t kInStep = 32;
  if (slots_.empty()) {
    std::ranges::fill(ids, -1);
    return;
  }
  const size_t mask = slots_.size() - 1;
  std::array<uint32_t, kInStep> hashes{};
  for (size_t begin = 0; begin < texts.size(); begin += kInStep) {
    const auto some = texts.subspan(begin, std::min(kInStep, texts.size() - begin));
    const auto found = ids.subspan(begin, some.size());
    for (size_t i = 0; i < some.size(); ++i) {
      hashes[i] = hash_of(some[i]);
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (size_t i = 0; i < some.size(); ++i) {  // the first slot with this hash
      size_t at = hashes[i] & mask;
      while (slots_[at].id >= 0 && slots_[at].hash != hashes[i]) at = (at + 1) & mask;
      found[i] = slots_[at].id;
      if (found[i] >= 0) __builtin_prefetch(&entries_[size_t(found[i])]);
    }
    for (const int id : found) {
      if (id >= 0) __builtin_prefetch(letters_.data() + entries_[size_t(id)].begin);
    }
    for (size_t i = 0; i < some.size(); ++i) {
      if (found[i] >= 0 && text_of(entries_[size_t(found[i])]) != some[i])
        found[i] = slots_[slot_of(some[i], hashes[i])].id;
    }
  }
}

std::optional<std::string_view> Vocabulary::text(int id) const {
  if (id < 0 || id >= size() || entries_[size_t(id)].length == kHole) return std::nullopt;
  return text_of(entries_[size_t(id)]);
}

}  // namespace ingot
