// Text to token ids and back, as Hugging Face's `tokenizers` does it, whatever container
// the vocabulary came in: tokenizer.json, vocab.json + merges.txt, a SentencePiece
// tokenizer.model, or GGUF metadata.  All containers give equal ids.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct GgufVocabulary;       // gguf_vocabulary.h
struct TokenizerDefinition;  // tokenizer_definition.h

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

struct EncodeOptions {
  // Adds what the post-processor adds (begin-of-text, usually).  Chat prompts leave it
  // off: templates print their own.
  bool add_special = false;
  // Markers such as <|im_end|> in the text become control ids.  When off they are letters
  // like any other; added tokens that are not special still match.
  bool parse_special = true;
  // Stretches of the text in which markers are letters even so: what a user wrote, inside
  // a rendered template.  In order, not overlapping.  A marker that merely touches one is
  // letters too.  Nothing else changes: the text is not cut at their borders.
  std::span<const TextRange> plain = {};
};

// A value; const use from several threads at once is safe.  Loading throws Error that
// names the file, the field, what was found and what was wanted: a step that the engine
// does not know is refused, never guessed.
class Tokenizer {
 public:
  // `source` names the file in messages.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view source);
  // tokenizer.json, else vocab.json + merges.txt, else tokenizer.model; reads
  // tokenizer_config.json beside it for the names of the special tokens.
  static Tokenizer from_directory(const std::filesystem::path& directory);
  static Tokenizer from_gguf(const GgufVocabulary& vocabulary, std::string_view source);
  // What all of the above end in.
  explicit Tokenizer(TokenizerDefinition definition);

  ~Tokenizer();
  Tokenizer(Tokenizer&& other) noexcept;
  Tokenizer& operator=(Tokenizer&& other) noexcept;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Ill-formed UTF-8 is read as U+FFFD, one for each maximal ill-formed part; NUL is a
  // character like any other.  Time is linear in the length or very nearly so
  // (tokenizer_growth_test.cc), and stack use does not grow.
  std::vector<int> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Always well-formed UTF-8.  Ids without a token, negative ones too, decode to nothing.
  std::string decode(std::span<const int> ids, bool skip_special) const;

  int vocab_size() const;  // highest id + 1
  std::optional<int> token_to_id(std::string_view token) const;
  // The token as the file spells it (byte-level: in mapped letters); nothing for a hole.
  std::optional<std::string_view> id_to_token(int id) const;
  bool is_special(int id) const;  // skipped by decode(skip_special)

  // The bytes that this one token stands for, lossless: the `bytes` of a logprobs entry.
  std::string token_bytes(int id) const;

  std::optional<int> bos_id() const;
  std::optional<int> eos_id() const;
  // Whether encode(add_special) puts bos_id() first.
  bool adds_bos() const;
  // Ids that end an answer as far as the tokenizer's own files say: eos; for GGUF also
  // eot, eom and the tokens known by their text (architectures.md 18).  A directory's
  // generation_config.json says more and is the caller's to read.
  const std::vector<int>& end_of_generation_ids() const;

  // bos_token, eos_token, pad_token, unk_token ... as chat templates see them.
  const std::map<std::string, std::string, std::less<>>& special_token_texts() const;

 private:
  friend class StreamDetokenizer;
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

// Decodes one id at a time.  What push() returns, joined, then finish(), is exactly
// decode() of all the ids; no part ends inside a UTF-8 sequence.  Linear in time.
// The tokenizer must outlive it.
class StreamDetokenizer {
 public:
  StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special);
  ~StreamDetokenizer();
  StreamDetokenizer(StreamDetokenizer&& other) noexcept;
  StreamDetokenizer& operator=(StreamDetokenizer&& other) noexcept;

  std::string push(int id);  // text that became certain; may be empty
  std::string finish();      // the rest; the stream is then at its start again

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
