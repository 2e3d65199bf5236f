// The tokenizer.ggml.* metadata of a GGUF file, as plain data (tokenizers.md 14).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"

namespace ingot {

enum class GgufTokenType : int {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct GgufVocabulary {
  std::string model;                       // "gpt2", "llama", "gemma4"
  std::string pre;                         // pre-tokenizer name; empty when absent
  std::vector<std::string> tokens;         // index = id
  std::vector<GgufTokenType> token_types;  // as many as tokens
  std::vector<float> scores;               // "llama" only: as many as tokens
  std::vector<std::string> merges;         // "a b"

  std::optional<int> bos_id, eos_id, eot_id, eom_id, unknown_id, padding_id;
  std::vector<int> fim_end_ids;  // fim_pad, fim_rep, fim_sep: these end generation
  std::optional<bool> add_bos, add_eos, add_space_prefix;

  std::string huggingface_json;  // tokenizer.huggingface.json; preferred when present
};

// Throws Error "SOURCE: KEY: found, wanted" for a missing, mistyped or contradictory key.
GgufVocabulary gguf_vocabulary(
    const std::map<std::string, MetadataValue, std::less<>>& metadata,
    std::string_view source);

}  // namespace ingot
