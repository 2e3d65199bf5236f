// The Hugging Face Hub over HTTP: what a reference means, which files a repository has,
// and the pull of a model into the store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/store.h"

namespace ingot {

// hf:ORG/NAME[@REV][:FILE|:QUANT]
struct HubReference {
  std::string repo;          // "ORG/NAME", or "NAME" for the hub's oldest models
  std::string revision;      // branch, tag or commit; "main" when not given
  std::string selector;      // a file or a quantisation; may be empty
  std::string text() const;  // canonical: no "@main"
};
bool is_hub_reference(std::string_view reference);
// Throws usage Error naming the part that is wrong.
HubReference parse_hub_reference(std::string_view reference);

struct HubOptions {
  std::string endpoint;           // no slash at the end; https, or http on this machine
  std::string token;              // sent to the endpoint alone, never shown
  double connect_timeout_s = 10;  // no answer from the endpoint for so long: give up
  double idle_timeout_s = 10;     // no byte for so long: the connection counts as dropped
  int retries = 5;                // attempts without progress before giving up
  bool offline = false;           // no request at all
};
// HF_ENDPOINT; HF_TOKEN, else the file HF_TOKEN_PATH, else HF_HOME/token; HF_HUB_OFFLINE.
// Throws Error when the endpoint is no https address (http: only localhost).
HubOptions hub_options_from_environment();

// One file of a repository at one commit, with what the hub says about its content.
struct HubFile {
  std::string path;  // inside the repository, checked: relative, no "..", no backslash
  std::optional<uint64_t> size_bytes;
  std::string sha256;    // 64 hex digits for large (LFS) files, else empty
  std::string git_sha1;  // 40 hex digits: SHA-1 of "blob SIZE\0" + content, or empty
};
struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

// Downloads what `reference` means into the store under `name` (empty: from the file or
// the repository).  Goes on with an unfinished download, verifies every file, and opens
// the checkpoint before it appears in the store.  Returns at once when the store already
// has this commit.  Throws Error; after one, finished files and *.partial stay for the
// next try (remove_from_store removes them).
StoreEntry pull_from_hub(const HubReference& reference, std::string_view name,
                         const HubOptions& options);

// Copies a .gguf file (all parts of a split one) or a model directory into the store
// under `name` (empty: from the path).  The copy is opened as a checkpoint before it
// appears.
StoreEntry pull_local(const std::filesystem::path& path, std::string_view name);

}  // namespace ingot
