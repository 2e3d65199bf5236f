// Merge rules as lists give them: the rank of a rule is its place.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer_definition.h"

namespace ingot {

class MergeReader {
 public:
  // Appends to model.merges; the vocabulary must be there.  `place` is for messages.
  MergeReader(BpeDefinition& model, std::string place);

  // Throws Error when a part or the result is not in the vocabulary.
  void add(std::string_view left, std::string_view right, size_t index);
  // "a b"; a line that begins with "#version" is passed over.
  void add_line(std::string_view line, size_t index);
  // "a b" of GGUF, where the left part may begin with a space.
  void add_gguf(std::string_view line, size_t index);

 private:
  int require(std::string_view token, size_t index) const;
  BpeDefinition& model_;
  std::string place_;
  std::string joined_;
};

}  // namespace ingot
