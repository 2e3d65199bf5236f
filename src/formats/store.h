// Where models live, and what a MODEL on the command line means.
//
// The store is one directory: $INGOT_HOME/models, else $XDG_DATA_HOME/ingot/models, else
// ~/.local/share/ingot/models.  Each model is a directory STORE/NAME that appears by one
// rename when it is complete, and goes by one rename into STORE/.trash.  Work in progress
// is in STORE/.incoming.  Names that begin with '.' are never models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct StoreEntry {
  std::string name;
  std::filesystem::path path;  // what open_checkpoint takes: a directory or a .gguf file
  uint64_t size_bytes = 0;     // all files of the model
  std::string source;          // "hf:ORG/NAME@COMMIT:FILE" or the local path it came from
  std::string reference;       // as asked for: "hf:ORG/NAME:Q8_0"; empty for a local one
  std::string format;          // "gguf" or "safetensors"
  std::string quant;           // "Q8_0", "BF16": the type most weight bytes have
  std::string added;           // UTC, "2026-11-30T21:05:00Z"
};

// An unfinished download: pulling the same reference again goes on from here.
struct StoreLeftover {
  std::string name;  // the name that it would have
  std::string reference;
  uint64_t size_bytes = 0;
};

// STORE; need not exist yet.  Throws Error when no variable says where.
std::filesystem::path store_directory();

// Sorted by name.  A store that does not exist yet is empty; one that cannot be read is
// an Error.
std::vector<StoreEntry> list_store();
std::vector<StoreLeftover> list_leftovers();
std::vector<std::string> store_names();  // printable, for messages
std::optional<StoreEntry> find_in_store(std::string_view name);

// Removes a model, or an unfinished download of that name; returns the bytes freed.
// Throws Error with a hint of near names when there is none.
uint64_t remove_from_store(std::string_view name);

// MODEL of the command line -> the path that open_checkpoint takes.  A model directory, a
// .gguf file, hf:ORG/NAME[@REV][:FILE|:QUANT] (downloaded into the store when it is not
// there yet and `allow_download`), or a name in the store.  Errors name what was tried;
// the hint names near names.
enum class Download { allowed, forbidden };
std::filesystem::path resolve_model(std::string_view reference,
                                    Download download = Download::allowed);

// What open_checkpoint takes for a directory that holds one model: the .gguf file when
// that is all there is (the first part of a split one), else the directory itself.
std::filesystem::path model_in_directory(const std::filesystem::path& directory);

// Throws usage Error unless `name` can be a model's name: one path segment, at most 250
// bytes, no control character or backslash, not beginning with '.', '-' or "hf:".
void check_store_name(std::string_view name);

}  // namespace ingot
