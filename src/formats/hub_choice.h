// Which files of a repository a reference means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/hub.h"

namespace ingot {

struct HubChoice {
  std::vector<HubFile> files;  // small ones first; each is stored under its base name
  std::string index;         // path of the safetensors index: its shards are still to be
                             // added by add_shards() once the index is here
  std::string first_gguf;    // base name of the file to open; empty for a directory
  std::string label;         // of the source: what was chosen, empty for a directory
  std::string default_name;  // in the store
};

// Throws Error listing the candidates when nothing or more than one thing fits.
HubChoice choose_files(const HubListing& listing, const HubReference& reference);

// The shards that the index names, in its order of names.  Throws Error when the index is
// bad or names a file that the repository lacks.
std::vector<HubFile> shards_of_index(const HubListing& listing,
                                     std::string_view index_json,
                                     std::string_view source);

// Whether a file of this name belongs to a model directory: configuration, tokenizer,
// chat template.  What pull_local takes too.
bool is_model_side_file(std::string_view file_name);
// model.safetensors and its like; not adapters, consolidated or fp16 duplicates.
bool is_weights_file(std::string_view file_name);

}  // namespace ingot
