// The keys that rows of sparse attention see.  A key's score is float32: each head's
// product by the kernels, then weight * relu(product) added head by head; so its bits do
// not depend on the keys and rows beside it.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"
#include "ops/cpu/kv_pages.h"

namespace ingot::cpu {
namespace {

// A row of queries and the pages it looks at.
struct Row {
  const Kernels& kernels;
  const PageParts& parts;
  const SelectKeysArgs& args;
  std::byte* pages;
  const int32_t* table;
  const float* queries;  // [n_heads, head_dim]
  const float* weights;  // [n_heads]
  int n_keys;
};

size_t scratch_floats(const SelectKeysArgs& args) {
  return size_t(kPageTokens) * size_t(args.head_dim + args.n_heads);
}

// scores[j] of the keys of pages [begin, end).  scratch: [scratch_floats].
void score_pages(const Row& row, int begin, int end, float* scores, float* scratch) {
  const int n_heads = row.args.n_heads;
  float* products = scratch + size_t(kPageTokens) * size_t(row.args.head_dim);
  for (int i = begin; i < end; ++i) {
    std::byte* page = row.pages + size_t(row.table[i]) * row.parts.page_bytes;
    const int n = std::min(kPageTokens, row.n_keys - i * kPageTokens);
    const float* keys = widened(row.kernels, row.parts.key_run(page, 0, 0), n, scratch);
    row.kernels.scores(row.queries, n_heads, float_run(keys, row.args.head_dim), n,
                       row.args.scale, products);
    float* out = scores + size_t(i) * kPageTokens;
    std::fill_n(out, n, 0.0f);
    for (int h = 0; h < n_heads; ++h) {
      const float weight = row.weights[h];
      const float* product = products + h * kPageTokens;
      for (int j = 0; j < n; ++j)  // a NaN stays
        out[j] += weight * (product[j] < 0.0f ? 0.0f : product[j]);
    }
  }
}

void select(uint64_t* bits, int key) {
  bits[key / kPageTokens] |= uint64_t{1} << key % kPageTokens;
}

// Sets the bits of the top_k best of n > top_k scores.  A NaN among them leaves all bits
// clear: attention then makes the row NaN, and the layer is named.  spare: [n].
void select_best(uint64_t* bits, const float* scores, int n, int top_k, float* spare) {
  if (std::any_of(scores, scores + n, [](float s) { return std::isnan(s); })) return;
  std::copy_n(scores, n, spare);
  std::nth_element(spare, spare + top_k - 1, spare + n, std::greater<>());
  const float least = spare[top_k - 1];
  int n_ties =
      top_k - int(std::count_if(scores, scores + n, [&](float s) { return s > least; }));
  for (int j = 0; j < n; ++j)
    if (scores[j] > least || (scores[j] == least && n_ties-- > 0)) select(bits, j);
}

}  // namespace

void CpuOps::grow_key_scores(int max_positions) {
  const size_t bytes = 2 * size_t(max_positions) * sizeof(float);
  for (ThreadScratch& s : scratch_)
    if (s.key_scores.buffer().bytes < bytes) s.key_scores = allocate(bytes);
}

void CpuOps::select_keys(const KeySelection& out, Rows q, Rows weights,
                         const KvPages& keys, const Batch& batch,
                         const SelectKeysArgs& args) {
  const PageParts parts(keys.layout);
  CHECK(keys.layout.n_kv_heads == 1 && keys.layout.key_dim == args.head_dim);
  CHECK(q.n_rows == batch.n_tokens && q.width == args.n_heads * args.head_dim);
  CHECK(weights.n_rows == batch.n_tokens && weights.width == args.n_heads);
  CHECK(args.top_k >= 1);
  int max_keys = 0;
  for (int t = 0; t < q.n_rows; ++t)
    max_keys = std::max(max_keys, host<const int32_t>(batch.positions)[t] + 1);
  grow_key_scores(max_keys);
  grow_attention_scratch(scratch_floats(args));
  const auto row_of = [&](int t) {
    const int n_keys = host<const int32_t>(batch.positions)[t] + 1;
    CHECK((n_keys - 1) / kPageTokens < std::min(batch.max_pages, out.n_words));
    return Row{kernels_,
               parts,
               args,
               host<std::byte>(keys.pages),
               page_table(batch, t),
               host_row(q, t),
               host_row(weights, t),
               n_keys};
  };
  const auto scratch_of = [&](int thread) {
    return host<float>(scratch_[size_t(thread)].attention.buffer());
  };
  const auto select_row = [&](int t, const Row& row, float* scores) {
    uint64_t* bits = host<uint64_t>(out.bits) + size_t(t) * size_t(out.n_words);
    std::fill_n(bits, out.n_words, uint64_t{0});
    if (row.n_keys > args.top_k)
      return select_best(bits, scores, row.n_keys, args.top_k, scores + max_keys);
    for (int j = 0; j < row.n_keys; ++j) select(bits, j);
  };
  const auto n_pages = [&](const Row& row) {  // that must be scored
    return row.n_keys > args.top_k ? (row.n_keys - 1) / kPageTokens + 1 : 0;
  };

  if (q.n_rows < pool_.n_threads()) {  // the threads share the pages of each row
    float* scores = host<float>(scratch_[0].key_scores.buffer());
    for (int t = 0; t < q.n_rows; ++t) {
      const Row row = row_of(t);
      pool_.parallel_for(
          n_pages(row), grain_of(int64_t{kPageTokens} * q.width), [&](WorkRange range) {
            score_pages(row, range.begin, range.end, scores, scratch_of(range.thread));
          });
      select_row(t, row, scores);
    }
    return;
  }
  const int64_t last = q.n_rows == 0 ? 0 : row_of(q.n_rows - 1).n_keys;
  pool_.parallel_for(q.n_rows, grain_of(last * q.width), [&](WorkRange range) {
    float* scores = host<float>(scratch_[size_t(range.thread)].key_scores.buffer());
    for (int t = range.begin; t < range.end; ++t) {
      const Row row = row_of(t);
      score_pages(row, 0, n_pages(row), scores, scratch_of(range.thread));
      select_row(t, row, scores);
    }
  });
}

}  // namespace ingot::cpu
