// Normalizers (tokenizers.md 5): text to text, before any splitting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/split_patterns.h"
#include "text/tokenizer_definition.h"

namespace ingot {

class Normalizer {
 public:
  // `source` names the file in messages.
  Normalizer(std::vector<NormalizerStep> steps, std::string_view source);

  bool is_identity() const { return steps_.empty(); }
  // Requires: well-formed UTF-8.
  std::string apply(std::string text) const;

 private:
  std::string apply_step(size_t index, std::string text) const;
  std::vector<NormalizerStep> steps_;
  std::vector<PatternMatcher> matchers_;  // of the ReplaceSteps, in order
  std::vector<size_t> matcher_of_step_;
};

// `text` with every match of `matcher` replaced.
std::string replace_all(std::string_view text, const PatternMatcher& matcher,
                        std::string_view content);

}  // namespace ingot
