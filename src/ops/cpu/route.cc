// Which experts a token uses, and how much of each.  In float64, so that neither the
// sigmoid nor the softmax makes ties of logits that differ.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"

namespace ingot::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// exp(x - largest) / sum over the n values; all -inf gives NaN, as it must.
void softmax(double* x, int n) {
  const double largest = *std::max_element(x, x + n);
  double sum = 0.0;
  for (int i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - largest);
  for (int i = 0; i < n; ++i) x[i] /= sum;
}

// Largest first, ties to the lowest index.  A NaN goes before all: an expert that nobody
// chose would hide it, one that runs shows it in the layer's output.
struct Better {
  const double* ranks;
  double key(int i) const { return std::isnan(ranks[i]) ? kInfinity : ranks[i]; }
  bool operator()(int a, int b) const {
    return key(a) != key(b) ? key(a) > key(b) : a < b;
  }
};

// ids[0 .. k) = the best k of [0, n), best first.
void choose(const double* ranks, int n, int k, int32_t* ids) {
  std::iota(ids, ids + n, 0);
  std::partial_sort(ids, ids + k, ids + n, Better{ranks});
}

// What one row needs.
struct Router {
  const RouterArgs& args;
  double* scores;    // [n_experts]
  double* ranks;     // [n_experts] what the choice goes by
  int32_t* ids;      // [n_experts]
  double* of_group;  // [n_groups]
  int32_t* groups;   // [n_groups]

  void score(const float* logits) const {
    const int n = args.n_experts;
    for (int e = 0; e < n; ++e) scores[e] = double(logits[e]);
    if (args.score == RouterScore::softmax) softmax(scores, n);
    if (args.score == RouterScore::sigmoid)
      for (int e = 0; e < n; ++e) scores[e] = 1.0 / (1.0 + std::exp(-scores[e]));
    const float* bias =
        args.bias.data == nullptr ? nullptr : host<const float>(args.bias);
    for (int e = 0; e < n; ++e)
      ranks[e] = bias == nullptr ? scores[e] : scores[e] + double(bias[e]);
  }

  // Leaves the experts of the groups whose two best are best.
  void limit_groups() const {
    const int size = args.n_experts / args.n_groups;
    for (int g = 0; g < args.n_groups; ++g) {
      choose(ranks + g * size, size, std::min(size, 2), ids);
      of_group[g] = ranks[g * size + ids[0]];
      if (size > 1) of_group[g] += ranks[g * size + ids[1]];
    }
    choose(of_group, args.n_groups, args.n_groups_used, groups);
    for (int i = args.n_groups_used; i < args.n_groups; ++i)
      std::fill_n(ranks + groups[i] * size, size, -kInfinity);
  }

  void run(const float* logits, int32_t* experts, float* weights) const {
    score(logits);
    if (args.n_groups > 1) limit_groups();
    choose(ranks, args.n_experts, args.n_used, ids);
    std::sort(ids, ids + args.n_used);
    double* chosen = ranks;  // no longer needed
    for (int i = 0; i < args.n_used; ++i) chosen[i] = scores[ids[i]];
    if (args.score == RouterScore::softmax_chosen) softmax(chosen, args.n_used);
    const double sum = args.normalise
                           ? std::accumulate(chosen, chosen + args.n_used, 0.0) +
                                 double(args.normalise_eps)
                           : 1.0;
    for (int i = 0; i < args.n_used; ++i) {
      experts[i] = ids[i];
      weights[i] = float(chosen[i] / sum * double(args.scale));
    }
  }
};

}  // namespace

void CpuOps::grow_route_scratch(int n_experts) {
  for (ThreadScratch& s : scratch_) {
    s.scores.resize(std::max(s.scores.size(), size_t(n_experts) * 3));
    s.ranked.resize(std::max(s.ranked.size(), size_t(n_experts) * 2));
  }
}

void CpuOps::route(const Routing& routing, Rows logits, const RouterArgs& args) {
  const int n = args.n_experts;
  CHECK(logits.width == n && args.n_used == routing.n_used);
  CHECK(args.n_used >= 1 && args.n_used <= n);
  CHECK(args.n_groups >= 1 && n % args.n_groups == 0);
  CHECK(args.n_groups_used >= 1 && args.n_groups_used <= args.n_groups);
  CHECK(args.n_groups_used * (n / args.n_groups) >= args.n_used);
  grow_route_scratch(n);
  constexpr int kCostOfExpert = 100;  // in multiply-adds
  pool_.parallel_for(
      logits.n_rows, grain_of(int64_t{n} * kCostOfExpert), [&](WorkRange range) {
        ThreadScratch& s = scratch_[size_t(range.thread)];
        const Router router{.args = args,
                            .scores = s.scores.data(),
                            .ranks = s.scores.data() + n,
                            .ids = s.ranked.data(),
                            .of_group = s.scores.data() + 2 * n,
                            .groups = s.ranked.data() + n};
        for (int t = range.begin; t < range.end; ++t) {
          const size_t at = size_t(t) * size_t(args.n_used);
          router.run(host_row(logits, t), host<int32_t>(routing.experts) + at,
                     host<float>(routing.weights) + at);
        }
      });
}

}  // namespace ingot::cpu
