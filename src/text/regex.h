// Regular expressions as tokenizer.json writes them (Oniguruma, Ruby syntax), run by
// PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ingot {

// `pattern` in PCRE2's syntax, meaning the same: classes spelt out by Unicode 16, anchors
// as in Ruby.  Throws Error "FIELD: ..." for what has no equal there; never guesses.
std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view field);

// A compiled pattern; const use from several threads at once is safe.
class Regex {
 public:
  // `field` names the place in messages.
  Regex(std::string_view oniguruma_pattern, std::string_view field);
  ~Regex();
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&& other) noexcept;

  // Appends all matches, left to right, not overlapping.  Requires: well-formed UTF-8.
  // Stack use does not depend on the text.
  void find_all(std::string_view text, std::vector<TextRange>& matches) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace ingot
