// Sparse attention on every table: select_keys, attention over a selection, and values
// inside the keys; against the reference's float64 cases, and bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <optional>

#include "ops/batch_testing.h"
#include "ops/case_file.h"

namespace ingot {
namespace {

// The case's pages with its keys and values; slots that nobody wrote hold NaN.
Memory filled_pages(Ops& ops, const Case& c, const KvLayout& layout) {
  Memory pages =
      upload(ops, std::vector<uint8_t>(
                      kv_page_bytes(layout) * size_t(c.param<int>("n_pages")), 0xff));
  TestRows k(ops, c.dim("k", 0), c.dim("k", 1), c.floats("k"));
  std::optional<TestRows> v;
  if (c.has("v")) v.emplace(ops, c.dim("v", 0), c.dim("v", 1), c.floats("v"));
  const TestBatch stored(ops, c.values<int32_t>("kv_positions"),
                         c.values<int32_t>("kv_sequences"),
                         c.values<int32_t>("page_tables"), c.dim("page_tables", 1));
  ops.kv_append({layout, pages.buffer()}, k.rows, v ? v->rows : Rows{}, stored.batch);
  return pages;
}

TestBatch step_of(Ops& ops, const Case& c) {
  return {ops, c.values<int32_t>("positions"), c.values<int32_t>("sequences"),
          c.values<int32_t>("page_tables"), c.dim("page_tables", 1)};
}

class Sparse : public OnEveryTable {};

TEST_P(Sparse, SelectKeysCases) {
  const std::unique_ptr<Ops> backends[] = {make_ops(GetParam(), 1),
                                           make_ops(GetParam(), 2)};
  INGOT_FOR_CASES("select_keys", c) {
    for (const auto& backend : backends) {
      const KvLayout layout{.n_kv_heads = 1,
                            .key_dim = c.param<int>("head_dim"),
                            .value_dim = 0,
                            .type = kv_type_named(c.param<std::string>("kv_type"))};
      const Memory pages = filled_pages(*backend, c, layout);
      TestRows q(*backend, c.dim("q", 0), c.dim("q", 1), c.floats("q"));
      TestRows weights(*backend, c.dim("weights", 0), c.dim("weights", 1),
                       c.floats("weights"));
      const std::vector<uint8_t> wanted = c.values<uint8_t>("bits");
      // Words that hold something else must be written whole.
      const Memory bits = upload(*backend, std::vector<uint8_t>(wanted.size(), 0xa5));
      backend->select_keys({bits.buffer(), c.dim("bits", 1) / 8}, q.rows, weights.rows,
                           {layout, pages.buffer()}, step_of(*backend, c).batch,
                           {.n_heads = c.param<int>("n_heads"),
                            .head_dim = layout.key_dim,
                            .top_k = c.param<int>("top_k"),
                            .scale = float(c.param<double>("scale"))});
      EXPECT_EQ(download<uint8_t>(*backend, bits, wanted.size()), wanted);
    }
  }
}

// As for attention without a selection (attention_test.cc): scores err by roundings of
// their terms, values are averages of numbers no larger than `largest`.
double bound_of(const Case& c) {
  float largest = 0.0f, key = 0.0f, query = 0.0f;
  for (float x : c.floats("k")) key = std::max(key, std::fabs(x));
  for (float x : c.floats("q")) query = std::max(query, std::fabs(x));
  for (float x : c.has("v") ? c.floats("v") : c.floats("k"))
    largest = std::max(largest, std::fabs(x));
  const double terms = 8 + 0.25 * c.param<int>("head_dim");
  const double score = double(query) * double(key) * c.param<double>("scale");
  return double(largest) * 0x1p-24 * (2 * score * terms + 40);
}

TEST_P(Sparse, AttentionCases) {
  INGOT_FOR_CASES("sparse_attention", c) {
    const KvLayout layout{.n_kv_heads = c.param<int>("n_kv_heads"),
                          .key_dim = c.param<int>("head_dim"),
                          .value_dim = c.param<int>("value_dim"),
                          .type = kv_type_named(c.param<std::string>("kv_type")),
                          .values_in_keys = c.param<bool>("values_in_keys")};
    const Memory pages = filled_pages(*ops, c, layout);
    TestRows q(*ops, c.dim("q", 0), c.dim("q", 1), c.floats("q"));
    TestRows out(*ops, c.dim("out", 0), c.dim("out", 1));
    AttentionArgs args{.n_heads = c.param<int>("n_heads"),
                       .head_dim = layout.key_dim,
                       .scale = float(c.param<double>("scale")),
                       .window = c.param<int>("window"),
                       .sinks = {}};
    Memory bits;
    if (c.has("bits")) {
      bits = upload(*ops, c.values<uint8_t>("bits"));
      args.selection = {bits.buffer(), c.dim("bits", 1) / 8};
    }
    ops->attention(out.rows, q.rows, {layout, pages.buffer()}, step_of(*ops, c).batch,
                   args);
    const std::vector<float> found = out.values(), wanted = c.floats("out");
    ASSERT_EQ(found.size(), wanted.size());
    const double bound = bound_of(c);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], bound) << "[" << i << "]";
  }
}

// ---- bits ---------------------------------------------------------------------------

constexpr int kLength = 1100, kFirst = 1030, kCount = kLength - kFirst;  // two splits
constexpr int kKvHeads = 2, kHeads = 6, kDim = 20, kValueDim = 12;

// One sequence, its keys and values, and queries at its end.
struct Sequence {
  explicit Sequence(Random& random)
      : table(shuffled_pages(kLength, random)),
        k(random.floats(kLength * kKvHeads * kDim)),
        v(random.floats(kLength * kKvHeads * kValueDim)),
        q(random.floats(kCount * kHeads * kDim, -3.0f, 3.0f)),
        n_words(int(table.size())) {}

  // Rows [at, at + count) of the step; `bits` of all rows, or none.
  std::vector<float> attend(Ops& ops, const KvLayout& layout,
                            const std::vector<uint64_t>& bits, int window, int at,
                            int count) const {
    const Memory pages = ops.allocate(kv_page_bytes(layout) * table.size());
    TestRows k_rows(ops, kLength, kKvHeads * kDim, k);
    TestRows v_rows(ops, kLength, kKvHeads * kValueDim, v);
    ops.kv_append({layout, pages.buffer()}, k_rows.rows, v_rows.rows,
                  TestBatch(ops, 0, kLength, table).batch);
    const int width = kHeads * kDim;
    TestRows queries(ops, count, width,
                     {q.begin() + at * width, q.begin() + (at + count) * width});
    TestRows out(ops, count, kHeads * kValueDim);
    const Memory words = upload(ops, bits);
    AttentionArgs args{.n_heads = kHeads,
                       .head_dim = kDim,
                       .scale = 0.2f,
                       .window = window,
                       .sinks = {}};
    if (!bits.empty()) {
      args.selection = {words.buffer(), n_words};
      args.selection.bits.offset += size_t(at * n_words) * sizeof(uint64_t);
    }
    ops.attention(out.rows, queries.rows, {layout, pages.buffer()},
                  TestBatch(ops, kFirst + at, count, table).batch, args);
    return out.values();
  }

  std::vector<int32_t> table;
  std::vector<float> k, v, q;
  int n_words;
};

std::vector<KvLayout> layouts() {
  std::vector<KvLayout> all;
  for (KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::q8})
    for (bool inside : {false, true})
      all.push_back({kKvHeads, kDim, kValueDim, type, inside});
  return all;
}

// Every density; each row keeps its own key.
std::vector<uint64_t> random_bits(int n_words, Random& random) {
  std::vector<uint64_t> bits(size_t(kCount * n_words), 0);
  for (int t = 0; t < kCount; ++t) {
    const int percent = std::vector<int>{3, 40, 95, 100}[size_t(random.below(4))];
    for (int j = 0; j < kLength; ++j)
      if (random.below(100) < percent || j == kFirst + t)
        bits[size_t(t * n_words + j / 64)] |= uint64_t{1} << j % 64;
    for (int i = 0; i < 4; ++i)
      bits[size_t(t * n_words + random.below((kFirst + t) / 64))] = 0;
  }
  return bits;
}

TEST_P(Sparse, AllSelectedIsNoSelection) {
  Random random(83);
  const Sequence s(random);
  const std::vector<uint64_t> all(size_t(kCount * s.n_words), ~uint64_t{0});
  for (const KvLayout& layout : layouts())
    for (int window : {0, 70, 1050})
      EXPECT_TRUE(same_bits(s.attend(*ops, layout, all, window, 0, kCount),
                            s.attend(*ops, layout, {}, window, 0, kCount)))
          << int(layout.type) << " " << window;
}

TEST_P(Sparse, AttentionHasTheSameBitsHoweverTheStepIsCut) {
  Random random(89);
  const Sequence s(random);
  const std::vector<uint64_t> bits = random_bits(s.n_words, random);
  for (const KvLayout& layout : layouts()) {
    const std::vector<float> whole = s.attend(*ops, layout, bits, 0, 0, kCount);
    for (int n_threads : {1, 2}) {
      const auto backend = make_ops(GetParam(), n_threads);
      for (int step : {1, 13, 64}) {
        std::vector<float> parts;
        for (int at = 0; at < kCount; at += step) {
          const std::vector<float> part =
              s.attend(*backend, layout, bits, 0, at, std::min(step, kCount - at));
          parts.insert(parts.end(), part.begin(), part.end());
        }
        EXPECT_TRUE(same_bits(parts, whole)) << int(layout.type) << " " << step;
      }
    }
  }
}

// Not even a NaN comes through.
TEST_P(Sparse, UnselectedKeysDoNotMatter) {
  Random random(97);
  Sequence s(random);
  std::vector<uint64_t> bits = random_bits(s.n_words, random);
  for (int t = 1; t < kCount; ++t)  // all rows select alike
    std::copy_n(bits.begin(), s.n_words, bits.begin() + t * s.n_words);
  std::vector<std::vector<float>> wanted;
  for (const KvLayout& layout : layouts())
    wanted.push_back(s.attend(*ops, layout, bits, 0, 0, kCount));
  for (int j = 0; j < kLength; ++j) {
    if ((bits[size_t(j / 64)] >> j % 64 & 1) != 0) continue;
    std::fill_n(s.k.begin() + j * kKvHeads * kDim, kKvHeads * kDim, NAN);
    std::fill_n(s.v.begin() + j * kKvHeads * kValueDim, kKvHeads * kValueDim, NAN);
  }
  for (size_t i = 0; i < layouts().size(); ++i)
    EXPECT_TRUE(same_bits(s.attend(*ops, layouts()[i], bits, 0, 0, kCount), wanted[i]));
}

// ---- selecting ----------------------------------------------------------------------

struct Index {
  static constexpr int kHeads = 3, kDim = 20, kTopK = 100;
  explicit Index(Random& random)
      : table(shuffled_pages(kLength, random)),
        k(random.floats(kLength * kDim)),
        q(random.floats(kCount * kHeads * kDim)),
        weights(random.floats(kCount * kHeads)) {}

  std::vector<uint64_t> select(Ops& ops, KvType type, int at, int count) const {
    const KvLayout layout{.n_kv_heads = 1, .key_dim = kDim, .value_dim = 0, .type = type};
    const Memory pages = ops.allocate(kv_page_bytes(layout) * table.size());
    TestRows keys(ops, kLength, kDim, k);
    ops.kv_append({layout, pages.buffer()}, keys.rows, {},
                  TestBatch(ops, 0, kLength, table).batch);
    const int width = kHeads * kDim;
    TestRows queries(ops, count, width,
                     {q.begin() + at * width, q.begin() + (at + count) * width});
    TestRows w(ops, count, kHeads,
               {weights.begin() + at * kHeads, weights.begin() + (at + count) * kHeads});
    const size_t n_words = table.size();
    const Memory bits = ops.allocate(size_t(count) * n_words * sizeof(uint64_t) + 1);
    ops.select_keys({bits.buffer(), int(n_words)}, queries.rows, w.rows,
                    {layout, pages.buffer()},
                    TestBatch(ops, kFirst + at, count, table).batch,
                    {.n_heads = kHeads, .head_dim = kDim, .top_k = kTopK, .scale = 0.2f});
    return download<uint64_t>(ops, bits, size_t(count) * n_words);
  }

  std::vector<int32_t> table;
  std::vector<float> k, q, weights;
};

TEST_P(Sparse, RowsSelectTheSameHoweverTheStepIsCut) {
  Random random(101);
  const Index index(random);
  for (KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::q8}) {
    const std::vector<uint64_t> whole = index.select(*ops, type, 0, kCount);
    for (int t = 0; t < kCount; ++t) {
      int n = 0;
      for (size_t i = 0; i < index.table.size(); ++i)
        n += std::popcount(whole[size_t(t) * index.table.size() + i]);
      EXPECT_EQ(n, Index::kTopK);
    }
    for (int n_threads : {1, 2, 3}) {
      const auto backend = make_ops(GetParam(), n_threads);
      for (int step : {1, 2, 13, kCount}) {
        std::vector<uint64_t> parts;
        for (int at = 0; at < kCount; at += step) {
          const auto part = index.select(*backend, type, at, std::min(step, kCount - at));
          parts.insert(parts.end(), part.begin(), part.end());
        }
        EXPECT_EQ(parts, whole) << int(type) << " " << step;
      }
    }
  }
}

// Then attention over nothing is NaN, and check_finite names the layer.
TEST_P(Sparse, AScoreThatIsNoNumberSelectsNothing) {
  Random random(103);
  for (bool of_query : {true, false}) {
    Index index(random);
    (of_query ? index.q[7] : index.k[11 * Index::kDim]) = NAN;
    const std::vector<uint64_t> bits = index.select(*ops, KvType::f32, 0, 2);
    const size_t n_words = index.table.size();
    for (size_t i = 0; i < n_words; ++i) EXPECT_EQ(bits[i], 0u);
    EXPECT_EQ(std::any_of(bits.begin() + int(n_words), bits.end(),
                          [](uint64_t word) { return word != 0; }),
              of_query);
  }
  const Sequence s(random);
  const std::vector<uint64_t> nothing(size_t(kCount * s.n_words), 0);
  for (float v : s.attend(*ops, layouts()[0], nothing, 0, 0, 1))
    EXPECT_TRUE(std::isnan(v));
}

INGOT_ON_EVERY_TABLE(Sparse);

}  // namespace
}  // namespace ingot
