// `ingot bench`: speed of prefill and decode, as fractions of what the machine can do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace ingot {

enum class BenchKind { prefill, decode };

// "pp512", "tg128@d4096".
struct BenchTest {
  BenchKind kind = BenchKind::prefill;
  int n_tokens = 0;
  int depth = 0;  // tokens in the sequence before
};
std::string name(const BenchTest& test);

struct BenchTiming {
  BenchTest test;
  std::vector<double> seconds;        // one a repeat, after a warm-up
  double weight_bytes_per_token = 0;  // read, as the backend counts them
  double state_bytes_per_token = 0;   // keys and values read
  double tokens_per_s() const;        // the median
  double spread() const;              // fastest minus slowest repeat, tokens/s
};

// Cost of a pass over n_rows rows, each with its logits.
struct VerifyTiming {
  int n_rows = 0;
  double seconds = 0;   // median
  double relative = 0;  // to one row
};

// From a prompt's tokens, the model loaded and warm, to the first token chosen.
struct FirstTokenTiming {
  int n_tokens = 0;    // of the prompt
  double seconds = 0;  // median
  double spread = 0;   // slowest minus fastest repeat, seconds
};
std::string name(const FirstTokenTiming& timing);  // "ttft128"

double median(std::vector<double> values);

// Times tests on one engine, deepest contexts last.  Throws Error of kind interrupted on
// Ctrl-C.
class BenchRunner {
 public:
  BenchRunner(const Model& model, Engine& engine, KvType type, int n_repeats);
  BenchTiming time(const BenchTest& test);
  std::vector<VerifyTiming> time_verify(int max_rows, int depth);
  // Repeats while ten seconds are not over.
  FirstTokenTiming time_first_token(int n_tokens);

 private:
  void fill(int depth);  // sequence_ then holds `depth` tokens
  double run_once(const BenchTest& test);
  double state_bytes_per_token(const BenchTest& test) const;

  const Model& model_;
  Engine& engine_;
  KvType type_;
  int n_repeats_;
  Sequence sequence_;
  Sampler sampler_;  // greedy
  std::vector<int> tokens_;
};

// Seeded token ids: the same in every run.
std::vector<int> bench_tokens(int count, int vocab_size);

}  // namespace ingot
