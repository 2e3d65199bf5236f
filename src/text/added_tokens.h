// Finds added tokens in a text (tokenizers.md 4): the leftmost match, the longest there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer_definition.h"

namespace ingot {

// A stretch of text: an added token, or text still to be encoded (token < 0).
struct TokenSpan {
  size_t begin = 0;
  size_t end = 0;
  int token = -1;
};

class AddedTokenMatcher {
 public:
  // `pattern` is what to look for: the content, or its normalized form.
  void add(const AddedToken& token, std::string_view pattern);
  bool empty() const { return rules_.empty(); }

  // Cuts `text` into spans, in order, none empty but those of tokens.
  std::vector<TokenSpan> split(std::string_view text, const EncodeOptions& options) const;

 private:
  struct Rule {
    int id;
    bool single_word, lstrip, rstrip, special;
  };
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;  // by byte, sorted
    int rule = -1;
  };
  struct Match {
    size_t begin, end;
    int rule;
  };
  const uint32_t* child(uint32_t node, uint8_t byte) const;
  Match longest_at(std::string_view text, size_t begin) const;  // rule -1: none

  std::vector<Rule> rules_;
  std::vector<Node> nodes_{Node{}};
  bool first_bytes_[256] = {};
};

}  // namespace ingot
