#include <cmath>

#include "app/eval.h"
#include "base/error.h"
#include "base/progress.h"

namespace ingot {

double negative_log_likelihood(std::span<const float> logits, int target) {
  float top = logits[0];
  for (const float z : logits) top = std::max(top, z);
  double sum = 0;
  for (const float z : logits) sum += std::exp(double(z) - double(top));
  return std::log(sum) + double(top) - double(logits[size_t(target)]);
}

int count_windows(std::span<const int> tokens, int window) {
  const int n_windows = int(tokens.size()) / window;
  if (n_windows == 0)
    fail("the text is {} tokens, wanted at least one window of {} (-c)", tokens.size(),
         window);
  return n_windows;
}

Perplexity perplexity(Engine& engine, std::span<const int> tokens, int window,
                      std::optional<int> bos) {
  const int n_windows = count_windows(tokens, window);
  Perplexity out;
  double total = 0;
  Progress bar("scoring", uint64_t(n_windows), ProgressUnit::items);
  for (int w = 0; w < n_windows; ++w) {
    const auto part = tokens.subspan(size_t(w) * size_t(window), size_t(window));
    std::vector<int> fed(part.begin(), part.end());
    if (bos) fed.front() = *bos;
    Engine::RowSink sink;
    sink.first_logits = window / 2;
    sink.logits = [&](int first, int n_rows, const float* rows, int width) {
      for (int r = 0; r < n_rows && first + r + 1 < window; ++r) {
        const std::span<const float> logits(rows + size_t(r) * size_t(width),
                                            size_t(width));
        total += negative_log_likelihood(logits, part[size_t(first) + size_t(r) + 1]);
        ++out.n_tokens;
      }
    };
    Sequence sequence = engine.new_sequence();
    engine.evaluate(sequence, fed, sink);
    bar.update(uint64_t(w) + 1);
  }
  out.nll = total / out.n_tokens;
  out.perplexity = std::exp(out.nll);
  return out;
}

}  // namespace ingot
