// Reads a SentencePiece model (tokenizer.model, a protobuf message) of the BPE kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_definition.h"

namespace ingot {

enum class PieceType {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;  // index = id
  int model_type = 1;         // 1 unigram, 2 BPE, 3 word, 4 char
  int unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  bool has_charsmap = false;  // normalizes letters by a table
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// The message as it stands.  Throws Error "SOURCE: found, wanted".
SentencePieceModel parse_sentencepiece(std::string_view bytes, std::string_view source);

// What Hugging Face's conversion makes of it, so that ids equal tokenizer.json's. Refuses
// models that are not BPE, and what they normalize by table, by name.
TokenizerDefinition tokenizer_definition_from_sentencepiece(
    const SentencePieceModel& model, std::string_view source);

}  // namespace ingot
