// What a tokenizer is, as plain data.  Every container (tokenizer.json, GGUF metadata,
// ...) is read into this; tokenizer.cc makes it run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/unicode.h"
#include "text/vocabulary.h"

namespace ingot {

// A literal or, when is_regex, an Oniguruma (Ruby) regular expression.
struct Pattern {
  std::string text;
  bool is_regex = false;
};

struct AddedToken {
  std::string content;
  int id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;  // matched after the normalizer
  bool special = false;     // a control token: skipped by decode(skip_special)
};

// ---- normalizers (tokenizers.md 5) ----
struct UnicodeFormStep {
  NormalForm form = NormalForm::nfc;
};
struct ReplaceStep {
  Pattern pattern;
  std::string content;
};
struct PrependStep {
  std::string text;
};
struct StripStep {
  bool left = true;
  bool right = true;
};
struct LowercaseStep {};
struct StripAccentsStep {};
struct ByteLettersStep {};
using NormalizerStep = std::variant<UnicodeFormStep, ReplaceStep, PrependStep, StripStep,
                                    LowercaseStep, StripAccentsStep, ByteLettersStep>;

// ---- pre-tokenizers (tokenizers.md 6) ----
enum class SplitBehavior {
  isolated,
  removed,
  merged_with_previous,
  merged_with_next,
  contiguous,
};
struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
};
struct ByteLevelStep {
  bool add_prefix_space = true;
  bool use_regex = true;
};
enum class PrependScheme { always, first, never };
struct MetaspaceStep {
  char32_t replacement = 0x2581;
  PrependScheme prepend = PrependScheme::always;
  bool split = true;
};
enum class LetterKind { digit, punctuation, bert_punctuation, space, delimiter };
// Splits at every letter of a kind.
struct LetterSplitStep {
  LetterKind kind = LetterKind::digit;
  SplitBehavior behavior = SplitBehavior::isolated;
  char32_t delimiter = 0;
};
struct WordSplitStep {};  // `Whitespace`: keeps \w+ and [^\w\s]+
struct FixedLengthStep {
  size_t length = 5;
};
using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, MetaspaceStep,
                                      LetterSplitStep, WordSplitStep, FixedLengthStep>;

// ---- the model (tokenizers.md 9, 15) ----
struct MergeRule {
  int left = 0;
  int right = 0;
  int result = 0;
  int rank = 0;  // the lowest merges first; equal ranks from left to right
};
struct BpeDefinition {
  Vocabulary vocabulary;
  std::vector<MergeRule> merges;  // of two rules for one pair, the later holds
  std::string unk_token;          // empty: none
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  // SentencePiece only: letters that have no token of their own but begin or end merges.
  // Letter i has the id vocabulary.size() + i inside merges, and falls back to bytes.
  std::vector<std::string> loose_letters;
  // Control tokens: never made by merging letters, so that text cannot forge one where
  // markers are read as plain letters.  Sorted.
  std::vector<int> control_ids;
};

// ---- decoders (tokenizers.md 11) ----
struct ByteLevelDecoder {};
struct ReplaceDecoder {
  Pattern pattern;
  std::string content;
};
struct ByteFallbackDecoder {};
struct FuseDecoder {};
struct StripDecoder {
  char32_t content = ' ';
  size_t start = 0;
  size_t stop = 0;
};
struct MetaspaceDecoder {
  char32_t replacement = 0x2581;
  PrependScheme prepend = PrependScheme::always;
};
using DecoderStep = std::variant<ByteLevelDecoder, ReplaceDecoder, ByteFallbackDecoder,
                                 FuseDecoder, StripDecoder, MetaspaceDecoder>;

struct TokenizerDefinition {
  std::string source;  // the file, for messages
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  BpeDefinition model;
  std::vector<int> prefix_ids;  // what the post-processor puts before and after
  std::vector<int> suffix_ids;
  bool has_decoder = false;  // without one, tokens are joined with spaces
  std::vector<DecoderStep> decoders;

  std::optional<int> bos_id;
  std::optional<int> eos_id;
  std::vector<int> end_of_generation_ids;
  std::map<std::string, std::string, std::less<>> special_token_texts;
};

// What the readers of the containers share.
NormalizerStep replace_spaces();  // " " becomes U+2581
// Replace, ByteFallback, Fuse, and Strip of one leading space when `strip_first_space`.
std::vector<DecoderStep> sentencepiece_decoders(bool strip_first_space);

}  // namespace ingot
