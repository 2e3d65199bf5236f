// What `ingot eval` measures, apart from flags and printing.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/load.h"
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

// How far a model's distributions lie from a reference's, over the same rows.
struct Divergence {
  double mean = 0;  // of KL(reference || model) in nats, a row a scored token
  double p99 = 0;   // the 99th percentile, between two rows in proportion
  double max = 0;
  double top1_agreement = 0;  // share of rows whose largest logit is the same token
  Perplexity model;
  Perplexity reference;
};

// Windows and scoring as perplexity() does it.  Holds a piece of a window's logits at a
// time.  Requires: vocabularies of one size.
Divergence divergence(Engine& model, Engine& reference, std::span<const int> tokens,
                      int window, std::optional<int> bos);

// KL(softmax(reference) || softmax(model)) in nats, in float64.  Requires: equal sizes.
double kl_divergence(std::span<const float> reference, std::span<const float> model);
// -log softmax(logits)[target], in float64.
double negative_log_likelihood(std::span<const float> logits, int target);
// Throws Error when there are fewer tokens than one window.
int count_windows(std::span<const int> tokens, int window);

// A text as a model scores it.  Throws Error when the model has no tokenizer.
struct ScoredText {
  std::vector<int> tokens;
  std::optional<int> bos;  // what a window starts with, where the model wants one
};
ScoredText scored_text(const std::string& text, const LoadedModel& model,
                       const std::string& model_name);

// Drops all but the first n_windows windows; 0 keeps all.  Throws usage Error below 0.
void keep_windows(std::vector<int>& tokens, int window, int n_windows);

constexpr int kLogitRows = 64;  // rows of logits at once: bounds the memory
// -c as `eval ppl` and `eval kl` take it; throws usage Error when it is too short.
int window_of(const MachineFlags& flags);

void add_eval_kl(CLI::App& eval, Action& action);

}  // namespace ingot
