// Causal softmax attention over pages.  Keys are split at absolute multiples of
// kAttentionSplit; a running softmax goes page after page within a split, splits merge in
// order.  So a row's bits depend on its own position and pages alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"

namespace ingot::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

size_t element_bytes(KvType type) {
  return type == KvType::f32 ? 4 : type == KvType::q8 ? 1 : 2;
}

// Where the parts of a page lie.
struct PageParts {
  explicit PageParts(const KvLayout& l)
      : layout(l),
        key_bytes(size_t(kPageTokens) * size_t(l.key_dim) * element_bytes(l.type)),
        value_bytes(size_t(kPageTokens) * size_t(l.value_dim) * element_bytes(l.type)),
        page_bytes(kv_page_bytes(l)) {}

  std::byte* keys(std::byte* page, int head) const {
    return page + size_t(head) * key_bytes;
  }
  std::byte* values(std::byte* page, int head) const {
    return page + size_t(layout.n_kv_heads) * key_bytes + size_t(head) * value_bytes;
  }
  float* key_scales(std::byte* page, int head) const {
    return reinterpret_cast<float*>(page + size_t(layout.n_kv_heads) *
                                               (key_bytes + value_bytes)) +
           head * kPageTokens;
  }
  float* value_scales(std::byte* page, int head) const {
    return key_scales(page, layout.n_kv_heads + head);
  }

  KvLayout layout;
  size_t key_bytes, value_bytes, page_bytes;
};

const int32_t* page_table(const Batch& batch, int row) {
  const int sequence = host<const int32_t>(batch.sequences)[row];
  return host<const int32_t>(batch.page_tables) +
         size_t(sequence) * size_t(batch.max_pages);
}

// The running softmax of the query heads that share a KV head.
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

struct Work {
  const Kernels& kernels;
  const PageParts& parts;
  const AttentionArgs& args;
  std::byte* pages;
  const int32_t* table;
  const float* queries;
  int n_queries;
  int kv_head;
  float* scores;   // [n_queries, kPageTokens]
  float* rescale;  // [n_queries]
  Softmax split;
  Softmax total;
};

float exp_of(const Kernels& k, float x) {
  k.exp_sum(&x, 1, 0.0f);
  return x;
}

// An all -inf row has no largest score to subtract.
float shift_of(float largest) { return largest == kMinusInfinity ? 0.0f : largest; }

void add_page(const Work& w, int page_index, int first, int count) {
  const KvLayout& layout = w.parts.layout;
  std::byte* page = w.pages + size_t(w.table[page_index]) * w.parts.page_bytes;
  const bool q8 = layout.type == KvType::q8;
  const size_t skip = size_t(first) * element_bytes(layout.type);
  const KvRun keys{w.parts.keys(page, w.kv_head) + skip * size_t(layout.key_dim),
                   q8 ? w.parts.key_scales(page, w.kv_head) + first : nullptr,
                   layout.type, layout.key_dim};
  const KvRun values{w.parts.values(page, w.kv_head) + skip * size_t(layout.value_dim),
                     q8 ? w.parts.value_scales(page, w.kv_head) + first : nullptr,
                     layout.type, layout.value_dim};
  w.kernels.scores(w.queries, size_t(layout.key_dim), w.n_queries, keys, count,
                   w.args.scale, w.scores);
  for (int q = 0; q < w.n_queries; ++q) {
    float* scores = w.scores + q * kPageTokens;
    if (w.args.softcap > 0.0f) w.kernels.soft_cap(scores, count, w.args.softcap);
    const float page_max = w.kernels.max(scores, count);
    const float largest = std::max(page_max, w.split.max[q]);
    const float shift = shift_of(largest);
    w.rescale[q] = exp_of(w.kernels, w.split.max[q] - shift);
    w.split.sum[q] =
        w.split.sum[q] * w.rescale[q] + w.kernels.exp_sum(scores, count, shift);
    w.split.max[q] = largest;
  }
  w.kernels.accumulate(w.scores, w.rescale, w.n_queries, values, count, w.split.acc,
                       size_t(layout.value_dim));
}

void merge_split(const Work& w) {
  const int dim = w.parts.layout.value_dim;
  for (int q = 0; q < w.n_queries; ++q) {
    const float largest = std::max(w.total.max[q], w.split.max[q]);
    const float shift = shift_of(largest);
    const float old_factor = exp_of(w.kernels, w.total.max[q] - shift);
    const float new_factor = exp_of(w.kernels, w.split.max[q] - shift);
    w.total.sum[q] = w.total.sum[q] * old_factor + w.split.sum[q] * new_factor;
    w.total.max[q] = largest;
    float* acc = w.total.acc + q * dim;
    const float* part = w.split.acc + q * dim;
    for (int i = 0; i < dim; ++i) acc[i] = acc[i] * old_factor + part[i] * new_factor;
  }
}

void finish(const Work& w, float* out) {
  const int dim = w.parts.layout.value_dim;
  for (int q = 0; q < w.n_queries; ++q) {
    float factor = 1.0f;
    float sum = w.total.sum[q];
    if (w.args.sinks.data != nullptr) {
      const float sink = host<const float>(w.args.sinks)[w.kv_head * w.n_queries + q];
      const float shift = shift_of(std::max(w.total.max[q], sink));
      factor = exp_of(w.kernels, w.total.max[q] - shift);
      sum = sum * factor + exp_of(w.kernels, sink - shift);
    }
    for (int i = 0; i < dim; ++i)
      out[q * dim + i] = w.total.acc[q * dim + i] * factor / sum;
  }
}

void attend(const Work& w, int position, float* out) {
  const int dim = w.parts.layout.value_dim;
  const int begin = w.args.window > 0 ? std::max(0, position - w.args.window + 1) : 0;
  w.total.clear(w.n_queries, dim);
  for (int split = begin / kAttentionSplit; split <= position / kAttentionSplit;
       ++split) {
    w.split.clear(w.n_queries, dim);
    const int split_begin = std::max(begin, split * kAttentionSplit);
    const int split_end = std::min(position + 1, (split + 1) * kAttentionSplit);
    for (int page = split_begin / kPageTokens; page * kPageTokens < split_end; ++page) {
      const int first = std::max(split_begin - page * kPageTokens, 0);
      const int end = std::min(split_end - page * kPageTokens, kPageTokens);
      add_page(w, page, first, end - first);
    }
    merge_split(w);
  }
  finish(w, out);
}

}  // namespace

void CpuOps::grow_attention_scratch(size_t floats) {
  for (ThreadScratch& s : scratch_)
    s.attention.resize(std::max(s.attention.size(), floats));
}

void CpuOps::kv_append(const KvPages& kv, Rows k, Rows v, const Batch& batch) {
  const PageParts parts(kv.layout);
  const KvLayout& l = kv.layout;
  CHECK(k.n_rows == batch.n_tokens && v.n_rows == batch.n_tokens);
  CHECK(k.width == l.n_kv_heads * l.key_dim && v.width == l.n_kv_heads * l.value_dim);
  const int32_t* positions = host<const int32_t>(batch.positions);
  std::byte* pages = host<std::byte>(kv.pages);
  for_rows(k.n_rows, k.width + v.width, [&](int t) {
    const int page_index = positions[t] / kPageTokens;
    const int slot = positions[t] % kPageTokens;
    CHECK(page_index < batch.max_pages);
    std::byte* page = pages + size_t(page_table(batch, t)[page_index]) * parts.page_bytes;
    const size_t skip = size_t(slot) * element_bytes(l.type);
    for (int h = 0; h < l.n_kv_heads; ++h) {
      const float key_scale =
          kernels_.store(host_row(k, t) + h * l.key_dim, l.key_dim, l.type,
                         parts.keys(page, h) + skip * size_t(l.key_dim));
      const float value_scale =
          kernels_.store(host_row(v, t) + h * l.value_dim, l.value_dim, l.type,
                         parts.values(page, h) + skip * size_t(l.value_dim));
      if (l.type != KvType::q8) continue;
      parts.key_scales(page, h)[slot] = key_scale;
      parts.value_scales(page, h)[slot] = value_scale;
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
  const int n_queries = args.n_heads / l.n_kv_heads;
  const size_t per_query = size_t(kPageTokens) + 2 * size_t(l.value_dim) + 5;
  grow_attention_scratch(size_t(n_queries) * per_query);
  const int32_t* positions = host<const int32_t>(batch.positions);
  pool_.parallel_for(q.n_rows * l.n_kv_heads, 1, [&](WorkRange range) {
    float* scratch = scratch_[size_t(range.thread)].attention.data();
    const auto take = [&](int count) {
      float* taken = scratch;
      scratch += count;
      return taken;
    };
    Work w{.kernels = kernels_,
           .parts = parts,
           .args = args,
           .pages = host<std::byte>(kv.pages),
           .table = nullptr,
           .queries = nullptr,
           .n_queries = n_queries,
           .kv_head = 0,
           .scores = take(n_queries * kPageTokens),
           .rescale = take(n_queries),
           .split = {take(n_queries * l.value_dim), take(n_queries), take(n_queries)},
           .total = {take(n_queries * l.value_dim), take(n_queries), take(n_queries)}};
    for (int item = range.begin; item < range.end; ++item) {
      const int row = item / l.n_kv_heads;
      w.kv_head = item % l.n_kv_heads;
      w.table = page_table(batch, row);
      w.queries = host_row(q, row) + w.kv_head * n_queries * l.key_dim;
      attend(w, positions[row], host_row(out, row) + w.kv_head * n_queries * l.value_dim);
    }
  });
}

}  // namespace ingot::cpu
