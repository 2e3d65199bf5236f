#include "engine/sampler.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace ingot {
namespace {

void check_range(const char* name, double value, double low, double high, bool open_low) {
  const bool above = open_low ? value > low : value >= low;
  if (above && value <= high) return;  // false for NaN
  fail_usage("{} is {}, wanted a number {} {} and at most {}", name, value,
             open_low ? "above" : "of at least", low, high);
}

}  // namespace

void check_sampler_options(const SamplerOptions& options, int vocab_size) {
  const SamplerArgs& a = options.args;
  check_range("temperature", double(a.temperature), 0, 100, false);
  check_range("top_k", a.top_k, 0, std::numeric_limits<int>::max(), false);
  check_range("top_p", double(a.top_p), 0, 1, true);
  check_range("min_p", double(a.min_p), 0, 1, false);
  check_range("repeat_penalty", double(a.repeat_penalty), 0, 100, true);
  check_range("presence_penalty", double(a.presence_penalty), -2, 2, false);
  check_range("frequency_penalty", double(a.frequency_penalty), -2, 2, false);
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || token >= vocab_size)
      fail_usage("logit_bias names token {}, wanted an id from 0 to {}", token,
                 vocab_size - 1);
    check_range("logit_bias", double(bias), -100, 100, false);
  }
}

Sampler::Sampler(Ops& ops, int vocab_size, const SamplerOptions& options)
    : ops_(ops), args_(options.args), vocab_size_(vocab_size) {
  check_sampler_options(options, vocab_size);
  const auto n = size_t(vocab_size);
  const bool repeat = args_.repeat_penalty != 1.0f;
  if (repeat) prompt_seen_ = ops.allocate(n);
  if (repeat || args_.presence_penalty != 0.0f || args_.frequency_penalty != 0.0f)
    answer_counts_ = ops.allocate(n * sizeof(int32_t));
  const int limit = options.n_tokens_with_text;
  if (options.logit_bias.empty() && (limit == 0 || limit >= vocab_size)) return;
  std::vector<float> bias(n, 0.0f);
  for (const auto& [token, value] : options.logit_bias) bias[size_t(token)] = value;
  if (limit > 0) {
    for (int token = limit; token < vocab_size; ++token)
      bias[size_t(token)] = -std::numeric_limits<float>::infinity();
  }
  bias_ = ops.allocate(n * sizeof(float));
  ops.upload(bias_.buffer(), bias.data(), n * sizeof(float));
}

void Sampler::observe_prompt(std::span<const int> tokens) {
  if (prompt_seen_.buffer().bytes == 0) return;
  std::vector<uint8_t> seen(static_cast<size_t>(vocab_size_), 0);
  for (const int token : tokens) seen[size_t(token)] = 1;
  ops_.upload(prompt_seen_.buffer(), seen.data(), seen.size());
}

SampleRow Sampler::row(int position) const {
  return {args_, position, prompt_seen_.buffer(), answer_counts_.buffer(),
          bias_.buffer()};
}

}  // namespace ingot
