#include "engine/generate.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/interrupt.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Leaves the prefix that sequence and prompt share, and at least one token to feed.
int keep_shared_prefix(Sequence& sequence, std::span<const int> prompt) {
  const std::vector<int>& held = sequence.tokens();
  const auto end = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end());
  const int shared = std::min(int(end.first - held.begin()), int(prompt.size()) - 1);
  return sequence.truncate(shared);
}

bool contains(const std::vector<int>& ids, int id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Turns tokens into shown text; joins detokenizer and stop strings.
class Speaker {
 public:
  Speaker(const Tokenizer* tokenizer, const GenerateOptions& options,
          const std::function<bool(std::string_view)>& on_text)
      : filter_(options.stop_strings), on_text_(on_text) {
    if (tokenizer) detokenizer_.emplace(*tokenizer, options.skip_special);
  }
  void push(int token) {
    if (detokenizer_) show(filter_.push(detokenizer_->push(token)));
  }
  void finish() {
    if (!detokenizer_) return;
    show(filter_.push(detokenizer_->finish()));
    show(filter_.finish());
  }
  bool stopped() const { return dismissed_ || filter_.stopped(); }
  std::string take_text() { return std::move(text_); }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    text_ += text;
    if (on_text_ && !on_text_(text)) dismissed_ = true;
  }
  std::optional<StreamDetokenizer> detokenizer_;
  StopFilter filter_;
  const std::function<bool(std::string_view)>& on_text_;
  std::string text_;
  bool dismissed_ = false;  // the listener has heard enough
};

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::interrupted:
      return "interrupted";
  }
  return "?";
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  for (const char letter : text) {
    held_ += letter;
    // The first stop string to be complete ends the text; the longest of two at once.
    size_t matched = 0;
    for (const std::string& stop : stops_)
      if (stop.size() > matched && held_.ends_with(stop)) matched = stop.size();
    if (matched > 0) {
      stopped_ = true;
      return held_.substr(0, held_.size() - matched);
    }
  }
  // Keep the longest end that a stop string may start with.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) {
        keep = n;
        break;
      }
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopFilter::finish() { return stopped_ ? std::string() : std::move(held_); }

Generation generate(Engine& engine, Sequence& sequence, const Tokenizer* tokenizer,
                    std::span<const int> prompt, const GenerateOptions& options,
                    const std::function<bool(std::string_view)>& on_text,
                    const std::function<void(int, int)>& on_prefill) {
  if (prompt.empty()) fail_usage("the prompt is empty, wanted at least one token");
  engine.check_tokens(prompt);
  for (const std::string& stop : options.stop_strings)
    if (stop.empty()) fail_usage("a stop string is empty, wanted at least one letter");
  if (int(prompt.size()) > engine.context())
    fail_usage("the prompt is {} tokens, wanted at most {} (the context; -c sets it)",
               prompt.size(), engine.context());

  Generation out;
  Sampler sampler(*engine.model().ops, engine.model().recipe.vocab_size, options.sampler);
  if (options.max_tokens == 0) return out;
  Speaker speaker(tokenizer, options, on_text);
  sampler.observe_prompt(prompt);
  const int shared = keep_shared_prefix(sequence, prompt);
  out.prefill_tokens = int(prompt.size()) - shared;

  const Clock::time_point start = Clock::now();
  int token =
      engine.extend(sequence, prompt.subspan(size_t(shared)), sampler, [&](int done) {
        if (on_prefill) on_prefill(done, out.prefill_tokens);
      });
  out.prefill_seconds = seconds_since(start);
  const Clock::time_point decode_start = Clock::now();
  while (true) {
    out.tokens.push_back(token);
    speaker.push(token);
    if (contains(options.stop_ids, token) || speaker.stopped()) {
      out.finish = FinishReason::stop;
      break;
    }
    if (options.max_tokens >= 0 && int(out.tokens.size()) >= options.max_tokens) break;
    if (!engine.fits(sequence, 1)) break;
    if (interrupted()) {
      out.finish = FinishReason::interrupted;
      break;
    }
    token = engine.extend(sequence, {&token, 1}, sampler, {});
  }
  out.decode_seconds = seconds_since(decode_start);
  speaker.finish();
  out.text = speaker.take_text();
  return out;
}

}  // namespace ingot
