// merge_symbols against its definition, spelled out: look at every pair, join the
// leftmost of the lowest rank, begin again.
#include "text/bpe_merge.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ingot {
namespace {

using Random = std::mt19937_64;

std::vector<int> merged_by_definition(std::vector<int> symbols,
                                      const std::vector<MergeRule>& rules) {
  std::map<std::pair<int, int>, MergeRule> rule_of;
  for (const MergeRule& rule : rules) rule_of[{rule.left, rule.right}] = rule;
  while (true) {
    const MergeRule* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = rule_of.find({symbols[i], symbols[i + 1]});
      if (found == rule_of.end()) continue;
      if (best != nullptr && found->second.rank >= best->rank) continue;
      best = &found->second;
      at = i;
    }
    if (best == nullptr) return symbols;
    symbols[at] = best->result;
    symbols.erase(symbols.begin() + std::ptrdiff_t(at) + 1);
  }
}

// Which order the ranks of the rules have.
enum class Ranks { as_made, shuffled, few, all_equal };

// Rules that join any symbols made so far, letters first, to new or known ones.
std::vector<MergeRule> random_rules(Random& random, int n_letters, int n_rules,
                                    Ranks ranks) {
  std::vector<MergeRule> rules;
  int n_symbols = n_letters;
  const auto below = [&](int n) { return int(random() % uint64_t(n)); };
  for (int i = 0; i < n_rules; ++i) {
    const int result = below(4) == 0 ? below(n_symbols) : n_symbols;
    rules.push_back({below(n_symbols), below(n_symbols), result, i});
    n_symbols = std::max(n_symbols, result + 1);
  }
  if (ranks == Ranks::shuffled) {
    for (size_t i = rules.size(); i > 1; --i)
      std::swap(rules[i - 1].rank, rules[random() % i].rank);
  }
  for (MergeRule& rule : rules) {
    if (ranks == Ranks::few) rule.rank = below(3);
    if (ranks == Ranks::all_equal) rule.rank = 7;
  }
  return rules;
}

std::vector<int> merged(std::vector<int> symbols, const std::vector<MergeRule>& rules) {
  const MergeTable table(rules);
  symbols.resize(merge_symbols(symbols, table));
  return symbols;
}

class MergeSymbols : public testing::TestWithParam<Ranks> {};

TEST_P(MergeSymbols, JoinsAsDefined) {
  Random random(20261201 + uint64_t(GetParam()));
  for (int i = 0; i < 1500; ++i) {
    const int n_letters = 1 + int(random() % 5);
    const auto rules =
        random_rules(random, n_letters, int(random() % 60) + 1, GetParam());
    // Around the length where another way of merging takes over, and well past it.
    const size_t n = i % 3 == 0 ? random() % 8 : 40 + random() % (i % 50 == 1 ? 700 : 90);
    std::vector<int> symbols(n);
    for (int& symbol : symbols) symbol = int(random() % uint64_t(n_letters));
    ASSERT_EQ(merged(symbols, rules), merged_by_definition(symbols, rules))
        << "case " << i << ", " << n << " symbols, " << rules.size() << " rules";
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, MergeSymbols,
                         testing::Values(Ranks::as_made, Ranks::shuffled, Ranks::few,
                                         Ranks::all_equal));

// One letter, doubled and doubled again: 2, 4, ... 64 of it have a symbol.
TEST(MergeRuns, DoublesFromTheLeft) {
  std::vector<MergeRule> rules;
  for (int i = 0; i < 6; ++i) rules.push_back({i, i, i + 1, i});
  for (const size_t n : {0u, 1u, 2u, 63u, 64u, 65u, 127u, 1000u}) {
    std::vector<int> want(n / 64, 6);
    for (int i = 5; i >= 0; --i) {
      if ((n >> i & 1) != 0) want.push_back(i);
    }
    EXPECT_EQ(merged(std::vector<int>(n, 0), rules), want) << n;
  }
}

}  // namespace
}  // namespace ingot
