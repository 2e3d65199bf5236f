// short_conv and gated_delta: against the reference's step form, on every table, and bit
// for bit the same however a sequence is cut, truncated or placed.
#include <gtest/gtest.h>

#include <numeric>

#include "ops/case_file.h"
#include "ops/recurrent_testing.h"

namespace ingot {
namespace {

RecurrentLayout layout_of(const Case& c) {
  return {.n_key_heads = c.param<int>("n_key_heads"),
          .n_value_heads = c.param<int>("n_value_heads"),
          .key_dim = c.param<int>("key_dim"),
          .value_dim = c.param<int>("value_dim"),
          .conv_kernel = c.param<int>("conv_kernel")};
}

// All sequences of a case in one step, in slots of descending order.
std::vector<StepPart> parts_of(const Case& c) {
  const std::vector<int32_t> lengths = c.values<int32_t>("lengths");
  std::vector<StepPart> parts;
  for (size_t i = 0; i < lengths.size(); ++i)
    parts.push_back(
        {.count = lengths[i], .position = 0, .slot = int(lengths.size() - 1 - i)});
  return parts;
}

class Recurrent : public OnEveryTable {
 protected:
  Memory nan_slots(const Case& c) {
    return upload(*ops, std::vector<uint8_t>(recurrent_slot_bytes(layout_of(c)) *
                                                 size_t(c.dim("lengths", 0)),
                                             0xff));
  }
};

TEST_P(Recurrent, ShortConv) {
  INGOT_FOR_CASES("short_conv", c) {
    const RecurrentLayout layout = layout_of(c);
    const Memory slots = nan_slots(c), weight = upload(*ops, c.floats("weight"));
    const RecurrentBatch step(*ops, parts_of(c));
    TestRows x(*ops, c.dim("x", 0), c.dim("x", 1), c.floats("x"));
    TestRows out(*ops, x.rows.n_rows, x.rows.width);
    const RecurrentState state{layout, slots.buffer()};
    ops->short_conv(out.rows, x.rows, weight.buffer(), state, step.batch);
    const std::vector<float> found = out.values(), wanted = c.floats("out"),
                             terms = c.floats("terms");
    ASSERT_EQ(found.size(), wanted.size());
    // Roundings of the sum, which silu's slope makes at most 1.1 times larger, and silu's
    // own.
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i],
                  0x1p-24 * (1.1 * (layout.conv_kernel + 1) * double(terms[i]) +
                             8 * std::fabs(double(wanted[i]))) +
                      1e-37);
    ops->short_conv(x.rows, x.rows, weight.buffer(), state, step.batch);  // in place
    EXPECT_TRUE(same_bits(x.values(), found));
  }
}

// An output is q S with |q| = key_dim^-1/2.  A step shrinks what S had and adds
// beta k (v - k S): rounding errors do not grow, and are relative to |v| and |k S|, which
// random inputs keep within a few times the largest value.  2^-20 of that is 1e-6: 16
// roundings, where sums of up to 128 and 64 terms make some 10 at random.
double delta_bound(const Case& c, const RecurrentLayout& l) {
  float largest = 0.0f;
  const std::vector<float> qkv = c.floats("qkv");
  for (float x : qkv) largest = std::max(largest, std::fabs(x));
  return 0x1p-20 * double(largest) / std::sqrt(double(l.key_dim));
}

TEST_P(Recurrent, GatedDelta) {
  double worst = 0.0;
  INGOT_FOR_CASES("gated_delta", c) {
    const RecurrentLayout layout = layout_of(c);
    const Memory slots = nan_slots(c);
    const Memory decay = upload(*ops, c.floats("decay"));
    const Memory dt_bias = upload(*ops, c.floats("dt_bias"));
    const RecurrentBatch step(*ops, parts_of(c));
    TestRows qkv(*ops, c.dim("qkv", 0), c.dim("qkv", 1), c.floats("qkv"));
    TestRows b(*ops, c.dim("b", 0), c.dim("b", 1), c.floats("b"));
    TestRows a(*ops, c.dim("a", 0), c.dim("a", 1), c.floats("a"));
    TestRows out(*ops, c.dim("out", 0), c.dim("out", 1));
    ops->gated_delta(out.rows, qkv.rows, b.rows, a.rows,
                     {.tiled_value_heads = c.param<bool>("tiled_value_heads"),
                      .decay = decay.buffer(),
                      .dt_bias = dt_bias.buffer()},
                     {layout, slots.buffer()}, step.batch);
    const std::vector<float> found = out.values(), wanted = c.floats("out");
    ASSERT_EQ(found.size(), wanted.size());
    const double bound = delta_bound(c, layout);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], bound);
      worst = std::max(worst, std::fabs(double(found[i]) - double(wanted[i])) / bound);
    }
  }
  RecordProperty("worst_of_bound", std::to_string(worst));
  std::cout << "worst error: " << worst << " of the bound\n";
}

// ---- the row contract ---------------------------------------------------------------

constexpr RecurrentLayout kSmall{.n_key_heads = 2,
                                 .n_value_heads = 6,
                                 .key_dim = 20,
                                 .value_dim = 27,
                                 .conv_kernel = 4};
constexpr RecurrentLayout kReal{.n_key_heads = 1,
                                .n_value_heads = 2,
                                .key_dim = 128,
                                .value_dim = 128,
                                .conv_kernel = 4};
constexpr RecurrentLayout kOdd{
    .n_key_heads = 3, .n_value_heads = 3, .key_dim = 7, .value_dim = 1, .conv_kernel = 2};

TEST_P(Recurrent, APromptHasTheSameBitsHoweverItIsCut) {
  constexpr int kTokens = 200;
  const std::unique_ptr<Ops> backends[] = {make_ops(GetParam(), 1),
                                           make_ops(GetParam(), 2)};
  constexpr std::pair<RecurrentLayout, float> kLayers[] = {
      {kSmall, 1.0f}, {kSmall, 0.01f}, {kSmall, 300.0f}, {kReal, 1.0f}, {kOdd, 1.0f}};
  for (const auto& layer : kLayers) {
    const RecurrentLayout& layout = layer.first;
    const RecurrentInputs inputs(layout, kTokens, 5, layer.second);
    const auto run = [&](int n_threads, const std::vector<int>& sizes) {
      RecurrentRunner runner(*backends[n_threads - 1], layout, 1, inputs);
      return runner.run(inputs, 0, kTokens, 0, sizes);
    };
    const std::vector<float> whole = run(1, {kTokens});
    EXPECT_TRUE(std::all_of(whole.begin(), whole.end(),
                            [](float f) { return std::isfinite(f); }));
    for (int n_threads : {1, 2})
      for (int size : {1, 7, 63, 64, 65, 130, kTokens})
        EXPECT_TRUE(same_bits(run(n_threads, {size}), whole))
            << "pieces of " << size << ", " << n_threads << " threads";
    Random random(97);
    for (int trial = 0; trial < 8; ++trial) {
      std::vector<int> sizes;
      const int largest = trial % 2 == 0 ? 9 : 100;
      for (int i = 0; i < kTokens; ++i) sizes.push_back(random.between(1, largest));
      EXPECT_TRUE(same_bits(run(2, sizes), whole)) << "seed 97, split " << trial;
    }
  }
}

// Tokens that were computed and dropped, in the open page or past its end, leave no
// trace.
TEST_P(Recurrent, DroppedTokensNeverWere) {
  const RecurrentInputs inputs(kSmall, 300, 5), drafts(kSmall, 300, 6);
  for (int kept : {0, 3, 62, 63, 64, 100, 126, 127, 128})
    for (int dropped : {1, 2, 20, 63, 66}) {
      const int last_kept_page = kept / kPageTokens;
      if (kept + dropped >= (last_kept_page + 2) * kPageTokens) continue;
      RecurrentRunner straight(*ops, kSmall, 1, inputs), drafted(*ops, kSmall, 1, inputs);
      const std::vector<int> sizes = {dropped % 2 == 0 ? 1 : 70};
      straight.run(inputs, 0, kept, 0, sizes);
      drafted.run(inputs, 0, kept, 0, sizes);
      drafted.run(drafts, kept, kept + dropped, 0, sizes);
      const int end = kept + 135;
      EXPECT_TRUE(same_bits(straight.run(inputs, kept, end, 0, {end}),
                            drafted.run(inputs, kept, end, 0, {3, end})))
          << kept << " kept, " << dropped << " dropped";
    }
}

// Rows before `at` of one sequence, the others of another.
RecurrentInputs spliced(const RecurrentInputs& before, const RecurrentInputs& after,
                        const RecurrentLayout& l, int at) {
  RecurrentInputs both = after;
  std::copy_n(before.x.begin(), at * l.channels(), both.x.begin());
  std::copy_n(before.a.begin(), at * l.n_value_heads, both.a.begin());
  std::copy_n(before.b.begin(), at * l.n_value_heads, both.b.begin());
  return both;
}

// Verify: of each step's rows the first are accepted and the rest dropped, over pages'
// ends too.
TEST_P(Recurrent, DraftsDroppedAtEveryStep) {
  const RecurrentInputs inputs(kSmall, 160, 5), drafts(kSmall, 160, 6);
  RecurrentRunner straight(*ops, kSmall, 1, inputs);
  const std::vector<float> wanted = straight.run(inputs, 0, 150, 0, {150});
  for (int accepted : {1, 3}) {
    RecurrentRunner drafted(*ops, kSmall, 1, inputs);
    std::vector<float> found;
    for (int at = 0; at < 150; at += accepted) {
      const RecurrentInputs step = spliced(inputs, drafts, kSmall, at + accepted);
      const auto rows = drafted.run(step, at, at + accepted + 5, 0, {8});
      found.insert(found.end(), rows.begin(),
                   rows.begin() + accepted * int(rows.size()) / (accepted + 5));
    }
    EXPECT_TRUE(same_bits(found, wanted)) << accepted << " accepted a step";
  }
}

TEST_P(Recurrent, ASlotMayBeUsedAgain) {
  const RecurrentInputs older(kSmall, 170, 6), inputs(kSmall, 140, 5);
  RecurrentRunner fresh(*ops, kSmall, 1, inputs), used(*ops, kSmall, 1, inputs);
  used.run(older, 0, 170, 0, {170});
  EXPECT_TRUE(same_bits(used.run(inputs, 0, 140, 0, {50, 1, 89}),
                        fresh.run(inputs, 0, 140, 0, {140})));
}

// Sequences of one step stand at different positions, each in its own slot.
TEST_P(Recurrent, SequencesOfAStepDoNotMeet) {
  for (const RecurrentLayout& layout : {kSmall, kOdd}) {
    std::vector<RecurrentInputs> inputs;
    for (uint64_t s = 0; s < 4; ++s) inputs.emplace_back(layout, 250, 10 + s);
    std::vector<std::vector<float>> alone, together(inputs.size());
    for (const RecurrentInputs& one : inputs) {
      RecurrentRunner runner(*ops, layout, 1, one);
      alone.push_back(runner.run(one, 0, 250, 0, {250}));
    }
    const auto two = make_ops(GetParam(), 2);
    RecurrentRunner runner(*two, layout, 5, inputs[0]);
    Random random(101);
    std::vector<int> at(inputs.size(), 0);
    while (*std::min_element(at.begin(), at.end()) < 250) {
      std::vector<StepPart> parts;
      std::vector<size_t> which;
      for (size_t s = 0; s < inputs.size(); ++s) {
        const int wanted = random.below(3) == 0 ? random.between(1, 90) : random.below(3);
        const int count = std::min(wanted, 250 - at[s]);
        parts.push_back({&inputs[s], at[s], count, at[s], int(4 - s)});
        at[s] += count;
      }
      const auto results = runner.step(parts);
      for (size_t s = 0; s < inputs.size(); ++s)
        together[s].insert(together[s].end(), results[s].begin(), results[s].end());
    }
    for (size_t s = 0; s < inputs.size(); ++s)
      EXPECT_TRUE(same_bits(together[s], alone[s])) << "sequence " << s << ", seed 101";
  }
}

// Tiling only renames heads: the same head's inputs give the same bits.
TEST_P(Recurrent, TiledHeadsReadTheirKeyHead) {
  RecurrentInputs grouped(kSmall, 70, 5);
  const int heads = kSmall.n_value_heads, keys = kSmall.n_key_heads;
  const int group = heads / keys, dim = kSmall.value_dim;
  RecurrentInputs tiled = grouped;
  const int first_value = 2 * keys * kSmall.key_dim;
  const auto move = [&](const std::vector<float>& from, std::vector<float>& to, int rows,
                        int width, int first, int count) {
    for (int r = 0; r < rows; ++r)
      for (int h = 0; h < heads; ++h)  // head g * group + s goes to s * keys + g
        std::copy_n(
            from.begin() + r * width + first + h * count, count,
            to.begin() + r * width + first + (h % group * keys + h / group) * count);
  };
  move(grouped.x, tiled.x, 70, kSmall.channels(), first_value, dim);
  move(grouped.conv_weight, tiled.conv_weight, 1, 0, first_value * kSmall.conv_kernel,
       dim * kSmall.conv_kernel);
  for (auto part : {&RecurrentInputs::a, &RecurrentInputs::b})
    move(grouped.*part, tiled.*part, 70, heads, 0, 1);
  for (auto part : {&RecurrentInputs::decay, &RecurrentInputs::dt_bias})
    move(grouped.*part, tiled.*part, 1, heads, 0, 1);
  RecurrentRunner a(*ops, kSmall, 1, grouped), b(*ops, kSmall, 1, tiled, true);
  const std::vector<float> first = a.run(grouped, 0, 70, 0, {70});
  const std::vector<float> second = b.run(tiled, 0, 70, 0, {70});
  const int width = kSmall.channels() + heads * dim;
  std::vector<float> moved = first;
  move(first, moved, 70, width, first_value, dim);
  move(first, moved, 70, width, kSmall.channels(), dim);
  EXPECT_TRUE(same_bits(second, moved));
}

INGOT_ON_EVERY_TABLE(Recurrent);

}  // namespace
}  // namespace ingot
