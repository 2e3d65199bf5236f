// The heart of byte-pair encoding: symbols joined two by two until no rule applies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer_definition.h"

namespace ingot {

// (left, right) to (rank, result), by open addressing.
class MergeTable {
 public:
  struct Rule {
    int32_t rank;
    int32_t result;
  };
  explicit MergeTable(std::span<const MergeRule> rules);
  const Rule* find(int left, int right) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Rule rule{};
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  std::vector<Slot> slots_;
};

// Joins pairs that have a rule, the lowest rank first and the leftmost on ties, until
// none is left.  Returns how many symbols there are now, at the front. Requires: symbols
// >= 0, and ranks that the table's rules have are >= 0.
size_t merge_symbols(std::span<int> symbols, const MergeTable& merges);

}  // namespace ingot
