#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "app/bench.h"
#include "base/check.h"
#include "base/interrupt.h"
#include "base/rng.h"
#include "model/cost.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSeed = 1;
constexpr int kWarmUpTokens = 8;  // decoded before the clock runs
constexpr double kFirstTokenSeconds = 10;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

std::string name(const BenchTest& test) {
  std::string out =
      fmt::format("{}{}", test.kind == BenchKind::prefill ? "pp" : "tg", test.n_tokens);
  if (test.depth > 0) out += fmt::format("@d{}", test.depth);
  return out;
}

std::string name(const FirstTokenTiming& timing) {
  return fmt::format("ttft{}", timing.n_tokens);
}

double median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

double BenchTiming::tokens_per_s() const { return test.n_tokens / median(seconds); }

double BenchTiming::spread() const {
  const auto [low, high] = std::minmax_element(seconds.begin(), seconds.end());
  return test.n_tokens / *low - test.n_tokens / *high;
}

std::vector<int> bench_tokens(int count, int vocab_size) {
  const CounterRng rng(kSeed, 0);
  std::vector<int> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(int(rng.bits(uint64_t(i)) % uint64_t(vocab_size)));
  return tokens;
}

BenchRunner::BenchRunner(const Model& model, Engine& engine, KvType type, int n_repeats)
    : model_(model),
      engine_(engine),
      type_(type),
      n_repeats_(n_repeats),
      sequence_(engine.new_sequence()),
      sampler_(*model.ops, model.recipe.vocab_size, {}),
      tokens_(bench_tokens(engine.context(), model.recipe.vocab_size)) {}

void BenchRunner::fill(int depth) {
  const int held = sequence_.truncate(std::min(depth, sequence_.n_tokens()));
  if (held < depth)
    engine_.extend(sequence_,
                   std::span(tokens_).subspan(size_t(held), size_t(depth - held)),
                   sampler_, {});
}

double BenchRunner::run_once(const BenchTest& test) {
  throw_if_interrupted();
  fill(test.depth);
  const std::span<const int> part =
      std::span(tokens_).subspan(size_t(test.depth), size_t(test.n_tokens));
  const Clock::time_point start = Clock::now();
  if (test.kind == BenchKind::prefill) {
    engine_.extend(sequence_, part, sampler_, {});
    return seconds_since(start);
  }
  int token = part[0];
  for (int i = 0; i < test.n_tokens; ++i) {
    throw_if_interrupted();
    token = engine_.extend(sequence_, {&token, 1}, sampler_, {});
  }
  return seconds_since(start);
}

double BenchRunner::state_bytes_per_token(const BenchTest& test) const {
  const Recipe& recipe = model_.recipe;
  double bytes = 0;
  if (test.kind == BenchKind::decode) {
    for (int i = 0; i < test.n_tokens; ++i)
      bytes += state_bytes_read(recipe, type_, test.depth + i);
    return bytes / test.n_tokens;
  }
  // A chunk reads what is before its end once.
  for (int end = 0; end < test.n_tokens;) {
    end = std::min(end + engine_.chunk(), test.n_tokens);
    bytes += state_bytes_read(recipe, type_, test.depth + end - 1);
  }
  return bytes / test.n_tokens;
}

BenchTiming BenchRunner::time(const BenchTest& test) {
  fill(test.depth);
  BenchTest warm_up = test;
  if (test.kind == BenchKind::decode)
    warm_up.n_tokens = std::min(test.n_tokens, kWarmUpTokens);
  run_once(warm_up);
  BenchTiming out;
  out.test = test;
  Ops& ops = *model_.ops;
  ops.reset_counters();
  for (int i = 0; i < n_repeats_; ++i) out.seconds.push_back(run_once(test));
  out.weight_bytes_per_token =
      double(ops.counters().weight_bytes) / n_repeats_ / test.n_tokens;
  out.state_bytes_per_token = state_bytes_per_token(test);
  return out;
}

std::vector<VerifyTiming> BenchRunner::time_verify(int max_rows, int depth) {
  fill(depth);
  Engine::RowSink sink;
  sink.logits = [](int, int, const float*, int) {};
  std::vector<VerifyTiming> out;
  for (int n_rows = 1; n_rows <= max_rows; ++n_rows) {
    std::vector<double> seconds;
    for (int i = -1; i < n_repeats_; ++i) {  // -1: the warm-up
      fill(depth);
      const auto part = std::span(tokens_).subspan(size_t(depth), size_t(n_rows));
      const Clock::time_point start = Clock::now();
      engine_.evaluate(sequence_, part, sink);
      if (i >= 0) seconds.push_back(seconds_since(start));
    }
    const double time = median(seconds);
    out.push_back({n_rows, time, out.empty() ? 1.0 : time / out[0].seconds});
  }
  return out;
}

FirstTokenTiming BenchRunner::time_first_token(int n_tokens) {
  run_once({BenchKind::prefill, 1, 0});  // the warm-up
  const Clock::time_point start = Clock::now();
  std::vector<double> seconds;
  for (int i = 0; i < n_repeats_; ++i) {
    seconds.push_back(run_once({BenchKind::prefill, n_tokens, 0}));
    if (seconds_since(start) > kFirstTokenSeconds) break;
  }
  const auto [low, high] = std::minmax_element(seconds.begin(), seconds.end());
  return {n_tokens, median(seconds), *high - *low};
}

}  // namespace ingot
