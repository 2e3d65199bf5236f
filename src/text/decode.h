// Decoders (tokenizers.md 11): token texts back to text, all at once or as they come.
// There is one path: decoding everything is streaming it and finishing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/split_patterns.h"
#include "text/tokenizer_definition.h"

namespace ingot {

class Decoder {
 public:
  // `source` names the file in messages.
  Decoder(std::vector<DecoderStep> steps, bool joins_with_spaces,
          std::string_view source);

  // What one step remembers between tokens.
  struct StepState {
    std::string held;   // bytes or text that is not certain yet
    size_t n_seen = 0;  // strings, or letters dropped at the start
    bool start_passed = false;
  };
  struct Stream {
    std::vector<StepState> steps;
    bool joined_one = false;  // without a decoder: a token has been written
  };

  Stream start() const;
  // Text that became certain by this token; well-formed UTF-8.
  std::string push(Stream& stream, std::string_view token) const;
  std::string finish(Stream& stream) const;  // the rest; `stream` is used up

  // The bytes that a token stands for on its own.
  std::string token_bytes(std::string_view token) const;

 private:
  using Strings = std::vector<std::string>;
  std::string run(Stream& stream, Strings strings, bool last) const;
  void run_step(size_t index, StepState& state, Strings& strings, bool last) const;

  std::vector<DecoderStep> steps_;
  std::vector<bool> sees_one_text_;  // the step comes after one that joins all strings
  bool joins_with_spaces_;
  std::vector<PatternMatcher> matchers_;  // of the ReplaceDecoders, in order
  std::vector<size_t> matcher_of_step_;
};

}  // namespace ingot
