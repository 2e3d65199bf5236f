// kv_append and attention, on every table: against the reference's float64 cases, and bit
// for bit the same however a step is cut.
#include <gtest/gtest.h>

#include <numeric>

#include "ops/batch_testing.h"
#include "ops/case_file.h"

namespace ingot {
namespace {

class Attention : public OnEveryTable {};

TEST_P(Attention, KvAppend) {
  INGOT_FOR_CASES("kv_append", c) {
    const KvLayout layout{.n_kv_heads = c.param<int>("n_kv_heads"),
                          .key_dim = c.param<int>("key_dim"),
                          .value_dim = c.param<int>("value_dim"),
                          .type = kv_type_named(c.param<std::string>("kv_type"))};
    const size_t bytes = kv_page_bytes(layout) * size_t(c.param<int>("n_pages"));
    const Memory pages = ops->allocate(bytes);
    TestRows k(*ops, c.dim("k", 0), c.dim("k", 1), c.floats("k"));
    TestRows v(*ops, c.dim("v", 0), c.dim("v", 1), c.floats("v"));
    const TestBatch inputs(*ops, c.values<int32_t>("positions"),
                           c.values<int32_t>("sequences"),
                           c.values<int32_t>("page_tables"), c.dim("page_tables", 1));
    ops->kv_append({layout, pages.buffer()}, k.rows, v.rows, inputs.batch);
    const std::vector<uint8_t> found = download<uint8_t>(*ops, pages, bytes);
    const std::vector<uint8_t> wanted = c.values<uint8_t>("pages");
    ASSERT_EQ(found.size(), wanted.size());
    EXPECT_EQ(found, wanted);
  }
}

TEST_P(Attention, Cases) {
  INGOT_FOR_CASES("attention", c) {
    const KvLayout layout{.n_kv_heads = c.param<int>("n_kv_heads"),
                          .key_dim = c.param<int>("head_dim"),
                          .value_dim = c.param<int>("value_dim"),
                          .type = kv_type_named(c.param<std::string>("kv_type"))};
    const int n_pages = c.param<int>("n_pages");
    const size_t bytes = kv_page_bytes(layout) * size_t(n_pages);
    // Slots that nobody wrote hold NaN: none may reach a result.
    const Memory pages = upload(*ops, std::vector<uint8_t>(bytes, 0xff));
    const std::vector<int32_t> tables = c.values<int32_t>("page_tables");
    const int max_pages = c.dim("page_tables", 1);
    TestRows k(*ops, c.dim("k", 0), c.dim("k", 1), c.floats("k"));
    TestRows v(*ops, c.dim("v", 0), c.dim("v", 1), c.floats("v"));
    const TestBatch stored(*ops, c.values<int32_t>("kv_positions"),
                           c.values<int32_t>("kv_sequences"), tables, max_pages);
    ops->kv_append({layout, pages.buffer()}, k.rows, v.rows, stored.batch);
    TestRows q(*ops, c.dim("q", 0), c.dim("q", 1), c.floats("q"));
    TestRows out(*ops, c.dim("out", 0), c.dim("out", 1));
    const TestBatch step(*ops, c.values<int32_t>("positions"),
                         c.values<int32_t>("sequences"), tables, max_pages);
    Memory sinks;
    AttentionArgs args{.n_heads = c.param<int>("n_heads"),
                       .head_dim = layout.key_dim,
                       .scale = float(c.param<double>("scale")),
                       .window = c.param<int>("window"),
                       .softcap = float(c.param<double>("softcap")),
                       .sinks = {}};
    if (c.has("sinks")) {
      sinks = upload(*ops, c.floats("sinks"));
      args.sinks = sinks.buffer();
    }
    ops->attention(out.rows, q.rows, {layout, pages.buffer()}, step.batch, args);
    // Scores err by head_dim * 2^-24 of the sum of |q k|, which the exponential makes a
    // relative error of a weight; values are averages of numbers no larger than
    // `largest`.
    const std::vector<float> keys = c.floats("k"), queries = c.floats("q");
    float largest = 0.0f, key = 0.0f, query = 0.0f;
    for (float x : c.floats("v")) largest = std::max(largest, std::fabs(x));
    for (float x : keys) key = std::max(key, std::fabs(x));
    for (float x : queries) query = std::max(query, std::fabs(x));
    const double score =
        double(query) * double(key) * layout.key_dim * double(args.scale);
    const double terms = 8 + 0.25 * layout.key_dim;
    const double bound =
        double(largest) * 0x1p-24 * (2 * score / layout.key_dim * terms + 40);
    const std::vector<float> found = out.values(), wanted = c.floats("out");
    ASSERT_EQ(found.size(), wanted.size());
    double worst = 0.0;
    for (size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::fabs(double(found[i]) - double(wanted[i])));
    EXPECT_LE(worst, bound);
    EXPECT_FALSE(
        std::any_of(found.begin(), found.end(), [](float f) { return std::isnan(f); }));
  }
}

// A sequence over two splits, computed whole, row by row and with other cuts and threads.
TEST_P(Attention, RowsHaveTheSameBitsHoweverTheStepIsCut) {
  Random random(37);
  for (KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::q8}) {
    const KvLayout layout{.n_kv_heads = 2, .key_dim = 20, .value_dim = 28, .type = type};
    const int length = 1100, first = 1000, n = length - first;
    const int n_pages = (length + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> table(size_t(n_pages), 0);
    std::iota(table.begin(), table.end(), 0);
    for (int i = n_pages - 1; i > 0; --i)
      std::swap(table[size_t(i)], table[size_t(random.below(i + 1))]);
    const std::vector<float> k = random.floats(length * 40),
                             v = random.floats(length * 56);
    const std::vector<float> queries = random.floats(n * 6 * 20, -3.0f, 3.0f);
    for (int window : {0, 70, 1030}) {
      std::vector<std::vector<float>> results;
      for (int n_threads : {1, 2})
        for (int step : {n, 1, 7, 64}) {
          const auto ops = make_ops(GetParam(), n_threads);
          const Memory pages = ops->allocate(kv_page_bytes(layout) * size_t(n_pages));
          const auto range = [](int begin, int count) {
            std::vector<int32_t> positions(size_t(count), 0);
            std::iota(positions.begin(), positions.end(), begin);
            return positions;
          };
          TestRows k_rows(*ops, length, 40, k), v_rows(*ops, length, 56, v);
          const TestBatch all(*ops, range(0, length),
                              std::vector<int32_t>(size_t(length), 0), table, n_pages);
          ops->kv_append({layout, pages.buffer()}, k_rows.rows, v_rows.rows, all.batch);
          std::vector<float> result;
          for (int at = 0; at < n; at += step) {
            const int count = std::min(step, n - at);
            TestRows q(
                *ops, count, 120,
                {queries.begin() + at * 120, queries.begin() + (at + count) * 120});
            TestRows out(*ops, count, 6 * 28);
            const TestBatch batch(*ops, range(first + at, count),
                                  std::vector<int32_t>(size_t(count), 0), table, n_pages);
            ops->attention(out.rows, q.rows, {layout, pages.buffer()}, batch.batch,
                           {.n_heads = 6,
                            .head_dim = 20,
                            .scale = 0.2f,
                            .window = window,
                            .sinks = {}});
            const std::vector<float> part = out.values();
            result.insert(result.end(), part.begin(), part.end());
          }
          results.push_back(result);
        }
      for (size_t i = 1; i < results.size(); ++i)
        EXPECT_TRUE(same_bits(results[i], results[0]))
            << "window " << window << ", cut " << i << ", type " << int(type);
    }
  }
}

INGOT_ON_EVERY_TABLE(Attention);

}  // namespace
}  // namespace ingot
