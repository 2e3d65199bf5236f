// The gated delta rule in the page form of design.md: S stands at the page's start, and a
// row is computed from S and the page's rows up to it.  For row i of a page, with
// d_j = exp(g_{j+1} + ... + g_i) and d_S = exp(g_0 + ... + g_i), both summed from i down:
//
//   u_i = beta_i (v_i - (sum over j = i-1 .. 0 of (d_j k_i.k_j) u_j + d_S k_i S))
//   o_i = sum over j = i .. 0 of (d_j q_i.k_j) u_j + d_S q_i S
//   S'  = sum over j = 63 .. 0 of (d_j k_j) u_j + d_S S, for i = 63
//
// Sums go in the order written, one chain a column; S's term comes last.  Rows are
// computed some at a time, so that S is read once for several; that changes no order.
#include <cmath>

#include "base/check.h"
#include "ops/cpu/for_rows.h"
#include "ops/cpu/recurrent_state.h"

namespace ingot::cpu {
namespace {

constexpr int kRowsAtOnce = 16;
constexpr int kOutputsAtOnce = 4;

// What one value head needs for some rows of a page.
struct Work {
  const Kernels& kernels;
  const RecurrentState& state;
  const GatedDeltaArgs& args;
  Rows out, qkv, b, a;
  float* rows;          // [2 * kRowsAtOnce, key_dim]: k of a row, then its q
  float* through;       // [2 * kRowsAtOnce, value_dim]: rows times S
  float* products;      // [2 * kRowsAtOnce, kPageTokens]: rows times the page's keys
  float* keys;          // [kPageTokens, key_dim]: of this batch's rows in the page
  float* decays;        // [kPageTokens + 1]: d_j of a row, then d_S
  float* state_decays;  // [kRowsAtOnce]: d_S of each row
  float* sum;           // [value_dim]
  // Of the page at hand:
  int value_head = 0;
  int key_head = 0;
  RecurrentPage page = {};
  PageRows at = {};

  int key_dim() const { return state.layout.key_dim; }
  int value_dim() const { return state.layout.value_dim; }
};

size_t scratch_floats(const RecurrentLayout& l) {
  return size_t(l.key_dim) * (2 * kRowsAtOnce + kPageTokens) +
         size_t(l.value_dim) * (2 * kRowsAtOnce + 1) + 2 * kRowsAtOnce * kPageTokens +
         kPageTokens + 1 + kRowsAtOnce;
}

Work make_work(const Kernels& kernels, const RecurrentState& state,
               const GatedDeltaArgs& args, float* scratch) {
  const auto take = [&](int count) {
    float* taken = scratch;
    scratch += count;
    return taken;
  };
  const RecurrentLayout& l = state.layout;
  return Work{.kernels = kernels,
              .state = state,
              .args = args,
              .out = {},
              .qkv = {},
              .b = {},
              .a = {},
              .rows = take(2 * kRowsAtOnce * l.key_dim),
              .through = take(2 * kRowsAtOnce * l.value_dim),
              .products = take(2 * kRowsAtOnce * kPageTokens),
              .keys = take(kPageTokens * l.key_dim),
              .decays = take(kPageTokens + 1),
              .state_decays = take(kRowsAtOnce),
              .sum = take(l.value_dim)};
}

// out = x / sqrt(sum x^2 + eps) * scale
void normalise(const Kernels& kernels, const float* x, int n, float eps, double scale,
               float* out) {
  const double square = kernels.sum_squares(x, n, 0.0) + double(eps);
  const float factor = float(scale / std::sqrt(square));
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor;
}

float sigmoid(float x) { return float(1.0 / (1.0 + std::exp(-double(x)))); }

double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

// out[j] = d_j for j < i, out[i] = d_S.
void decay_factors(const Kernels& kernels, const float* log_decays, int i, float* out) {
  float sum = 0.0f;
  for (int j = i; j > 0; --j) {
    sum += log_decays[j];
    out[j - 1] = sum;
  }
  out[i] = sum + log_decays[0];
  kernels.exp_sum(out, i + 1, 0.0f);
}

// Rows [begin, begin + count) of the page's part: k and q, and what they give with S and
// with the keys up to the last of them.
void start_rows(const Work& w, int begin, int count) {
  const int dim = w.key_dim();
  const int first_slot = w.at.slot + begin;
  const int key_width = w.state.layout.n_key_heads * dim;
  for (int r = 0; r < count; ++r) {
    const float* row = host_row(w.qkv, w.at.first + begin + r) + w.key_head * dim;
    float* k = w.rows + 2 * r * dim;
    normalise(w.kernels, row + key_width, dim, w.args.l2_eps, 1.0, k);
    normalise(w.kernels, row, dim, w.args.l2_eps, 1.0 / std::sqrt(double(dim)), k + dim);
    std::copy_n(k, dim, w.keys + (first_slot + r) * dim);
  }
  std::fill_n(w.through, 2 * count * w.value_dim(), 0.0f);
  w.kernels.add_weighted({.weights = w.rows,
                          .row_step = dim,
                          .term_step = 1,
                          .values = w.page.state(w.value_head),
                          .value_step = w.value_dim(),
                          .n_terms = dim,
                          .n_rows = 2 * count,
                          .dim = w.value_dim(),
                          .out = w.through,
                          .out_step = w.value_dim()});
  // Keys of earlier batches are in the state, this one's are not yet.
  w.kernels.scores(w.rows, 2 * count, float_run(w.page.keys(w.key_head), dim), w.at.slot,
                   1.0f, w.products);
  w.kernels.scores(w.rows, 2 * count, float_run(w.keys + w.at.slot * dim, dim),
                   begin + count, 1.0f, w.products + w.at.slot);
}

// u and g of row begin + r.
void solve_row(const Work& w, int begin, int r) {
  const int t = w.at.first + begin + r;
  const int slot = w.at.slot + begin + r;
  const int dim = w.value_dim();
  float* log_decays = w.page.log_decays(w.value_head);
  const double step = double(host_row(w.a, t)[w.value_head]) +
                      double(host<const float>(w.args.dt_bias)[w.value_head]);
  log_decays[slot] =
      float(double(host<const float>(w.args.decay)[w.value_head]) * softplus(step));
  decay_factors(w.kernels, log_decays, slot, w.decays);
  float* with_k = w.products + 2 * r * kPageTokens;
  float* with_q = with_k + kPageTokens;
  for (int j = 0; j < slot; ++j) {
    with_k[j] *= w.decays[j];
    with_q[j] *= w.decays[j];
  }
  float* updates = w.page.updates(w.value_head);
  std::fill_n(w.sum, dim, 0.0f);
  w.kernels.add_weighted({.weights = with_k + slot - 1,
                          .row_step = 0,
                          .term_step = -1,
                          .values = updates + (slot - 1) * dim,
                          .value_step = -dim,
                          .n_terms = slot,
                          .n_rows = 1,
                          .dim = dim,
                          .out = w.sum,
                          .out_step = 0});
  const float state_decay = w.state_decays[r] = w.decays[slot];
  const float beta = sigmoid(host_row(w.b, t)[w.value_head]);
  const RecurrentLayout& l = w.state.layout;
  const float* v =
      host_row(w.qkv, t) + 2 * l.n_key_heads * l.key_dim + w.value_head * dim;
  const float* through = w.through + 2 * r * dim;
  float* u = updates + slot * dim;
  for (int c = 0; c < dim; ++c)
    u[c] = beta * (v[c] - (w.sum[c] + state_decay * through[c]));
}

// The sums over u of outputs [r, r + count) among those begun: each its own first terms,
// then those that all have, together.
void add_updates(const Work& w, int begin, int r, int count) {
  const int dim = w.value_dim();
  const int slot = w.at.slot + begin + r;
  const float* updates = w.page.updates(w.value_head);
  float* out = host_row(w.out, w.at.first + begin + r) + w.value_head * dim;
  float* weights = w.products + (2 * r + 1) * kPageTokens;
  WeightedSums sums{.weights = nullptr,
                    .row_step = 2 * kPageTokens,
                    .term_step = -1,
                    .values = nullptr,
                    .value_step = -dim,
                    .n_terms = 0,
                    .n_rows = 1,
                    .dim = dim,
                    .out = nullptr,
                    .out_step = w.out.stride};
  for (int i = 0; i < count; ++i) {
    sums.out = out + i * w.out.stride;
    std::fill_n(sums.out, dim, 0.0f);
    sums.weights = weights + 2 * i * kPageTokens + slot + i;
    sums.values = updates + (slot + i) * dim;
    sums.n_terms = i + 1;
    w.kernels.add_weighted(sums);
  }
  sums.out = out;
  sums.weights = weights + slot - 1;
  sums.values = updates + (slot - 1) * dim;
  sums.n_terms = slot;
  sums.n_rows = count;
  w.kernels.add_weighted(sums);
}

void compute_rows(const Work& w, int begin, int count) {
  const int dim = w.value_dim();
  start_rows(w, begin, count);
  for (int r = 0; r < count; ++r) solve_row(w, begin, r);
  for (int r = 0; r < count; r += kOutputsAtOnce)
    add_updates(w, begin, r, std::min(kOutputsAtOnce, count - r));
  for (int r = 0; r < count; ++r) {
    float* out = host_row(w.out, w.at.first + begin + r) + w.value_head * dim;
    const float* through = w.through + (2 * r + 1) * dim;
    for (int c = 0; c < dim; ++c) out[c] += w.state_decays[r] * through[c];
  }
}

// S of the next page, once the last row of this one is known.
void fold_page(const Work& w, float* next) {
  const int key_dim = w.key_dim(), value_dim = w.value_dim();
  decay_factors(w.kernels, w.page.log_decays(w.value_head), kPageTokens - 1, w.decays);
  const float state_decay = w.decays[kPageTokens - 1];
  w.decays[kPageTokens - 1] = 1.0f;
  std::copy_n(w.page.keys(w.key_head), w.at.slot * key_dim, w.keys);
  for (int j = 0; j < kPageTokens; ++j)
    for (int i = 0; i < key_dim; ++i) w.keys[j * key_dim + i] *= w.decays[j];
  std::fill_n(next, key_dim * value_dim, 0.0f);
  w.kernels.add_weighted(
      {.weights = w.keys + (kPageTokens - 1) * key_dim,
       .row_step = 1,
       .term_step = -key_dim,
       .values = w.page.updates(w.value_head) + (kPageTokens - 1) * value_dim,
       .value_step = -value_dim,
       .n_terms = kPageTokens,
       .n_rows = key_dim,
       .dim = value_dim,
       .out = next,
       .out_step = value_dim});
  const float* state = w.page.state(w.value_head);
  for (int i = 0; i < key_dim * value_dim; ++i) next[i] += state_decay * state[i];
}

// One value head over all rows of a sequence.
void run_head(Work& w, const SequenceRows& sequence) {
  const size_t state_floats = size_t(w.key_dim()) * size_t(w.value_dim());
  for (int row = sequence.first; row < sequence.end; row += w.at.count) {
    w.at = page_rows(sequence, row);
    w.page = recurrent_page(w.state, sequence.slot, w.at.page);
    if (w.at.page == 0 && w.at.slot == 0)
      std::fill_n(w.page.state(w.value_head), state_floats, 0.0f);
    for (int begin = 0; begin < w.at.count; begin += kRowsAtOnce)
      compute_rows(w, begin, std::min(kRowsAtOnce, w.at.count - begin));
    if (!w.at.fill_page()) continue;
    const RecurrentPage next = recurrent_page(w.state, sequence.slot, w.at.page + 1);
    fold_page(w, next.state(w.value_head));
  }
}

// Keys go into the state when every head is done with those that they replace.  Of a
// sequence's rows only the last two pages have a place there.
void store_keys(const Kernels& kernels, const RecurrentState& state,
                const GatedDeltaArgs& args, Rows qkv, const SequenceRows& sequence) {
  const RecurrentLayout& l = state.layout;
  const int last_page =
      (sequence.position + sequence.end - sequence.first - 1) / kPageTokens;
  for (int row = sequence.first; row < sequence.end;) {
    const PageRows at = page_rows(sequence, row);
    row += at.count;
    if (at.page < last_page - 1) continue;
    const RecurrentPage page = recurrent_page(state, sequence.slot, at.page);
    for (int r = 0; r < at.count; ++r)
      for (int h = 0; h < l.n_key_heads; ++h)
        normalise(kernels, host_row(qkv, at.first + r) + (l.n_key_heads + h) * l.key_dim,
                  l.key_dim, args.l2_eps, 1.0, page.keys(h) + (at.slot + r) * l.key_dim);
  }
}

}  // namespace

void CpuOps::gated_delta(Rows out, Rows qkv, Rows b, Rows a, const GatedDeltaArgs& args,
                         const RecurrentState& state, const Batch& batch) {
  const RecurrentLayout& l = state.layout;
  const int n = batch.n_tokens;
  CHECK(qkv.n_rows == n && out.n_rows == n && b.n_rows == n && a.n_rows == n);
  CHECK(qkv.width == l.channels() && out.width == l.n_value_heads * l.value_dim);
  CHECK(b.width == l.n_value_heads && a.width == l.n_value_heads);
  CHECK(l.n_value_heads % l.n_key_heads == 0);
  if (n == 0) return;
  const int group = l.n_value_heads / l.n_key_heads;
  const int n_sequences = count_sequences(batch);
  const int64_t rows_each = (n + n_sequences - 1) / n_sequences;
  const int64_t products =
      rows_each * (2 * l.key_dim + kPageTokens) * (int64_t{l.value_dim} + kPageTokens);
  grow_attention_scratch(scratch_floats(l));
  const int n_items = n_sequences * l.n_value_heads;
  pool_.parallel_for(n_items, grain_of(products), [&](WorkRange range) {
    Work w = make_work(kernels_, state, args,
                       host<float>(scratch_[size_t(range.thread)].attention.buffer()));
    w.out = out;
    w.qkv = qkv;
    w.b = b;
    w.a = a;
    for_parts(batch, range, l.n_value_heads, [&](const SequenceRows& rows, int head) {
      w.value_head = head;
      w.key_head = args.tiled_value_heads ? head % l.n_key_heads : head / group;
      run_head(w, rows);
    });
  });
  for (int row = 0; row < n;) {
    const SequenceRows rows = sequence_rows(batch, row);
    store_keys(kernels_, state, args, qkv, rows);
    row = rows.end;
  }
}

}  // namespace ingot::cpu
