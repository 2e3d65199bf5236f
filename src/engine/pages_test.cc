// Pages and sequences against a naive model: random operations, invariants after each.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "engine/page_pool.h"
#include "engine/sequence.h"
#include "ops/ops.h"

namespace ingot {
namespace {

constexpr int kSeed = 20261130;

TEST(PagePool, TakesEveryPageOnce) {
  PagePool pool(3);
  const auto a = pool.take();
  const auto b = pool.take();
  const auto c = pool.take();
  ASSERT_TRUE(a && b && c);
  EXPECT_FALSE(pool.take());
  EXPECT_NE(*a, *b);
  EXPECT_NE(*b, *c);
  pool.retain(*b);
  pool.release(*b);
  EXPECT_FALSE(pool.take());
  pool.release(*b);
  EXPECT_EQ(pool.take(), b);
  pool.check_invariants();
}

TEST(Sequence, PagesFollowTokensAtPageEdges) {
  PagePool pool(4);
  Sequence sequence(&pool);
  std::vector<int> tokens(size_t(kPageTokens), 1);
  ASSERT_TRUE(sequence.reserve(kPageTokens));
  sequence.append(tokens);
  EXPECT_EQ(sequence.pages().size(), 1u);  // exactly full: no second page yet
  ASSERT_TRUE(sequence.reserve(1));
  EXPECT_EQ(sequence.pages().size(), 2u);
  sequence.append(std::vector<int>{7});
  EXPECT_EQ(sequence.truncate(kPageTokens), kPageTokens);
  EXPECT_EQ(sequence.pages().size(), 1u);
  EXPECT_EQ(sequence.truncate(0), 0);
  EXPECT_EQ(sequence.pages().size(), 0u);
  EXPECT_EQ(pool.n_free(), 4);
}

TEST(Sequence, RefusesWhatDoesNotFitAndKeepsWhatItHad) {
  PagePool pool(1);
  Sequence sequence(&pool);
  EXPECT_FALSE(sequence.reserve(kPageTokens + 1));
  EXPECT_EQ(sequence.pages().size(), 0u);
  EXPECT_TRUE(sequence.reserve(kPageTokens));
}

TEST(Sequence, RandomOperationsEqualANaiveModel) {
  std::mt19937 random(kSeed);
  PagePool pool(40);
  std::vector<Sequence> sequences;
  std::vector<std::vector<int>> naive(6);
  for (int i = 0; i < 6; ++i) sequences.emplace_back(&pool);
  for (int step = 0; step < 20000; ++step) {
    const size_t which = random() % 6;
    Sequence& sequence = sequences[which];
    std::vector<int>& model = naive[which];
    switch (random() % 4) {
      case 0: {
        const size_t keep = model.empty() ? 0 : random() % (model.size() + 1);
        EXPECT_EQ(sequence.truncate(int(keep)), int(keep));
        model.resize(keep);
        break;
      }
      case 1:
        if (random() % 50 == 0) {
          sequence = Sequence(&pool);
          model.clear();
        }
        break;
      default: {
        std::vector<int> more(random() % 90);
        std::iota(more.begin(), more.end(), step);
        if (!sequence.reserve(int(more.size()))) break;
        sequence.append(more);
        model.insert(model.end(), more.begin(), more.end());
      }
    }
    ASSERT_EQ(sequence.tokens(), model) << "seed " << kSeed << " step " << step;
    sequence.check_invariants();
    pool.check_invariants();
    size_t held = 0;
    for (const Sequence& s : sequences) held += s.pages().size();
    ASSERT_EQ(int(held) + pool.n_free(), pool.n_pages());
  }
}

}  // namespace
}  // namespace ingot
