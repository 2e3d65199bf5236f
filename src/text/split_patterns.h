// Finds the matches of a pattern.  The regular expressions of the known tokenizer
// families run by hand-written matchers (tokenizers.md 8), a literal by search, the rest
// by PCRE2.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer_definition.h"

namespace ingot {

enum class KnownPattern {
  gpt2,
  llama3,      // also GLM-4
  qwen2,       // one digit at a time
  qwen3_5,     // marks count as letters
  o200k,       // gpt-oss
  tekken,      // Mistral Nemo
  deepseek_v3  // the third of its three splits
};

// The regular expression itself, as tokenizer.json has it.
std::string_view pattern_text(KnownPattern pattern);
std::optional<KnownPattern> known_pattern(std::string_view text);

// Appends the matches of a known pattern.  Requires: well-formed UTF-8.
void find_known(KnownPattern pattern, std::string_view text,
                std::vector<TextRange>& matches);

class PatternMatcher {
 public:
  // `field` names the place in messages.
  PatternMatcher(const Pattern& pattern, std::string_view field);
  void find_all(std::string_view text, std::vector<TextRange>& matches) const;

 private:
  std::variant<KnownPattern, std::string, Regex> how_;  // std::string: a literal
};

}  // namespace ingot
