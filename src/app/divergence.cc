// KL divergence of a model's next-token distributions from a reference's.
#include <algorithm>
#include <cmath>

#include "app/eval.h"
#include "base/check.h"
#include "base/progress.h"

namespace ingot {
namespace {

int top_token(std::span<const float> logits) {
  return int(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The value that `share` of all lie below; between two neighbours, in proportion.
double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * double(values.size() - 1);
  const auto low = size_t(place);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - double(low)) * (values[high] - values[low]);
}

// Sums over rows.
struct Tally {
  std::vector<double> kl;
  int64_t n_agreeing = 0;
  double model_nll = 0;
  double reference_nll = 0;

  void add(std::span<const float> reference, std::span<const float> model, int target) {
    kl.push_back(kl_divergence(reference, model));
    n_agreeing += top_token(reference) == top_token(model) ? 1 : 0;
    reference_nll += negative_log_likelihood(reference, target);
    model_nll += negative_log_likelihood(model, target);
  }

  Divergence result() const {
    const auto n = double(kl.size());
    Divergence out;
    for (const double value : kl) out.mean += value / n;
    out.p99 = percentile(kl, 0.99);
    out.max = *std::max_element(kl.begin(), kl.end());
    out.top1_agreement = double(n_agreeing) / n;
    out.model = {model_nll / n, std::exp(model_nll / n), int(n)};
    out.reference = {reference_nll / n, std::exp(reference_nll / n), int(n)};
    return out;
  }
};

// Two models that read the same window side by side.
class Pair {
 public:
  Pair(Engine& model, Engine& reference)
      : model_(model),
        reference_(reference),
        model_sequence_(model.new_sequence()),
        reference_sequence_(reference.new_sequence()) {}

  void read(std::span<const int> tokens) {
    const Engine::RowSink none{.first_logits = int(tokens.size())};
    reference_.evaluate(reference_sequence_, tokens, none);
    model_.evaluate(model_sequence_, tokens, none);
  }

  // Reads tokens and tallies a row for each of them; targets[i] follows tokens[i].
  void score(std::span<const int> tokens, std::span<const int> targets, Tally& tally) {
    rows_.clear();
    Engine::RowSink keep;
    keep.logits = [this](int, int n_rows, const float* rows, int width) {
      rows_.insert(rows_.end(), rows, rows + size_t(n_rows) * size_t(width));
    };
    reference_.evaluate(reference_sequence_, tokens, keep);
    Engine::RowSink compare;
    compare.logits = [&](int first, int n_rows, const float* rows, int width) {
      for (int r = 0; r < n_rows; ++r) {
        const auto n = size_t(width);
        const size_t row = size_t(first) + size_t(r);
        tally.add(std::span(rows_).subspan(row * n, n), {rows + size_t(r) * n, n},
                  targets[row]);
      }
    };
    model_.evaluate(model_sequence_, tokens, compare);
  }

 private:
  Engine& model_;
  Engine& reference_;
  Sequence model_sequence_;
  Sequence reference_sequence_;
  std::vector<float> rows_;  // the reference's, of one piece
};

}  // namespace

double kl_divergence(std::span<const float> reference, std::span<const float> model) {
  CHECK(reference.size() == model.size() && !model.empty());
  const double top = double(*std::max_element(reference.begin(), reference.end()));
  const double other_top = double(*std::max_element(model.begin(), model.end()));
  // sum over i of p_i (log p_i - log q_i), with log p_i = a - log(sum) and log q_i alike
  double sum = 0, other_sum = 0, weighted = 0;
  for (size_t i = 0; i < model.size(); ++i) {
    const double a = double(reference[i]) - top;
    const double b = double(model[i]) - other_top;
    const double weight = std::exp(a);
    sum += weight;
    other_sum += std::exp(b);
    weighted += weight * (a - b);
  }
  const double kl = weighted / sum - std::log(sum) + std::log(other_sum);
  return std::max(0.0, kl);  // below zero by rounding alone
}

Divergence divergence(Engine& model, Engine& reference, std::span<const int> tokens,
                      int window, std::optional<int> bos) {
  const int n_windows = count_windows(tokens, window);
  const int first = window / 2;
  Tally tally;
  Progress bar("comparing", uint64_t(n_windows), ProgressUnit::items);
  for (int w = 0; w < n_windows; ++w) {
    const auto part = tokens.subspan(size_t(w) * size_t(window), size_t(window));
    std::vector<int> fed(part.begin(), part.end());
    if (bos) fed.front() = *bos;
    Pair pair(model, reference);
    pair.read(std::span(fed).first(size_t(first)));
    for (int at = first; at < window - 1; at += kLogitRows) {
      const auto n = size_t(std::min(kLogitRows, window - 1 - at));
      pair.score(std::span(fed).subspan(size_t(at), n), part.subspan(size_t(at) + 1, n),
                 tally);
    }
    bar.update(uint64_t(w) + 1);
  }
  return tally.result();
}

}  // namespace ingot
