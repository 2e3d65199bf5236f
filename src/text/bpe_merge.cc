#include "text/bpe_merge.h"

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "base/check.h"

namespace ingot {
namespace {

// Up to this many symbols, looking at every pair again beats keeping a queue.
constexpr size_t kShortSpan = 48;

uint64_t pair_key(int left, int right) {
  return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
}

size_t scatter(uint64_t key) {
  return size_t((key ^ key >> 29) * 0x9e3779b97f4a7c15u >> 20);
}

size_t merge_short(std::span<int> symbols, const MergeTable& merges) {
  constexpr int kNoRule = INT_MAX;
  std::array<int, kShortSpan> ranks;  // of the pair that begins at each symbol
  std::array<int, kShortSpan> results;
  const auto look_up = [&](size_t i) {
    const MergeTable::Rule* rule = merges.find(symbols[i], symbols[i + 1]);
    ranks[i] = rule == nullptr ? kNoRule : rule->rank;
    results[i] = rule == nullptr ? 0 : rule->result;
  };
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    const auto end = ranks.begin() + std::ptrdiff_t(n - 1);
    int lowest = kNoRule;
    for (auto at = ranks.begin(); at != end; ++at) lowest = std::min(lowest, *at);
    if (lowest == kNoRule) break;
    const auto best = size_t(std::find(ranks.begin(), end, lowest) - ranks.begin());
    symbols[best] = results[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];  // the last one read is stale, and never used
      results[i] = results[i + 1];
    }
    --n;
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  return n;
}

struct Candidate {
  int32_t rank;
  int32_t position;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};
template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

// Candidates, the least first.  A heap of all of them would take n log n steps all over
// the memory.  Here each rank has a list of its own, and since merging goes from left to
// right within a rank, lists fill in order: long runs of few ranks cost a step each.
class MergeQueue {
 public:
  void push(const Candidate& candidate) {
    const int32_t index = list_of(candidate.rank);
    List& list = lists_[size_t(index)];
    if (list.positions.empty()) {
      ranks_.push({candidate.rank, index});
    } else if (const int32_t last = list.positions.back(); candidate.position <= last) {
      if (candidate.position == last) return;
      if (list.n_taken > 0) return late_.push(candidate);
      list.sorted = false;
    }
    list.positions.push_back(candidate.position);
  }

  std::optional<Candidate> pop() {
    if (ranks_.empty() && late_.empty()) return std::nullopt;
    if (ranks_.empty()) return take_late();
    const auto [rank, index] = ranks_.top();
    List& list = lists_[size_t(index)];
    if (!list.sorted) {
      std::ranges::sort(list.positions);
      list.sorted = true;
    }
    const Candidate first{rank, list.positions[list.n_taken]};
    if (!late_.empty() && first > late_.top()) return take_late();
    if (++list.n_taken == list.positions.size()) {
      list.positions.clear();
      list.n_taken = 0;
      ranks_.pop();
    }
    return first;
  }

 private:
  struct List {
    std::vector<int32_t> positions;
    size_t n_taken = 0;
    bool sorted = true;
  };
  struct RankedList {
    int32_t rank;
    int32_t list;
    bool operator>(const RankedList& other) const { return rank > other.rank; }
  };
  static constexpr int32_t kFree = -1;

  std::optional<Candidate> take_late() {
    const Candidate first = late_.top();
    late_.pop();
    return first;
  }

  int32_t list_of(int32_t rank) {
    if (lists_.size() * 2 >= slots_.size()) grow();
    RankedList& slot = slots_[slot_of(rank)];
    if (slot.rank == kFree) {
      slot = {rank, int32_t(lists_.size())};
      lists_.emplace_back();
    }
    return slot.list;
  }
  size_t slot_of(int32_t rank) const {
    const size_t mask = slots_.size() - 1;
    size_t at = scatter(uint64_t(rank)) & mask;
    while (slots_[at].rank != kFree && slots_[at].rank != rank) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    const size_t n = std::max<size_t>(64, slots_.size() * 4);
    const auto old = std::exchange(slots_, std::vector<RankedList>(n, {kFree, 0}));
    for (const RankedList& slot : old) {
      if (slot.rank != kFree) slots_[slot_of(slot.rank)] = slot;
    }
  }

  std::vector<List> lists_;
  std::vector<RankedList> slots_;  // rank to list, by open addressing
  MinHeap<RankedList> ranks_;      // of the lists that are not empty
  MinHeap<Candidate> late_;        // came behind what its list had already given out
};

// Merges in place: a symbol of n > 1 cells has -n in its second cell and in its last, so
// that both neighbours are found without a linked list beside it.
class LongMerge {
 public:
  LongMerge(std::span<int> cells, const MergeTable& merges)
      : cells_(cells), merges_(merges) {
    CHECK(cells.size() < size_t(INT32_MAX));
    for (size_t i = 0; i + 1 < cells.size(); ++i) push(int32_t(i), int32_t(i + 1));
  }

  size_t run() {
    while (const std::optional<Candidate> best = queue_.pop()) merge(*best);
    size_t n = 0;
    for (int32_t at = 0; at < size();) {
      const int32_t next = after(at);
      cells_[n++] = cell(at);
      at = next;
    }
    return n;
  }

 private:
  int32_t size() const { return int32_t(cells_.size()); }
  int& cell(int32_t at) { return cells_[size_t(at)]; }
  int32_t after(int32_t at) {
    const bool wide = at + 1 < size() && cell(at + 1) < 0;
    return wide ? at - cell(at + 1) : at + 1;
  }
  int32_t before(int32_t at) { return cell(at - 1) < 0 ? at + cell(at - 1) : at - 1; }

  void merge(const Candidate& best) {
    const int32_t at = best.position;
    if (cell(at) < 0) return;  // has become part of another symbol
    const int32_t right = after(at);
    if (right == size()) return;
    const MergeTable::Rule* rule = merges_.find(cell(at), cell(right));
    if (rule == nullptr || rule->rank != best.rank) return;  // the pair has changed
    const int32_t end = after(right);
    cell(at) = rule->result;
    cell(right) = -1;
    cell(at + 1) = cell(end - 1) = at - end;
    if (at > 0) push(before(at), at);
    if (end < size()) push(at, end);
  }

  void push(int32_t left, int32_t right) {
    if (const MergeTable::Rule* rule = merges_.find(cell(left), cell(right)))
      queue_.push({rule->rank, left});
  }

  std::span<int> cells_;
  const MergeTable& merges_;
  MergeQueue queue_;
};

}  // namespace

MergeTable::MergeTable(std::span<const MergeRule> rules)
    : slots_(std::bit_ceil(rules.size() * 2 + 2)) {
  const size_t mask = slots_.size() - 1;
  for (const MergeRule& rule : rules) {
    const uint64_t key = pair_key(rule.left, rule.right);
    size_t at = scatter(key) & mask;
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask;
    slots_[at] = {key, {rule.rank, rule.result}};
  }
}

const MergeTable::Rule* MergeTable::find(int left, int right) const {
  const size_t mask = slots_.size() - 1;
  const uint64_t key = pair_key(left, right);
  size_t at = scatter(key) & mask;
  while (slots_[at].key != kEmpty) {
    if (slots_[at].key == key) return &slots_[at].rule;
    at = (at + 1) & mask;
  }
  return nullptr;
}

size_t merge_symbols(std::span<int> symbols, const MergeTable& merges) {
  return symbols.size() <= kShortSpan ? merge_short(symbols, merges)
                                      : LongMerge(symbols, merges).run();
}

}  // namespace ingot
