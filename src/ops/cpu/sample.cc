// Sampling.  The order is ops.h's: penalties, bias, temperature, top_k, top_p, min_p,
// then the largest of logit / temperature + Gumbel noise.  Tokens whose logit is NaN or
// -inf are never candidates, unless every logit is -inf.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/rng.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"

namespace ingot::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool changes_logits(const SampleRow& row) {
  const bool seen = row.prompt_seen.data != nullptr || row.answer_counts.data != nullptr;
  const bool counted = row.answer_counts.data != nullptr;
  return (row.args.repeat_penalty != 1.0f && seen) ||
         (row.args.presence_penalty != 0.0f && counted) ||
         (row.args.frequency_penalty != 0.0f && counted) || row.bias.data != nullptr;
}

// Penalties and bias.
void adjust(float* logits, int n, const SampleRow& row) {
  const SamplerArgs& args = row.args;
  const uint8_t* prompt =
      row.prompt_seen.data == nullptr ? nullptr : host<const uint8_t>(row.prompt_seen);
  const int32_t* counts = row.answer_counts.data == nullptr
                              ? nullptr
                              : host<const int32_t>(row.answer_counts);
  const float* bias = row.bias.data == nullptr ? nullptr : host<const float>(row.bias);
  for (int i = 0; i < n; ++i) {
    const int count = counts == nullptr ? 0 : counts[i];
    if (count > 0 || (prompt != nullptr && prompt[i] != 0))
      logits[i] = logits[i] > 0.0f ? logits[i] / args.repeat_penalty
                                   : logits[i] * args.repeat_penalty;
    if (count > 0)
      logits[i] -= args.presence_penalty + args.frequency_penalty * float(count);
    if (bias != nullptr) logits[i] += bias[i];
  }
}

// Better candidates first: larger logit, then lower index.
struct Better {
  const float* logits;
  bool operator()(int a, int b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};
// The same as a heap's order, whose front is the best.
struct Worse {
  const float* logits;
  bool operator()(int a, int b) const { return Better{logits}(b, a); }
};

// The k best tokens, in any order: a heap of k whose front is the worst of them.
int select_top_k(const float* logits, int n, int k, int* out) {
  const Better better{logits};
  int count = 0;
  for (int i = 0; i < n; ++i) {
    if (!(logits[i] > kMinusInfinity)) continue;
    if (count < k) {
      out[count++] = i;
      std::push_heap(out, out + count, better);
    } else if (better(i, out[0])) {
      std::pop_heap(out, out + k, better);
      out[k - 1] = i;
      std::push_heap(out, out + k, better);
    }
  }
  return count;
}

int select_all(const float* logits, int n, int* out) {
  int count = 0;
  for (int i = 0; i < n; ++i)
    if (logits[i] > kMinusInfinity) out[count++] = i;
  return count;
}

// Keeps the smallest set of best tokens whose share reaches top_p; returns its size.
// Pops the best one by one: the sets are small, the vocabulary is not.
int keep_top_p(const float* logits, float largest, float top_p, int* tokens, int count) {
  double total = 0.0;
  std::sort(tokens, tokens + count);  // a fixed order of summation
  for (int i = 0; i < count; ++i) total += std::exp(double(logits[tokens[i]] - largest));
  const Worse worse{logits};
  std::make_heap(tokens, tokens + count, worse);
  double share = 0.0;
  int kept = 0;
  while (kept < count && (kept == 0 || share < double(top_p) * total)) {
    std::pop_heap(tokens, tokens + count - kept, worse);  // the best goes to the end
    share += std::exp(double(logits[tokens[count - kept - 1]] - largest));
    ++kept;
  }
  std::move(tokens + count - kept, tokens + count, tokens);
  return kept;
}

int keep_min_p(const float* logits, float largest, float min_p, int* tokens, int count) {
  const auto unlikely = [&](int t) {
    return std::exp(double(logits[t] - largest)) < double(min_p);
  };
  return int(std::remove_if(tokens, tokens + count, unlikely) - tokens);
}

// The largest of logit + noise.  Noise is -log(e) with e = -log(u) >= 1 - u, so a token
// that is d behind the best so far can only win when 1 - u <= exp(-d), and
// exp(d) >= (1 + d / 8)^8: a test that spares nearly all logarithms.
bool cannot_win(double u, double behind) {
  const double base = 1.0 + behind / 8.0;
  const double square = base * base;
  const double fourth = square * square;
  constexpr double kRounding = 1.0 + 1e-9;
  return behind > 0.0 && (1.0 - u) * (fourth * fourth) > kRounding;
}

int pick(const float* logits, const int* tokens, int count, const CounterRng& rng) {
  double best = -std::numeric_limits<double>::infinity();
  int choice = -1;
  for (int i = 0; i < count; ++i) {
    const int token = tokens[i];
    const double logit = double(logits[token]);
    const double u = rng.uniform(uint64_t(token));
    if (choice >= 0 && cannot_win(u, best - logit)) continue;
    const double score = logit - std::log(-std::log(u));
    if (score > best || (score == best && token < choice)) {
      best = score;
      choice = token;
    }
  }
  return choice;
}

// `logits` are adjusted; they are divided by the temperature in place.
int sample_row(float* logits, int n, const SampleRow& row, int best, int* tokens) {
  const SamplerArgs& args = row.args;
  for (int i = 0; i < n; ++i) logits[i] /= args.temperature;
  const float largest = logits[best];
  if (!std::isfinite(largest)) return best;
  int count = args.top_k > 0 ? select_top_k(logits, n, std::min(args.top_k, n), tokens)
                             : select_all(logits, n, tokens);
  if (args.top_p < 1.0f) count = keep_top_p(logits, largest, args.top_p, tokens, count);
  if (args.min_p > 0.0f) count = keep_min_p(logits, largest, args.min_p, tokens, count);
  const CounterRng rng(args.seed, uint64_t(int64_t{row.position}));
  const int choice = pick(logits, tokens, count, rng);
  return choice < 0 ? best : choice;
}

}  // namespace

void CpuOps::sample(const Buffer& tokens, Rows logits, std::span<const SampleRow> rows) {
  CHECK(logits.n_rows == int(rows.size()));
  grow_scratch(1, logits.width);
  int32_t* chosen = host<int32_t>(tokens);
  const int n = logits.width;
  pool_.parallel_for(logits.n_rows, 1, [&](WorkRange range) {
    ThreadScratch& scratch = scratch_[size_t(range.thread)];
    for (int i = range.begin; i < range.end; ++i) {
      const SampleRow& row = rows[size_t(i)];
      const float* source = host_row(logits, i);
      const bool greedy = row.args.temperature <= 0.0f;
      float* work = scratch.logits.data();
      if (!greedy || changes_logits(row)) {
        std::copy_n(source, n, work);
        if (changes_logits(row)) adjust(work, n, row);
        source = work;
      }
      int choice = kernels_.argmax(source, n);
      if (!greedy && choice >= 0)
        choice = sample_row(work, n, row, choice, scratch.candidates.data());
      chosen[i] = choice;
      if (choice >= 0 && row.answer_counts.data != nullptr)
        ++host<int32_t>(row.answer_counts)[choice];
    }
  });
}

}  // namespace ingot::cpu
