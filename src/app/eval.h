// What `ingot eval` measures, apart from flags and printing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace ingot {

struct Perplexity {
  double nll = 0;  // mean negative log likelihood, in nats
  double perplexity = 0;
  int n_tokens = 0;  // scored
};

// Non-overlapping windows of `window` tokens; the first token of each becomes `bos` where
// that is set; the second half of each is scored, as llama.cpp's tool does it.
// Throws Error when there are fewer tokens than one window.
Perplexity perplexity(Engine& engine, std::span<const int> tokens, int window,
                      std::optional<int> bos);

}  // namespace ingot
