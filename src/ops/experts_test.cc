// Experts' matmuls on every table: against the reference's float64 cases, and bit for bit
// what matmul() gives each row.
#include <gtest/gtest.h>

#include <numeric>

#include "ops/case_file.h"
#include "ops/weights_testing.h"

namespace ingot {
namespace {

DType type_named(const std::string& wanted) {
  for (int i = 0; i < int(DType::count_); ++i)
    if (name(DType(i)) == wanted) return DType(i);
  ADD_FAILURE() << "no type is named " << wanted;
  return DType::f32;
}

// The case's stacked matrices, one weight each.
ExpertWeights pack_experts(Ops& ops, const Case& c) {
  ExpertWeights w;
  const int n_rows = c.param<int>("n_rows");
  const std::span<const std::byte> stored = c.bytes("w");
  for (int e = 0; e < c.param<int>("n_experts"); ++e) {
    WeightRows part;
    part.dtype = type_named(c.param<std::string>("dtype"));
    part.n_rows = n_rows;
    part.n_cols = c.param<int>("n_cols");
    const size_t row = row_bytes(part.dtype, uint64_t(part.n_cols)).value();
    part.row = [=](int r) { return stored.data() + size_t(e * n_rows + r) * row; };
    w.experts.push_back(ops.pack({&part, 1}));
  }
  if (c.has("bias")) w.bias = upload(ops, c.floats("bias"));
  return w;
}

class Experts : public OnEveryTable {};

TEST_P(Experts, Cases) {
  const std::unique_ptr<Ops> backends[] = {make_ops(GetParam(), 2, ActMode::automatic),
                                           make_ops(GetParam(), 2, ActMode::f32)};
  INGOT_FOR_CASES("expert_matmul", c) {
    for (const auto& backend : backends) {
      const ExpertWeights w = pack_experts(*backend, c);
      const Memory experts = upload(*backend, c.values<int32_t>("experts"));
      TestRows x(*backend, c.dim("x", 0), c.dim("x", 1), c.floats("x"));
      TestRows out(*backend, c.dim("out_f32", 0), c.dim("out_f32", 1));
      backend->expert_matmul(out.rows, x.rows, w,
                             {experts.buffer(), {}, c.param<int>("n_used")});
      const bool int8 = backend->act_mode() == ActMode::automatic && c.has("out_auto");
      const std::vector<float> found = out.values();
      const std::vector<float> wanted = c.floats(int8 ? "out_auto" : "out_f32");
      const std::vector<float> terms = c.floats(int8 ? "terms_auto" : "terms_f32");
      ASSERT_EQ(found.size(), wanted.size());
      // As for matmul: n * 2^-24 of the terms' magnitudes, and the scales' roundings.
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], wanted[i],
                    (x.rows.width + 8) * 0x1p-24 * double(terms[i]) + 1e-37)
            << "[" << i << "]";
    }
  }
}

TEST_P(Experts, Combine) {
  INGOT_FOR_CASES("combine_experts", c) {
    TestRows y(*ops, c.dim("y", 0), c.dim("y", 1), c.floats("y"));
    TestRows out(*ops, c.dim("out", 0), c.dim("out", 1));
    const Memory weights = upload(*ops, c.floats("weights"));
    const int n_used = c.param<int>("n_used");
    ops->combine_experts(out.rows, y.rows, {{}, weights.buffer(), n_used});
    const std::vector<float> found = out.values(), wanted = c.floats("out");
    const std::vector<float> terms = c.floats("terms");
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], (n_used + 1) * 0x1p-24 * double(terms[i]) + 1e-37);
  }
}

INGOT_ON_EVERY_TABLE(Experts);

// ---- bits ---------------------------------------------------------------------------

constexpr int kExperts = 5, kRows = 19, kUsed = 2, kMostTokens = 64;

// Distinct ascending experts of each token; expert 3 is never chosen.
std::vector<int32_t> random_experts(int n_tokens, Random& random) {
  constexpr int32_t kAlive[] = {0, 1, 2, 4};
  std::vector<int32_t> chosen;
  for (int t = 0; t < n_tokens; ++t) {
    const int a = random.below(4), b = (a + 1 + random.below(3)) % 4;
    chosen.push_back(kAlive[std::min(a, b)]);
    chosen.push_back(kAlive[std::max(a, b)]);
  }
  return chosen;
}

struct Kind {
  std::string isa;
  WeightKind weight;
};
std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const std::string& isa : isas())
    for (const WeightKind& kind : weight_kinds()) all.push_back({isa, kind});
  return all;
}

class ExpertBits : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    Random random(73);
    const int step = GetParam().weight.column_step();
    n_cols = std::max(step, 256 / step * step);
    for (int e = 0; e < kExperts; ++e)
      sources.emplace_back(GetParam().weight, kRows, n_cols, random);
    bias = random.floats(kExperts * kRows);
    x = random.floats(kMostTokens * kUsed * n_cols, -2.0f, 2.0f);
    experts = random_experts(kMostTokens, random);
  }
  ExpertWeights pack(Ops& ops) const {
    ExpertWeights w;
    for (const TestWeight& source : sources) {
      const WeightRows part[] = {source.source()};
      w.experts.push_back(ops.pack(part));
    }
    w.bias = upload(ops, bias);
    return w;
  }
  std::vector<float> row_of_x(int row) const {
    return {x.begin() + row * n_cols, x.begin() + (row + 1) * n_cols};
  }
  // What matmul() gives each pair on its own; `shared`: pairs of a token share a row.
  std::vector<float> one_by_one(Ops& ops, const ExpertWeights& w, bool shared) const {
    std::vector<float> result;
    for (int pair = 0; pair < kMostTokens * kUsed; ++pair) {
      const auto e = size_t(experts[size_t(pair)]);
      TestRows in(ops, 1, n_cols, row_of_x(shared ? pair / kUsed : pair));
      TestRows out(ops, 1, kRows);
      Buffer row_bias = w.bias.buffer();
      row_bias.offset += e * kRows * sizeof(float);
      ops.matmul(out.rows, in.rows, *w.experts[e], row_bias);
      const std::vector<float> values = out.values();
      result.insert(result.end(), values.begin(), values.end());
    }
    return result;
  }
  // Tokens [first, first + n) in one call.
  std::vector<float> together(Ops& ops, const ExpertWeights& w, bool shared, int first,
                              int n) const {
    const int rows = shared ? n : n * kUsed, first_row = shared ? first : first * kUsed;
    TestRows in(
        ops, rows, n_cols,
        {x.begin() + first_row * n_cols, x.begin() + (first_row + rows) * n_cols});
    TestRows out(ops, n * kUsed, kRows);
    const Memory chosen =
        upload(ops, std::vector<int32_t>(experts.begin() + first * kUsed,
                                         experts.begin() + (first + n) * kUsed));
    ops.expert_matmul(out.rows, in.rows, w, {chosen.buffer(), {}, kUsed});
    return out.values();
  }

  int n_cols = 0;
  std::vector<TestWeight> sources;
  std::vector<float> bias, x;
  std::vector<int32_t> experts;
};

TEST_P(ExpertBits, RowsAreThoseOfMatmul) {
  for (ActMode act : {ActMode::automatic, ActMode::f32}) {
    const auto single = make_ops(GetParam().isa, 1, act);
    const ExpertWeights w = pack(*single);
    for (bool shared : {true, false}) {
      const std::vector<float> wanted = one_by_one(*single, w, shared);
      for (int n_threads : {1, 2}) {
        const auto ops = make_ops(GetParam().isa, n_threads, act);
        const ExpertWeights packed = pack(*ops);
        for (int n : {0, 1, 2, 3, 5, 8, 17, 63, 64})
          for (int first : {0, kMostTokens - n})
            EXPECT_TRUE(same_bits(together(*ops, packed, shared, first, n),
                                  {wanted.begin() + first * kUsed * kRows,
                                   wanted.begin() + (first + n) * kUsed * kRows}))
                << n << " tokens from " << first << ", shared " << shared << ", "
                << n_threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, ExpertBits, testing::ValuesIn(kinds()),
                         [](const auto& info) {
                           return info.param.isa + "_" + info.param.weight.name;
                         });

// ---- what is read -------------------------------------------------------------------

class ExpertReads : public OnEveryTable {
 protected:
  // Weight bytes of one call, in units of one expert's bytes.
  uint64_t reads(const std::vector<int32_t>& experts, int n_used) {
    Random random(79);
    ExpertWeights w;
    for (int e = 0; e < 4; ++e) {
      const TestWeight source({.name = "", .dtype = DType::q8_0}, 24, 64, random);
      const WeightRows part[] = {source.source()};
      w.experts.push_back(ops->pack(part));
    }
    const int n = int(experts.size()) / n_used;
    TestRows x(*ops, n, 64, random.floats(n * 64)), out(*ops, int(experts.size()), 24);
    const Memory chosen = upload(*ops, experts);
    ops->reset_counters();
    ops->expert_matmul(out.rows, x.rows, w, {chosen.buffer(), {}, n_used});
    const uint64_t bytes = ops->counters().weight_bytes;
    EXPECT_EQ(bytes % w.experts[0]->bytes, 0u);
    return bytes / w.experts[0]->bytes;
  }
};

TEST_P(ExpertReads, EachChosenExpertOnceAPassAndNoOther) {
  EXPECT_EQ(reads({}, 2), 0u);
  EXPECT_EQ(reads({2}, 1), 1u);
  EXPECT_EQ(reads({0, 3}, 2), 2u);
  EXPECT_EQ(reads({0, 3, 0, 1, 0, 3}, 2), 3u);
  EXPECT_EQ(reads(std::vector<int32_t>(128, 1), 1), 1u);
  EXPECT_EQ(reads(std::vector<int32_t>(129, 1), 1), 2u);  // two passes of its rows
}

INGOT_ON_EVERY_TABLE(ExpertReads);

}  // namespace
}  // namespace ingot
