// sample: the distribution of the reference's cases, greedy choices, seeds and bad
// logits.
#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"
#include "ops/case_file.h"

namespace ingot {
namespace {

SamplerArgs args_of(const Case& c) {
  SamplerArgs args;
  args.temperature = float(c.param<double>("temperature"));
  args.top_k = c.param<int>("top_k", 0);
  args.top_p = float(c.param<double>("top_p", 1.0));
  args.min_p = float(c.param<double>("min_p", 0.0));
  args.repeat_penalty = float(c.param<double>("repeat_penalty", 1.0));
  args.presence_penalty = float(c.param<double>("presence_penalty", 0.0));
  args.frequency_penalty = float(c.param<double>("frequency_penalty", 0.0));
  return args;
}

class Sample : public OnEveryTable {
 protected:
  int draw(const std::vector<float>& logits, SampleRow row) {
    TestRows rows(*ops, 1, int(logits.size()), logits, 0);
    const Memory token = ops->allocate(sizeof(int32_t));
    ops->sample(token.buffer(), rows.rows, {&row, 1});
    return download<int32_t>(*ops, token, 1)[0];
  }
};

// Of 20,000 draws, or as many as the case says, the count of a token is within 5.5
// deviations of its expectation (over all cases one false alarm in 10^4 runs; the seed is
// fixed, so the test does not flicker).
TEST_P(Sample, DrawsFollowTheDistribution) {
  INGOT_FOR_CASES("sample", c) {
    if (!c.has("probabilities")) continue;
    const std::vector<float> p = c.floats("probabilities");
    const int vocab = int(p.size());
    TestRows logits(*ops, 1, vocab, c.floats("logits"), 0);
    const Memory seen = upload(*ops, c.values<uint8_t>("prompt_seen"));
    const Memory bias = upload(*ops, c.floats("bias"));
    const std::vector<int32_t> counts = c.values<int32_t>("answer_counts");
    const Memory answer = upload(*ops, counts);
    const Memory token = ops->allocate(sizeof(int32_t));
    std::vector<int> drawn(size_t(vocab), 0);
    SampleRow row{.args = args_of(c),
                  .position = 0,
                  .prompt_seen = seen.buffer(),
                  .answer_counts = answer.buffer(),
                  .bias = bias.buffer()};
    const int draws = c.param<int>("n_draws");
    for (int i = 0; i < draws; ++i) {
      row.args.seed = 99;
      row.position = i;
      ops->sample(token.buffer(), logits.rows, {&row, 1});
      const int choice = download<int32_t>(*ops, token, 1)[0];
      ASSERT_TRUE(choice >= 0 && choice < vocab);
      ++drawn[size_t(choice)];
      ops->upload(answer.buffer(), counts.data(), counts.size() * sizeof(int32_t));
    }
    for (int t = 0; t < vocab; ++t) {
      const double expected = double(p[size_t(t)]) * draws;
      if (p[size_t(t)] == 0.0f)
        EXPECT_EQ(drawn[size_t(t)], 0) << "token " << t << " must never be drawn";
      else
        EXPECT_NEAR(drawn[size_t(t)], expected, 5.5 * std::sqrt(expected) + 3)
            << "token " << t;
    }
  }
}

TEST_P(Sample, GreedyTakesTheLowestIndexOfTheLargest) {
  INGOT_FOR_CASES("sample", c) {
    if (!c.has("wanted")) continue;
    const int n = c.dim("logits", 0);
    TestRows logits(*ops, n, c.dim("logits", 1), c.floats("logits"));
    const Memory tokens = ops->allocate(size_t(n) * sizeof(int32_t));
    const std::vector<SampleRow> rows(size_t(n), SampleRow{});
    ops->sample(tokens.buffer(), logits.rows, rows);
    EXPECT_EQ(download<int32_t>(*ops, tokens, size_t(n)), c.values<int32_t>("wanted"));
  }
}

TEST_P(Sample, ATokenDependsOnSeedAndPositionAlone) {
  Random random(41);
  const std::vector<float> logits = random.floats(1000, -2.0f, 2.0f);
  SampleRow row{.args = {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f},
                .position = 0,
                .prompt_seen = {},
                .answer_counts = {},
                .bias = {}};
  std::vector<int> first, again, other_seed;
  for (int i = 0; i < 64; ++i) {
    row.position = i;
    row.args.seed = 5;
    first.push_back(draw(logits, row));
    again.push_back(draw(logits, row));
    row.args.seed = 6;
    other_seed.push_back(draw(logits, row));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other_seed);
  // Rows of one call stand for themselves, on two threads too.
  const auto two = make_ops(GetParam(), 2);
  std::vector<float> many;
  std::vector<SampleRow> rows;
  for (int i = 0; i < 64; ++i) {
    many.insert(many.end(), logits.begin(), logits.end());
    rows.push_back(row);
    rows.back().args.seed = 5;
    rows.back().position = i;
  }
  TestRows batch(*two, 64, 1000, many);
  const Memory tokens = two->allocate(64 * sizeof(int32_t));
  two->sample(tokens.buffer(), batch.rows, rows);
  const std::vector<int32_t> together = download<int32_t>(*two, tokens, 64);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), together.begin()));
}

// The choice is the largest of logit + noise, by a search that computes every noise.
TEST_P(Sample, SkippingHopelessTokensChangesNothing) {
  Random random(43);
  for (int trial = 0; trial < 300; ++trial) {
    const float spread = trial % 3 == 0 ? 30.0f : 3.0f;
    const std::vector<float> logits =
        random.floats(random.between(1, 3000), -spread, spread);
    SampleRow row{.args = {.temperature = 0.7f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f},
                  .position = trial,
                  .prompt_seen = {},
                  .answer_counts = {},
                  .bias = {}};
    row.args.seed = 7;
    const CounterRng rng(7, uint64_t(trial));
    double best = -1e300;
    int wanted = -1;
    for (size_t t = 0; t < logits.size(); ++t) {
      const double score = double(logits[t] / 0.7f) - std::log(-std::log(rng.uniform(t)));
      if (score > best) {
        best = score;
        wanted = int(t);
      }
    }
    EXPECT_EQ(draw(logits, row), wanted) << "seed 43, trial " << trial;
  }
}

TEST_P(Sample, ValuesThatAreNoNumbersAreNeverChosen) {
  for (float temperature : {0.0f, 1.0f}) {
    SampleRow row;
    row.args.temperature = temperature;
    EXPECT_EQ(draw({NAN, NAN, 1.0f, NAN}, row), 2);
    EXPECT_EQ(draw({-INFINITY, NAN, -INFINITY, -5.0f}, row), 3);
    EXPECT_EQ(draw({1.0f, INFINITY, NAN}, row), 1);
    EXPECT_EQ(draw({NAN, -INFINITY, -INFINITY}, row), 1);
    EXPECT_EQ(draw({NAN, NAN}, row), -1);
    row.args.top_k = 2;
    row.args.top_p = 0.5f;
    EXPECT_EQ(draw({NAN, NAN, 1.0f, NAN}, row), 2);
  }
}

TEST_P(Sample, CountsTheChoice) {
  const Memory counts = upload(*ops, std::vector<int32_t>{0, 4, 0});
  SampleRow row;
  row.answer_counts = counts.buffer();
  EXPECT_EQ(draw({0.0f, 3.0f, 1.0f}, row), 1);
  EXPECT_EQ(download<int32_t>(*ops, counts, 3), (std::vector<int32_t>{0, 5, 0}));
}

INGOT_ON_EVERY_TABLE(Sample);

TEST(CounterRng, IsUniformAndIndependentOfItsNeighbours) {
  constexpr int kDraws = 100000;
  double sum = 0.0, square = 0.0, product = 0.0, last = 0.5;
  for (int i = 0; i < kDraws; ++i) {
    const CounterRng rng(123, uint64_t(i / 100));
    const double u = rng.uniform(uint64_t(i % 100));
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    square += u * u;
    product += (u - 0.5) * (last - 0.5);
    last = u;
  }
  // Deviations of the means of u, u^2 and the product of neighbours: 5 of each.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * 0.2887 / std::sqrt(kDraws));
  EXPECT_NEAR(square / kDraws, 1.0 / 3.0, 5 * 0.2981 / std::sqrt(kDraws));
  EXPECT_NEAR(product / kDraws, 0.0, 5 * 0.0833 / std::sqrt(kDraws));
}

}  // namespace
}  // namespace ingot
