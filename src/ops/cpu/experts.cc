// Matmuls of experts: the pairs of token and expert are sorted by expert, each expert's
// weights are read once for all its rows, and all experts' tiles are one parallel loop.
// A row's products are those of matmul(), in the same order.
#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"

namespace ingot::cpu {
namespace {

// The loop's units: a tile costs what reading and unpacking it does, about this many
// rows' products, and its rows.  A thread takes the tiles whose first unit it was given.
constexpr int kUnitsOfTile = 4;
int64_t tile_units(const ExpertRun& run) { return kUnitsOfTile + run.in.n_rows; }

// The first tile of the run that starts at unit `unit` or later.
int tile_at(const ExpertRun& run, int64_t unit) {
  const int64_t units = tile_units(run);
  const int64_t tile = (unit - run.first_unit + units - 1) / units;
  return int(std::clamp<int64_t>(tile, 0, run.weight->n_tiles));
}

const PackedWeight& packed(const ExpertWeights& w, int expert) {
  return static_cast<const PackedWeight&>(*w.experts[size_t(expert)]);
}

}  // namespace

void CpuOps::grow_expert_scratch(int n_pairs, int n_experts, int width) {
  ExpertOrder& o = order_;
  o.first.resize(std::max(o.first.size(), size_t(n_experts) + 1));
  o.pairs.resize(std::max(o.pairs.size(), size_t(n_pairs)));
  o.runs.reserve(size_t(n_experts));
  const size_t bytes = size_t(n_pairs) * size_t(width) * sizeof(float);
  if (bytes > o.rows.buffer().bytes) o.rows = allocate(bytes);
}

// A counting sort: pairs of one expert stay in the order of their tokens.
void CpuOps::order_experts(const int32_t* experts, int n_pairs, int n_experts) {
  int32_t* first = order_.first.data();
  std::fill_n(first, n_experts + 1, 0);
  for (int i = 0; i < n_pairs; ++i) {
    CHECK(experts[i] >= 0 && experts[i] < n_experts);
    ++first[experts[i]];
  }
  int32_t begin = 0;
  for (int e = 0; e <= n_experts; ++e) begin += std::exchange(first[e], begin);
  for (int i = 0; i < n_pairs; ++i) order_.pairs[size_t(first[experts[i]]++)] = i;
  // Each entry now says where the next expert begins.
  std::copy_backward(first, first + n_experts - 1, first + n_experts);
  first[0] = 0;
}

// The rows of x in the experts' order, as what the chosen experts' weights want; a single
// row for all stands where it is.
MatmulInput CpuOps::gather_for_experts(Rows x, const ExpertWeights& w, int n_pairs,
                                       int n_used) {
  bool int8 = false, floats = false;
  for (int e = 0; e < int(w.experts.size()); ++e) {
    if (order_.first[size_t(e)] == order_.first[size_t(e) + 1]) continue;
    int8 = int8 || wants_int8(packed(w, e));
    floats = floats || wants_floats(packed(w, e));
  }
  const bool one_row = x.n_rows == 1;
  const int n = one_row ? 1 : n_pairs;
  const int pairs_a_row = n_pairs / x.n_rows;
  const auto width = size_t(x.width);
  float* rows = host<float>(order_.rows.buffer());
  const auto gather = [&](int i) {
    const float* from = host_row(x, one_row ? 0 : order_.pairs[size_t(i)] / pairs_a_row);
    if (floats && !one_row)
      std::memcpy(rows + size_t(i) * width, from, width * sizeof(float));
    if (int8) kernels_.quantise(from, x.width / kGroupCols, acts_ + i, size_t(n));
  };
  // The few rows of one token are not worth a parallel loop of their own.
  for_rows(n, n_pairs == n_used ? 0 : x.width, gather);
  return {.n_rows = n,
          .x = one_row ? host_row(x, 0) : rows,
          .x_stride = width,
          .acts = acts_,
          .act_stride = size_t(n)};
}

// One run for every expert that was chosen; returns the units of all.
int64_t CpuOps::plan_experts(const ExpertWeights& w, const MatmulInput& all) {
  const Buffer& bias = w.bias.buffer();
  order_.runs.clear();
  int64_t units = 0;
  for (int e = 0; e < int(w.experts.size()); ++e) {
    const int begin = order_.first[size_t(e)];
    const int n_rows = order_.first[size_t(e) + 1] - begin;
    if (n_rows == 0) continue;
    const PackedWeight& weight = packed(w, e);
    CHECK(weight.n_cols == w.experts[0]->n_cols && weight.n_rows == w.experts[0]->n_rows);
    ExpertRun run{.weight = &weight, .in = all, .first_unit = units};
    if (bias.data != nullptr)
      run.bias = host<const float>(bias) + size_t(e) * size_t(weight.n_rows);
    run.in.n_rows = n_rows;
    run.in.out_rows = order_.pairs.data() + begin;
    if (all.n_rows > 1) {
      run.in.x += size_t(begin) * all.x_stride;
      run.in.acts += begin;
    } else {
      CHECK(n_rows == 1);  // a token's experts differ
    }
    units += tile_units(run) * weight.n_tiles;
    counters_.weight_bytes += weight.bytes * passes_of(n_rows);
    order_.runs.push_back(run);
  }
  return units;
}

void CpuOps::expert_matmul(Rows out, Rows x, const ExpertWeights& w,
                           const Routing& routing) {
  const int n_pairs = out.n_rows;
  const int n_experts = int(w.experts.size());
  CHECK(routing.n_used >= 1 && n_pairs % routing.n_used == 0 && n_experts >= 1);
  CHECK(x.n_rows == n_pairs || x.n_rows == n_pairs / routing.n_used);
  CHECK(x.width == w.experts[0]->n_cols && out.width == w.experts[0]->n_rows);
  if (n_pairs == 0) return;
  grow_scratch(n_pairs, x.width);
  grow_expert_scratch(n_pairs, n_experts, x.width);
  order_experts(host<const int32_t>(routing.experts), n_pairs, n_experts);
  const MatmulInput all = gather_for_experts(x, w, n_pairs, routing.n_used);
  const int64_t units = plan_experts(w, all);
  CHECK(units <= INT_MAX);
  const int grain = grain_of(int64_t{kTileRows} * x.width);
  pool_.parallel_for(int(units), grain, [&](WorkRange range) {
    ThreadScratch& scratch = scratch_[size_t(range.thread)];
    for (const ExpertRun& run : order_.runs)
      matmul_tiles(*run.weight, out, run.in, run.bias, tile_at(run, range.begin),
                   tile_at(run, range.end), scratch);
  });
}

void CpuOps::combine_experts(Rows out, Rows y, const Routing& routing) {
  const int n_used = routing.n_used;
  CHECK(y.n_rows == out.n_rows * n_used && y.width == out.width);
  for_rows(out.n_rows, n_used * out.width, [&](int t) {
    float* row = host_row(out, t);
    std::fill_n(row, out.width, 0.0f);
    for (int i = 0; i < n_used; ++i) {
      const int pair = t * n_used + i;
      const float* weight = host<const float>(routing.weights) + pair;
      kernels_.accumulate(weight, 1, host_row(y, pair), out.width, 1.0f, row);
    }
  });
}

}  // namespace ingot::cpu
