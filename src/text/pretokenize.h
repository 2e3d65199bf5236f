// Pre-tokenizers (tokenizers.md 6): a span of text becomes the pieces that the model
// sees, each on its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/split_patterns.h"
#include "text/tokenizer_definition.h"

namespace ingot {

struct Piece {
  size_t begin = 0;
  size_t end = 0;
  bool at_start = false;  // begins where the whole input begins
};

// Pieces of one text, in order, none empty.
struct Pieces {
  std::string text;
  std::vector<Piece> list;
};

class PreTokenizer {
 public:
  // `source` names the file in messages.
  PreTokenizer(std::vector<PreTokenizerStep> steps, std::string_view source);

  // What the pieces of split() are made of.  Bytes when ByteLevel is the last step and
  // the only one: its letters are then never spelt out.
  SpanUnit unit() const { return unit_; }

  // Requires: well-formed UTF-8.  at_start: the span begins the whole input.
  Pieces split(std::string span, bool at_start) const;

 private:
  std::vector<PreTokenizerStep> steps_;
  std::vector<PatternMatcher> matchers_;  // of the SplitSteps, in order
  SpanUnit unit_ = SpanUnit::characters;
};

}  // namespace ingot
