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

constexpr int kQueriesPerItem = 64;  // that share widened keys, about
constexpr int kMostRowsPerItem = 32;
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

// Queries of one KV head and of neighbouring rows of one sequence: they read the same
// keys and values.  Query r * group + g of an item is row r's; one piece of work takes
// those from first_query on.
struct Work {
  const Kernels& kernels;
  const PageParts& parts;
  const AttentionArgs& args;
  std::byte* pages;
  int group;       // query heads that share the KV head
  float* queries;  // [n_queries, key_dim]
  float* scores;   // [n_queries, kPageTokens]
  float* keys;     // [kPageTokens, key_dim]
  float* values;   // [kPageTokens, value_dim]
  float* rescale;  // [n_queries]
  Softmax split;
  Softmax total;
  // Of the piece at hand:
  const int32_t* table = nullptr;
  int kv_head = 0;
  int first_query = 0;
  int n_queries = 0;
  int position = 0;                    // of row 0
  const uint64_t* selected = nullptr;  // bits of the only row's keys; null: every key

  int row(int q) const { return (first_query + q) / group; }
  // First key that query q sees, and the end of them.
  int begin(int q) const {
    const int window = args.window + (fault("window") ? 1 : 0);
    const int at = position + row(q);
    const int first = args.window > 0 ? std::max(0, at - window + 1) : 0;
    return fault("mask") && first < at ? first + 1 : first;
  }
  int end(int q) const { return position + row(q) + 1; }
};

// exp(a - b), by the same code as every other weight.
float exp_of(const Kernels& k, float a, float b) {
  k.exp_sum(&a, 1, b);
  return a;
}

// A row of nothing but -inf has no largest score to subtract.
float shift_of(float largest) { return largest == kMinusInfinity ? 0.0f : largest; }

// Turns the scores of `count` keys into weights; returns what the sums so far shrink by.
float add_to_softmax(const Work& w, int q, float* scores, int count) {
  if (w.args.softcap > 0.0f) w.kernels.soft_cap(scores, count, w.args.softcap);
  const float before = w.split.max[q];
  const float largest = std::max(w.kernels.max(scores, count), before);
  const float shift = shift_of(largest);
  // exp(0) is exactly 1.
  const float rescale = before == largest ? 1.0f : exp_of(w.kernels, before, shift);
  w.split.sum[q] = w.split.sum[q] * rescale + w.kernels.exp_sum(scores, count, shift);
  w.split.max[q] = largest;
  return rescale;
}

// n keys and their values from slot `slot` on.
struct PageKeys {
  KvRun keys;
  KvRun values;
};

// A run as the kernels take it: as it lies, or widened.
KvRun readable(const Work& w, const KvRun& run, bool f16, int n, float* scratch) {
  if (run.type == KvType::f32 || (run.type == KvType::f16 && f16)) return run;
  w.kernels.widen_kv(run, n, scratch);
  return float_run(scratch, run.dim);
}

PageKeys read_keys(const Work& w, std::byte* page, int slot, int n) {
  const KvLayout& l = w.parts.layout;
  const KvRun stored = w.parts.key_run(page, w.kv_head, slot);
  // Many queries load each key many times over: widening it once pays.  A value is loaded
  // once for all that registers hold.
  constexpr int kFewQueries = 8;
  const bool f16 = w.kernels.reads_f16_runs;
  if (!l.values_in_keys)
    return {
        readable(w, stored, f16 && w.n_queries <= kFewQueries, n, w.keys),
        readable(w, w.parts.value_run(page, w.kv_head, slot), f16, n, w.values),
    };
  const float* keys = widened(w.kernels, stored, n, w.keys);
  for (int j = 0; j < n; ++j)
    std::copy_n(keys + j * l.key_dim, l.value_dim, w.values + j * l.value_dim);
  return {float_run(keys, l.key_dim), float_run(w.values, l.value_dim)};
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
  return {float_run(w.keys, l.key_dim), float_run(w.values, l.value_dim)};
}

// Queries [first, first + n) add the same keys [begin, begin + count) of a page whose
// scores are there.
void add_values(const Work& w, int first, int n, const PageKeys& p, int begin,
                int count) {
  const int dim = w.parts.layout.value_dim;
  for (int q = first; q < first + n; ++q)
    w.rescale[q] = add_to_softmax(w, q, w.scores + q * kPageTokens + begin, count);
  KvRun values = p.values;
  values.data += size_t(begin) * size_t(dim) * element_bytes(values.type);
  w.kernels.accumulate_run(w.scores + first * kPageTokens + begin, n, values, count,
                           w.rescale + first, w.split.acc + first * dim);
}

// Keys [begin, end), all in one page, meet every query that sees them.
void add_page(const Work& w, int begin, int end) {
  std::byte* page = w.pages + size_t(w.table[begin / kPageTokens]) * w.parts.page_bytes;
  const PageKeys p = read_keys(w, page, begin % kPageTokens, end - begin);
  w.kernels.scores(w.queries, w.n_queries, p.keys, end - begin, w.args.scale, w.scores);
  for (int q = 0; q < w.n_queries;) {  // those that see the same keys together
    const int first = std::max(w.begin(q), begin) - begin;
    const int last = std::min(w.end(q), end) - begin;
    int next = q + 1;
    while (next < w.n_queries && std::max(w.begin(next), begin) - begin == first &&
           std::min(w.end(next), end) - begin == last)
      ++next;
    if (first < last) add_values(w, q, next - q, p, first, last - first);
    q = next;
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
  w.kernels.scores(w.queries, w.n_queries, p.keys, n, w.args.scale, w.scores);
  add_values(w, 0, w.n_queries, p, 0, n);
}

// The keys of one split that any query sees, page after page.  A row's own pages are the
// same whichever rows stand beside it.
void attend_split(const Work& w, int split) {
  w.split.clear(w.n_queries, w.parts.layout.value_dim);
  int begin = std::max(w.begin(0), split * kAttentionSplit);
  const int split_end = std::min(w.end(w.n_queries - 1), (split + 1) * kAttentionSplit);
  while (begin < split_end) {
    const int end = std::min(split_end, (begin / kPageTokens + 1) * kPageTokens);
    if (w.selected == nullptr)
      add_page(w, begin, end);
    else
      add_selected(w, begin, end);
    begin = end;
  }
}

// Query `from` of a split joins query `to` of a total.
void merge_split(const Kernels& kernels, const Softmax& total, int to,
                 const Softmax& split, int from, int dim) {
  const float shift = shift_of(std::max(total.max[to], split.max[from]));
  const float old_factor = exp_of(kernels, total.max[to], shift);
  const float new_factor = exp_of(kernels, split.max[from], shift);
  total.sum[to] = total.sum[to] * old_factor + split.sum[from] * new_factor;
  total.max[to] = std::max(total.max[to], split.max[from]);
  float* acc = total.acc + to * dim;
  const float* part = split.acc + from * dim;
  for (int i = 0; i < dim; ++i) acc[i] = acc[i] * old_factor + part[i] * new_factor;
}

void finish(const Work& w, int q, float* out) {
  const int dim = w.parts.layout.value_dim;
  float factor = 1.0f;
  float sum = w.total.sum[q];
  if (w.args.sinks.data != nullptr) {
    const int head = w.kv_head * w.group + (w.first_query + q) % w.group;
    const float sink = host<const float>(w.args.sinks)[head];
    const float shift = shift_of(std::max(w.total.max[q], sink));
    factor = exp_of(w.kernels, w.total.max[q], shift);
    sum = sum * factor + exp_of(w.kernels, sink, shift);
  }
  for (int i = 0; i < dim; ++i) out[i] = w.total.acc[q * dim + i] * factor / sum;
}

// Whether query q sees any key of the split.
bool sees(const Work& w, int q, int split) {
  return w.begin(q) < (split + 1) * kAttentionSplit && w.end(q) > split * kAttentionSplit;
}

int first_split(const Work& w) { return w.begin(0) / kAttentionSplit; }
int end_split(const Work& w) {
  return (w.end(w.n_queries - 1) - 1) / kAttentionSplit + 1;
}

// Floats of scratch that `n_queries` queries need.
size_t scratch_floats(const KvLayout& l, int n_queries) {
  const size_t per_query =
      size_t(l.key_dim) + kPageTokens + 1 + 2 * (size_t(l.value_dim) + 2);
  return size_t(n_queries) * per_query +
         size_t(kPageTokens) * size_t(l.key_dim + l.value_dim);
}

// Softmaxes of `n` queries that lie at `floats`.
Softmax softmax_at(float* floats, int n, int dim) {
  return {floats, floats + n * dim, floats + n * (dim + 1)};
}

// Lays scratch out for items of at most `n` queries.
Work make_work(const Kernels& kernels, const PageParts& parts, const AttentionArgs& args,
               std::byte* pages, int n, float* scratch) {
  const KvLayout& l = parts.layout;
  const auto take = [&](int count) {
    float* taken = scratch;
    scratch += count;
    return taken;
  };
  return Work{.kernels = kernels,
              .parts = parts,
              .args = args,
              .pages = pages,
              .group = args.n_heads / l.n_kv_heads,
              .queries = take(n * l.key_dim),
              .scores = take(n * kPageTokens),
              .keys = take(kPageTokens * l.key_dim),
              .values = take(kPageTokens * l.value_dim),
              .rescale = take(n),
              .split = softmax_at(take(n * (l.value_dim + 2)), n, l.value_dim),
              .total = softmax_at(take(n * (l.value_dim + 2)), n, l.value_dim)};
}

// Queries [begin, end) of rows [first, ...) of one sequence and one KV head.
void take_queries(Work& w, Rows q, const Batch& batch, int first, int begin, int end) {
  const KvLayout& l = w.parts.layout;
  w.table = page_table(batch, first);
  w.first_query = begin;
  w.n_queries = end - begin;
  w.position = host<const int32_t>(batch.positions)[first];
  CHECK((w.end(w.n_queries - 1) - 1) / kPageTokens < batch.max_pages);
  const KeySelection& selection = w.args.selection;
  if (selection.bits.data != nullptr) {
    CHECK(w.row(w.n_queries - 1) == 0 && w.position / kPageTokens < selection.n_words);
    w.selected =
        host<const uint64_t>(selection.bits) + size_t(first) * size_t(selection.n_words);
  }
  for (int i = 0; i < w.n_queries; ++i)
    std::copy_n(host_row(q, first + w.row(i)) +
                    (w.kv_head * w.group + (begin + i) % w.group) * l.key_dim,
                l.key_dim, w.queries + i * l.key_dim);
}

void give_results(const Work& w, Rows out, int first) {
  for (int i = 0; i < w.n_queries; ++i)
    finish(w, i,
           host_row(out, first + w.row(i)) +
               (w.kv_head * w.group + (w.first_query + i) % w.group) *
                   w.parts.layout.value_dim);
}

// Rows [first, end) of one sequence, one KV head.
void attend_rows(Work& w, Rows out, Rows q, const Batch& batch, int first, int end) {
  const int dim = w.parts.layout.value_dim;
  take_queries(w, q, batch, first, 0, (end - first) * w.group);
  w.total.clear(w.n_queries, dim);
  for (int split = first_split(w); split < end_split(w); ++split) {
    attend_split(w, split);
    for (int i = 0; i < w.n_queries; ++i)
      if (sees(w, i, split)) merge_split(w.kernels, w.total, i, w.split, i, dim);
  }
  give_results(w, out, first);
}

// The end of the rows from `first` on, below `end`, that belong to one sequence.
int same_sequence(const int32_t* sequences, int first, int end) {
  int last = first + 1;
  while (last < end && sequences[last] == sequences[first]) ++last;
  return last;
}

}  // namespace

void CpuOps::grow_attention_scratch(size_t floats) {
  for (ThreadScratch& s : scratch_)
    if (s.attention.buffer().bytes < floats * sizeof(float))
      s.attention = allocate(floats * sizeof(float));
}

void CpuOps::grow_attention_parts(size_t floats) {
  if (attention_parts_.buffer().bytes < floats * sizeof(float))
    attention_parts_ = allocate(floats * sizeof(float));
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

// Many rows: a block of them and a KV head is one item.
void CpuOps::attend_blocks(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                           const AttentionArgs& args) {
  const PageParts parts(kv.layout);
  const KvLayout& l = kv.layout;
  // Fewer rows when there are threads to feed, one where each has its own selection.
  const int group = args.n_heads / l.n_kv_heads;
  const int n_items = q.n_rows * l.n_kv_heads;
  const int most = args.selection.bits.data == nullptr
                       ? std::clamp(kQueriesPerItem / group, 1, kMostRowsPerItem)
                       : 1;
  const int block = std::clamp(n_items / (4 * pool_.n_threads()), 1, most);
  const int n_blocks = (q.n_rows + block - 1) / block;
  grow_attention_scratch(scratch_floats(l, block * group));
  const int32_t* sequences = host<const int32_t>(batch.sequences);
  const int n_keys = host<const int32_t>(batch.positions)[q.n_rows - 1] + 1;
  const int64_t products = int64_t{block} * group *
                           (args.window > 0 ? std::min(args.window, n_keys) : n_keys) *
                           (l.key_dim + l.value_dim);
  pool_.parallel_for(n_blocks * l.n_kv_heads, grain_of(products), [&](WorkRange range) {
    Work w = make_work(kernels_, parts, args, host<std::byte>(kv.pages), block * group,
                       host<float>(scratch_[size_t(range.thread)].attention.buffer()));
    for (int item = range.begin; item < range.end; ++item) {
      w.kv_head = item / n_blocks;
      int first = item % n_blocks * block;
      const int block_end = std::min(first + block, q.n_rows);
      while (first < block_end) {  // a block may hold the end of one sequence and more
        const int end = same_sequence(sequences, first, block_end);
        attend_rows(w, out, q, batch, first, end);
        first = end;
      }
    }
  });
}

// A few rows of one sequence: the units of work are a split, a KV head and a query, dealt
// evenly; a thread takes those of one split and head together.  Then splits are merged.
void CpuOps::attend_splits(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                           const AttentionArgs& args) {
  const PageParts parts(kv.layout);
  const KvLayout& l = kv.layout;
  const int n_queries = q.n_rows * (args.n_heads / l.n_kv_heads);
  const int n_all = n_queries * l.n_kv_heads;
  const int dim = l.value_dim;
  const auto make = [&](int thread) {
    return make_work(kernels_, parts, args, host<std::byte>(kv.pages), n_queries,
                     host<float>(scratch_[size_t(thread)].attention.buffer()));
  };
  grow_attention_scratch(scratch_floats(l, n_queries));
  Work all = make(0);  // for the range of splits; its queries are not looked at
  all.n_queries = n_queries;
  all.position = host<const int32_t>(batch.positions)[0];
  const int first = first_split(all);
  const int n_splits = end_split(all) - first;
  grow_attention_parts(size_t(n_splits) * size_t(n_all) * size_t(dim + 2));
  float* floats = host<float>(attention_parts_.buffer());
  const auto part = [&](int split, int kv_head) {
    const int place = (split - first) * l.n_kv_heads + kv_head;
    return softmax_at(floats + size_t(place) * size_t(n_queries) * size_t(dim + 2),
                      n_queries, dim);
  };
  const int n_keys = std::min(all.end(n_queries - 1), kAttentionSplit);
  const int64_t products = int64_t{n_keys} * (l.key_dim + dim);
  pool_.parallel_for(n_splits * n_all, grain_of(products), [&](WorkRange range) {
    Work w = make(range.thread);
    for (int unit = range.begin; unit < range.end;) {
      const int begin = unit % n_queries;
      const int end = std::min(n_queries, begin + range.end - unit);
      const int split = first + unit / n_all;
      w.kv_head = unit % n_all / n_queries;
      take_queries(w, q, batch, 0, begin, end);
      const Softmax to = part(split, w.kv_head);
      w.split = {to.acc + begin * dim, to.max + begin, to.sum + begin};
      attend_split(w, split);
      unit += end - begin;
    }
  });
  for (all.kv_head = 0; all.kv_head < l.n_kv_heads; ++all.kv_head) {
    all.total.clear(n_queries, dim);
    for (int split = first; split < first + n_splits; ++split)
      for (int i = 0; i < n_queries; ++i)
        if (sees(all, i, split))
          merge_split(kernels_, all.total, i, part(split, all.kv_head), i, dim);
    give_results(all, out, 0);
  }
}

void CpuOps::attention(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                       const AttentionArgs& args) {
  const KvLayout& l = kv.layout;
  CHECK(q.n_rows == batch.n_tokens && out.n_rows == batch.n_tokens);
  CHECK(args.head_dim == l.key_dim && args.n_heads % l.n_kv_heads == 0);
  CHECK(q.width == args.n_heads * l.key_dim && out.width == args.n_heads * l.value_dim);
  if (q.n_rows == 0) return;
  const int32_t* sequences = host<const int32_t>(batch.sequences);
  const bool own_keys = args.selection.bits.data != nullptr && q.n_rows > 1;
  if (q.n_rows <= kFewAttentionRows && !own_keys && !switched("no_splits") &&
      same_sequence(sequences, 0, q.n_rows) == q.n_rows)
    attend_splits(out, q, kv, batch, args);
  else
    attend_blocks(out, q, kv, batch, args);
}

}  // namespace ingot::cpu
