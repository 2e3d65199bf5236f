// Causal softmax attention over pages.  Keys are split at absolute multiples of
// kAttentionSplit; a running softmax goes page after page within a split, splits merge in
// order.  So a row's bits depend on its own position and pages alone.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"
#include "ops/cpu/kv_pages.h"
#include "ops/testing_faults.h"

namespace ingot::cpu {
namespace {

constexpr int kRowsPerItem = 8;  // rows that share widened keys
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A running softmax of each query.
struct Softmax {
  float* acc = nullptr;  // [n_queries, value_dim]
  float* max = nullptr;  // [n_queries]
  float* sum = nullptr;
  void clear(int n_queries, int value_dim) const {
    std::fill_n(acc, n_queries * value_dim, 0.0f);
    std::fill_n(max, n_queries, kMinusInfinity);
    std::fill_n(sum, n_queries, 0.0f);
  }
};

// Neighbouring rows of one sequence and the query heads of one KV head: they read the
// same keys and values, which are widened once for all.  Query r * group + g is row r's.
struct Work {
  const Kernels& kernels;
  const PageParts& parts;
  const AttentionArgs& args;
  std::byte* pages;
  int group;       // query heads that share the KV head
  float* queries;  // [n_rows * group, key_dim]
  float* scores;   // [n_rows * group, kPageTokens]
  float* keys;     // [kPageTokens, key_dim]
  float* values;   // [kPageTokens, value_dim]
  Softmax split;
  Softmax total;
  // Of the item at hand:
  const int32_t* table = nullptr;
  int kv_head = 0;
  int n_rows = 0;
  int position = 0;                    // of the first row
  const uint64_t* selected = nullptr;  // bits of the only row's keys; null: every key

  int n_queries() const { return n_rows * group; }
  // First key that row r sees.
  int begin(int r) const {
    const int window = args.window + (fault("window") ? 1 : 0);
    const int first = args.window > 0 ? std::max(0, position + r - window + 1) : 0;
    return fault("mask") && first < position + r ? first + 1 : first;
  }
  int end(int r) const { return position + r + 1; }
};

// exp(a - b), by the same code as every other weight.
float exp_of(const Kernels& k, float a, float b) {
  k.exp_sum(&a, 1, b);
  return a;
}

// A row of nothing but -inf has no largest score to subtract.
float shift_of(float largest) { return largest == kMinusInfinity ? 0.0f : largest; }

// One query meets keys [first, first + count) of a page, of which scores and values
// begin at first.
void add_to_softmax(const Work& w, int q, float* scores, const float* values, int count) {
  const int dim = w.parts.layout.value_dim;
  if (w.args.softcap > 0.0f) w.kernels.soft_cap(scores, count, w.args.softcap);
  const float largest = std::max(w.kernels.max(scores, count), w.split.max[q]);
  const float shift = shift_of(largest);
  const float rescale = exp_of(w.kernels, w.split.max[q], shift);
  w.split.sum[q] = w.split.sum[q] * rescale + w.kernels.exp_sum(scores, count, shift);
  w.split.max[q] = largest;
  w.kernels.accumulate(scores, count, values, dim, rescale, w.split.acc + q * dim);
}

// n keys and their values from slot `slot` on.
struct PageKeys {
  const float* keys;
  const float* values;
};
PageKeys read_keys(const Work& w, std::byte* page, int slot, int n) {
  const KvLayout& l = w.parts.layout;
  const float* keys =
      widened(w.kernels, w.parts.key_run(page, w.kv_head, slot), n, w.keys);
  if (!l.values_in_keys)
    return {keys,
            widened(w.kernels, w.parts.value_run(page, w.kv_head, slot), n, w.values)};
  for (int j = 0; j < n; ++j)
    std::copy_n(keys + j * l.key_dim, l.value_dim, w.values + j * l.value_dim);
  return {keys, w.values};
}

// The same of the keys whose bits are set, bit 0 being the key at `slot`, side by side.
PageKeys read_selected_keys(const Work& w, std::byte* page, int slot, uint64_t bits) {
  const KvLayout& l = w.parts.layout;
  int n = 0;
  while (bits != 0) {
    const int skip = std::countr_zero(bits);
    const int run = std::countr_one(bits >> skip);  // below 64: not all are set
    const int from = slot + skip;
    float* keys = w.keys + n * l.key_dim;
    float* values = w.values + n * l.value_dim;
    w.kernels.widen_kv(w.parts.key_run(page, w.kv_head, from), run, keys);
    if (!l.values_in_keys)
      w.kernels.widen_kv(w.parts.value_run(page, w.kv_head, from), run, values);
    else
      for (int j = 0; j < run; ++j)
        std::copy_n(keys + j * l.key_dim, l.value_dim, values + j * l.value_dim);
    n += run;
    bits &= ~(((uint64_t{1} << run) - 1) << skip);
  }
  return {w.keys, w.values};
}

// Keys [begin, end), all in one page, meet every row that sees them.
void add_page(const Work& w, int begin, int end) {
  const KvLayout& layout = w.parts.layout;
  std::byte* page = w.pages + size_t(w.table[begin / kPageTokens]) * w.parts.page_bytes;
  const PageKeys p = read_keys(w, page, begin % kPageTokens, end - begin);
  w.kernels.scores(w.queries, w.n_queries(), p.keys, end - begin, layout.key_dim,
                   w.args.scale, w.scores);
  for (int q = 0; q < w.n_queries(); ++q) {
    const int first = std::max(w.begin(q / w.group), begin) - begin;
    const int last = std::min(w.end(q / w.group), end) - begin;
    if (first < last)
      add_to_softmax(w, q, w.scores + q * kPageTokens + first,
                     p.values + first * layout.value_dim, last - first);
  }
}

// The same for the only row's selected keys among them.
void add_selected(const Work& w, int begin, int end) {
  const int slot = begin % kPageTokens;
  const uint64_t all = ~uint64_t{0} >> (kPageTokens - (end - begin));
  const uint64_t bits = (w.selected[begin / kPageTokens] >> slot) & all;
  if (bits == 0) return;
  if (bits == all) return add_page(w, begin, end);
  std::byte* page = w.pages + size_t(w.table[begin / kPageTokens]) * w.parts.page_bytes;
  const PageKeys p = read_selected_keys(w, page, slot, bits);
  const int n = std::popcount(bits);
  w.kernels.scores(w.queries, w.n_queries(), p.keys, n, w.parts.layout.key_dim,
                   w.args.scale, w.scores);
  for (int q = 0; q < w.n_queries(); ++q)
    add_to_softmax(w, q, w.scores + q * kPageTokens, p.values, n);
}

void merge_split(const Work& w, int q) {
  const int dim = w.parts.layout.value_dim;
  const float shift = shift_of(std::max(w.total.max[q], w.split.max[q]));
  const float old_factor = exp_of(w.kernels, w.total.max[q], shift);
  const float new_factor = exp_of(w.kernels, w.split.max[q], shift);
  w.total.sum[q] = w.total.sum[q] * old_factor + w.split.sum[q] * new_factor;
  w.total.max[q] = std::max(w.total.max[q], w.split.max[q]);
  float* acc = w.total.acc + q * dim;
  const float* part = w.split.acc + q * dim;
  for (int i = 0; i < dim; ++i) acc[i] = acc[i] * old_factor + part[i] * new_factor;
}

void finish(const Work& w, int q, float* out) {
  const int dim = w.parts.layout.value_dim;
  float factor = 1.0f;
  float sum = w.total.sum[q];
  if (w.args.sinks.data != nullptr) {
    const float sink = host<const float>(w.args.sinks)[w.kv_head * w.group + q % w.group];
    const float shift = shift_of(std::max(w.total.max[q], sink));
    factor = exp_of(w.kernels, w.total.max[q], shift);
    sum = sum * factor + exp_of(w.kernels, sink, shift);
  }
  for (int i = 0; i < dim; ++i) out[i] = w.total.acc[q * dim + i] * factor / sum;
}

// The keys that any row sees, split by split.  A row's own splits and pages are the same
// whichever rows stand beside it.
void attend(const Work& w) {
  const int dim = w.parts.layout.value_dim;
  const int last_end = w.end(w.n_rows - 1);
  w.total.clear(w.n_queries(), dim);
  int begin = w.begin(0);
  while (begin < last_end) {
    const int split_end =
        std::min(last_end, (begin / kAttentionSplit + 1) * kAttentionSplit);
    w.split.clear(w.n_queries(), dim);
    const int split_begin = begin;
    while (begin < split_end) {
      const int end = std::min(split_end, (begin / kPageTokens + 1) * kPageTokens);
      if (w.selected == nullptr)
        add_page(w, begin, end);
      else
        add_selected(w, begin, end);
      begin = end;
    }
    for (int q = 0; q < w.n_queries(); ++q)
      if (w.begin(q / w.group) < split_end && w.end(q / w.group) > split_begin)
        merge_split(w, q);
  }
}

// Floats of scratch that `n_queries` queries need.
size_t scratch_floats(const KvLayout& l, int n_queries) {
  const size_t per_query =
      size_t(l.key_dim) + kPageTokens + 2 * (size_t(l.value_dim) + 2);
  return size_t(n_queries) * per_query +
         size_t(kPageTokens) * size_t(l.key_dim + l.value_dim);
}

// Lays scratch out for items of at most n_rows rows.
Work make_work(const Kernels& kernels, const PageParts& parts, const AttentionArgs& args,
               std::byte* pages, int n_rows, float* scratch) {
  const KvLayout& l = parts.layout;
  const int group = args.n_heads / l.n_kv_heads;
  const int n = n_rows * group;
  const auto take = [&](int count) {
    float* taken = scratch;
    scratch += count;
    return taken;
  };
  return Work{.kernels = kernels,
              .parts = parts,
              .args = args,
              .pages = pages,
              .group = group,
              .queries = take(n * l.key_dim),
              .scores = take(n * kPageTokens),
              .keys = take(kPageTokens * l.key_dim),
              .values = take(kPageTokens * l.value_dim),
              .split = {take(n * l.value_dim), take(n), take(n)},
              .total = {take(n * l.value_dim), take(n), take(n)}};
}

// Rows [first, end) of one sequence, one KV head.
void attend_rows(Work& w, Rows out, Rows q, const Batch& batch, int first, int end) {
  const KvLayout& l = w.parts.layout;
  w.table = page_table(batch, first);
  w.n_rows = end - first;
  w.position = host<const int32_t>(batch.positions)[first];
  const KeySelection& selection = w.args.selection;
  if (selection.bits.data != nullptr) {
    CHECK(w.n_rows == 1 && w.position / kPageTokens < selection.n_words);
    w.selected =
        host<const uint64_t>(selection.bits) + size_t(first) * size_t(selection.n_words);
  }
  CHECK((w.position + w.n_rows - 1) / kPageTokens < batch.max_pages);
  const int row_floats = w.group * l.key_dim;
  for (int r = 0; r < w.n_rows; ++r)
    std::copy_n(host_row(q, first + r) + w.kv_head * row_floats, row_floats,
                w.queries + r * row_floats);
  attend(w);
  for (int i = 0; i < w.n_queries(); ++i)
    finish(w, i,
           host_row(out, first + i / w.group) +
               (w.kv_head * w.group + i % w.group) * l.value_dim);
}

}  // namespace

void CpuOps::grow_attention_scratch(size_t floats) {
  for (ThreadScratch& s : scratch_)
    if (s.attention.buffer().bytes < floats * sizeof(float))
      s.attention = allocate(floats * sizeof(float));
}

void CpuOps::kv_append(const KvPages& kv, Rows k, Rows v, const Batch& batch) {
  const PageParts parts(kv.layout);
  const KvLayout& l = kv.layout;
  CHECK(k.n_rows == batch.n_tokens && k.width == l.n_kv_heads * l.key_dim);
  const int value_dim = l.stored_value_dim();
  CHECK(value_dim == 0 ||
        (v.n_rows == batch.n_tokens && v.width == l.n_kv_heads * value_dim));
  const int32_t* positions = host<const int32_t>(batch.positions);
  std::byte* pages = host<std::byte>(kv.pages);
  for_rows(k.n_rows, l.n_kv_heads * (l.key_dim + value_dim), [&](int t) {
    const int page_index = positions[t] / kPageTokens;
    const int slot = positions[t] % kPageTokens;
    CHECK(page_index < batch.max_pages);
    std::byte* page = pages + size_t(page_table(batch, t)[page_index]) * parts.page_bytes;
    const size_t skip = size_t(slot) * element_bytes(l.type);
    for (int h = 0; h < l.n_kv_heads; ++h) {
      const float key_scale =
          kernels_.store(host_row(k, t) + h * l.key_dim, l.key_dim, l.type,
                         parts.keys(page, h) + skip * size_t(l.key_dim));
      if (parts.q8()) parts.key_scales(page, h)[slot] = key_scale;
      if (value_dim == 0) continue;
      const float value_scale =
          kernels_.store(host_row(v, t) + h * value_dim, value_dim, l.type,
                         parts.values(page, h) + skip * size_t(value_dim));
      if (parts.q8()) parts.value_scales(page, h)[slot] = value_scale;
    }
  });
}

void CpuOps::attention(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                       const AttentionArgs& args) {
  const PageParts parts(kv.layout);
  const KvLayout& l = kv.layout;
  CHECK(q.n_rows == batch.n_tokens && out.n_rows == batch.n_tokens);
  CHECK(args.head_dim == l.key_dim && args.n_heads % l.n_kv_heads == 0);
  CHECK(q.width == args.n_heads * l.key_dim && out.width == args.n_heads * l.value_dim);
  if (q.n_rows == 0) return;
  // Rows that share widened keys; fewer when there are threads to feed, one where each
  // has its own selection.
  const int n_items = q.n_rows * l.n_kv_heads;
  const int most = args.selection.bits.data == nullptr ? kRowsPerItem : 1;
  const int block = std::clamp(n_items / (4 * pool_.n_threads()), 1, most);
  const int n_blocks = (q.n_rows + block - 1) / block;
  grow_attention_scratch(scratch_floats(l, block * (args.n_heads / l.n_kv_heads)));
  const int32_t* sequences = host<const int32_t>(batch.sequences);
  const int n_keys = host<const int32_t>(batch.positions)[q.n_rows - 1] + 1;
  const int64_t products = int64_t{block} * (args.n_heads / l.n_kv_heads) *
                           (args.window > 0 ? std::min(args.window, n_keys) : n_keys) *
                           (l.key_dim + l.value_dim);
  pool_.parallel_for(n_blocks * l.n_kv_heads, grain_of(products), [&](WorkRange range) {
    Work w = make_work(kernels_, parts, args, host<std::byte>(kv.pages), block,
                       host<float>(scratch_[size_t(range.thread)].attention.buffer()));
    for (int item = range.begin; item < range.end; ++item) {
      w.kv_head = item % l.n_kv_heads;
      int first = item / l.n_kv_heads * block;
      const int block_end = std::min(first + block, q.n_rows);
      while (first < block_end) {  // a block may hold the end of one sequence and more
        int end = first + 1;
        while (end < block_end && sequences[end] == sequences[first]) ++end;
        attend_rows(w, out, q, batch, first, end);
        first = end;
      }
    }
  });
}

}  // namespace ingot::cpu
