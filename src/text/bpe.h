// Byte-pair encoding of one span (tokenizers.md 9).  SentencePiece models, whose merges
// are given by scores, run on it too: merge_rules_by_score() turns scores into ranks.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_merge.h"
#include "text/tokenizer_definition.h"

namespace ingot {

// What the spans given to a model are made of.
enum class SpanUnit { characters, bytes };

class BpeModel {
 public:
  // `unit` is what most spans will be; only `characters` are prepared for long ones.
  // `source` names the file in messages.
  BpeModel(BpeDefinition definition, SpanUnit unit, std::string source);

  const Vocabulary& vocabulary() const { return definition_.vocabulary; }

  // Appends the ids of a span of characters.  Requires: well-formed UTF-8, not empty.
  void encode(std::string_view span, std::vector<int>& ids) const;
  // The same for a span of bytes, each standing for its letter of the byte alphabet.
  void encode_bytes(std::string_view bytes, std::vector<int>& ids) const;

 private:
  std::optional<int> whole_span(std::string_view span) const;
  void append_letter(std::string_view letter, std::vector<int>& symbols,
                     int& pending_unk) const;
  void append_merged(std::span<int> symbols, std::vector<int>& ids) const;
  void append_loose(int symbol, std::vector<int>& ids) const;
  void find_joined_letters();

  BpeDefinition definition_;
  std::string source_;
  MergeTable merges_;
  std::array<int, 256> byte_symbols_{};  // -1 where a byte has no token
  bool every_byte_has_a_symbol_ = true;
  std::array<int, 256> fallback_ids_{};  // of "<0xHH>"; -1: none
  std::optional<int> unk_id_;
  Vocabulary loose_letters_;  // letter to index
  // Pairs of letters that some merge joins.  Between other pairs a span may be cut before
  // merging, since no token reaches across.  Nothing: not known, never cut.
  std::optional<MergeTable> joined_letters_;
};

// For every token of two or more letters, and every place to cut it in two tokens, a rule
// whose rank orders tokens by falling score.  Fills definition.merges and loose_letters.
// Requires: scores.size() == vocabulary.size(); `mergeable` says which ids may be made.
void merge_rules_by_score(BpeDefinition& definition, std::span<const float> scores,
                          const std::vector<bool>& mergeable);

}  // namespace ingot
