// One answer: prompt ids in, tokens and streamed text out.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "text/tokenizer.h"

namespace ingot {

enum class FinishReason { stop, length, interrupted };
std::string_view name(FinishReason reason);

struct GenerateOptions {
  SamplerOptions sampler = {};
  int max_tokens = -1;  // < 0: until the context is full
  // End of generation; the id itself is the answer's last token.
  std::vector<int> stop_ids = {};
  std::vector<std::string> stop_strings = {};  // the text ends before the first match
  bool skip_special = true;                    // control tokens leave no text
};

struct Generation {
  std::vector<int> tokens;
  std::string text;
  FinishReason finish = FinishReason::length;
  double prefill_seconds = 0;  // until the first token was chosen
  double decode_seconds = 0;   // all later ones
  int prefill_tokens = 0;  // fed in this call, what the sequence already held left out
};

// Holds back text that may be the start of a stop string.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // Text that is safe to show.  After a match: stopped(), and nothing more comes out.
  std::string push(std::string_view text);
  std::string finish();  // what was held back, at the end without a match
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

// Brings `sequence` to hold `prompt` (keeping the prefix they share) and answers.
// `tokenizer` may be null: no text then.  `on_text` hears text as it becomes certain and
// answers whether to go on, `on_prefill` hears the prompt tokens done; both may be empty.
// Ctrl-C ends the answer with FinishReason::interrupted.  Throws usage Error for an empty
// prompt or one that does not fit the context.
Generation generate(Engine& engine, Sequence& sequence, const Tokenizer* tokenizer,
                    std::span<const int> prompt, const GenerateOptions& options,
                    const std::function<bool(std::string_view)>& on_text,
                    const std::function<void(int done, int total)>& on_prefill);

}  // namespace ingot
