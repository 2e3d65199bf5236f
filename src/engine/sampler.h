// One request's sampling state on the device: what its prompt holds, what its answer
// holds, what it wants biased.
#pragma once

#include <map>
#include <span>

#include "ops/ops.h"

namespace ingot {

struct SamplerOptions {
  SamplerArgs args = {};
  std::map<int, float> logit_bias = {};  // token id -> added to its logit
  int n_tokens_with_text = 0;  // > 0: ids from here on have no token and are never chosen
};

// Throws usage Error naming the first value that is out of range: temperature [0, 100],
// top_k >= 0, top_p (0, 1], min_p [0, 1], repeat_penalty (0, 100], the other two [-2, 2],
// logit_bias [-100, 100] for ids below vocab_size.  Non-finite values are out of range.
void check_sampler_options(const SamplerOptions& options, int vocab_size);

class Sampler {
 public:
  Sampler(Ops& ops, int vocab_size, const SamplerOptions& options);

  // The prompt's tokens, for the repeat penalty.
  void observe_prompt(std::span<const int> tokens);
  // What Ops::sample takes for the token at `position`.
  SampleRow row(int position) const;

 private:
  Ops& ops_;
  SamplerArgs args_;
  int vocab_size_;
  Memory prompt_seen_;    // [vocab_size] uint8, only with a repeat penalty
  Memory answer_counts_;  // [vocab_size] int32, only with a penalty
  Memory bias_;           // [vocab_size] float32, only when there is one
};

}  // namespace ingot
