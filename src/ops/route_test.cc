// route, on every table, against the reference's float64 cases.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "ops/case_file.h"

namespace ingot {
namespace {

RouterScore score_named(const std::string& name) {
  return name == "softmax"          ? RouterScore::softmax
         : name == "softmax_chosen" ? RouterScore::softmax_chosen
                                    : RouterScore::sigmoid;
}

struct Choice {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Choice route(Ops& ops, int n, const std::vector<float>& logits, const RouterArgs& args) {
  const size_t size = size_t(n) * size_t(args.n_used);
  const Memory experts = upload(ops, std::vector<int32_t>(size, -7));
  const Memory weights = upload(ops, std::vector<float>(size, -7.0f));
  TestRows rows(ops, n, args.n_experts, logits);
  ops.route({experts.buffer(), weights.buffer(), args.n_used}, rows.rows, args);
  return {download<int32_t>(ops, experts, size), download<float>(ops, weights, size)};
}

class Route : public OnEveryTable {};

TEST_P(Route, Cases) {
  INGOT_FOR_CASES("route", c) {
    Memory bias;
    RouterArgs args{.score = score_named(c.param<std::string>("score")),
                    .n_experts = c.param<int>("n_experts"),
                    .n_used = c.param<int>("n_used"),
                    .n_groups = c.param<int>("n_groups"),
                    .n_groups_used = c.param<int>("n_groups_used"),
                    .normalise = c.param<bool>("normalise", false),
                    .normalise_eps = float(c.param<double>("normalise_eps", 0.0)),
                    .scale = float(c.param<double>("scale", 1.0))};
    if (c.has("bias")) {
      bias = upload(*ops, c.floats("bias"));
      args.bias = bias.buffer();
    }
    const Choice found = route(*ops, c.dim("logits", 0), c.floats("logits"), args);
    EXPECT_EQ(found.experts, c.values<int32_t>("experts"));
    const std::vector<float> wanted = c.floats("weights");
    ASSERT_EQ(found.weights.size(), wanted.size());
    // Both are float64 rounded once: at most the last bit differs.
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LE(ulps(found.weights[i], double(wanted[i])), 1.01)
          << found.weights[i] << " " << wanted[i];
  }
}

TEST_P(Route, TiesGoToTheLowestIndexAtTheEdgeOfTheChoice) {
  //                                 0     1     2     3     4     5     6     7
  const std::vector<float> logits = {1.0f, 2.0f, 1.5f, 1.5f, 0.0f, 1.5f, 3.0f, 1.5f};
  for (RouterScore score :
       {RouterScore::softmax, RouterScore::softmax_chosen, RouterScore::sigmoid}) {
    const auto chosen = [&](int n_used) {
      return route(*ops, 1, logits, {.score = score, .n_experts = 8, .n_used = n_used})
          .experts;
    };
    EXPECT_EQ(chosen(1), (std::vector<int32_t>{6}));
    EXPECT_EQ(chosen(3), (std::vector<int32_t>{1, 2, 6}));
    EXPECT_EQ(chosen(5), (std::vector<int32_t>{1, 2, 3, 5, 6}));
    EXPECT_EQ(chosen(7), (std::vector<int32_t>{0, 1, 2, 3, 5, 6, 7}));
  }
}

// Logits where float32's sigmoid is 1 for both, and a softmax that underflows.
TEST_P(Route, LogitsThatDifferAreNoTies) {
  const std::vector<float> steep = {20.0f, 21.0f, 19.0f, 22.0f};
  const Choice c =
      route(*ops, 1, steep, {.score = RouterScore::sigmoid, .n_experts = 4, .n_used = 2});
  EXPECT_EQ(c.experts, (std::vector<int32_t>{1, 3}));
  const std::vector<float> far = {-200.0f, 0.0f, -150.0f, -300.0f};
  const Choice d = route(*ops, 1, far, {.n_experts = 4, .n_used = 2});
  EXPECT_EQ(d.experts, (std::vector<int32_t>{1, 2}));
}

TEST_P(Route, LogitsThatAreNoNumbersNeitherHangNorLeaveTheRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Random random(67);
  for (RouterScore score :
       {RouterScore::softmax, RouterScore::softmax_chosen, RouterScore::sigmoid})
    for (int n_groups : {1, 4})
      for (float bad : {nan, inf, -inf, 3.4e38f, -3.4e38f})
        for (int n_bad : {1, 5, 32}) {
          std::vector<float> logits = random.floats(32);
          for (int i = 0; i < n_bad; ++i)
            logits[size_t(n_bad == 32 ? i : random.below(32))] = bad;
          const Choice c = route(*ops, 1, logits,
                                 {.score = score,
                                  .n_experts = 32,
                                  .n_used = 6,
                                  .n_groups = n_groups,
                                  .n_groups_used = (n_groups + 1) / 2,
                                  .normalise = true});
          EXPECT_TRUE(std::is_sorted(c.experts.begin(), c.experts.end()));
          EXPECT_EQ(std::set(c.experts.begin(), c.experts.end()).size(), 6u);
          EXPECT_GE(c.experts.front(), 0);
          EXPECT_LT(c.experts.back(), 32);
          // A NaN must show, whichever expert it belongs to.
          const bool shows = std::any_of(c.weights.begin(), c.weights.end(),
                                         [](float w) { return std::isnan(w); });
          EXPECT_TRUE(shows || !std::isnan(bad)) << int(score) << " " << n_bad;
        }
}

TEST_P(Route, RowsAreTheSameTogetherAndAlone) {
  constexpr int kRows = 64, kExperts = 96;
  Random random(71);
  const std::vector<float> logits = random.floats(kRows * kExperts, -4.0f, 4.0f);
  const RouterArgs args{.score = RouterScore::sigmoid,
                        .n_experts = kExperts,
                        .n_used = 8,
                        .n_groups = 8,
                        .n_groups_used = 3,
                        .normalise = true,
                        .scale = 2.5f};
  for (int n_threads : {1, 2}) {
    const auto backend = make_ops(GetParam(), n_threads);
    const Choice all = route(*backend, kRows, logits, args);
    for (int t = 0; t < kRows; ++t) {
      const auto row = logits.begin() + t * kExperts;
      const Choice one = route(*ops, 1, {row, row + kExperts}, args);
      EXPECT_TRUE(std::equal(one.experts.begin(), one.experts.end(),
                             all.experts.begin() + t * 8));
      EXPECT_TRUE(same_bits(
          one.weights, {all.weights.begin() + t * 8, all.weights.begin() + t * 8 + 8}));
    }
  }
}

INGOT_ON_EVERY_TABLE(Route);

}  // namespace
}  // namespace ingot
