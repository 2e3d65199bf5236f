// What MODEL on the command line means (store.h: resolve_model).
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/hub.h"
#include "formats/hub_text.h"
#include "formats/store.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Whether a directory in the current folder is meant, rather than a model of that name in
// the store.
bool looks_like_model(const fs::path& directory) {
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json",
                           "tokenizer.model", "recipe.json", "model.safetensors"})
    if (is_there(directory / file)) return true;
  return model_in_directory(directory) != directory;
}

fs::path resolve_hub(std::string_view text, Download download) {
  const HubReference reference = parse_hub_reference(text);
  const std::string wanted = lower_case(reference.text());
  for (const StoreEntry& entry : list_store()) {
    if (lower_case(entry.reference) == wanted || lower_case(entry.source) == wanted)
      return entry.path;
  }
  HubOptions options = hub_options_from_environment();
  if (download == Download::forbidden) options.offline = true;
  return pull_from_hub(reference, {}, options).path;
}

[[noreturn]] void fail_unknown(std::string_view reference) {
  const std::string shown = printable_text(reference);
  std::string hint = near_names_hint(shown, store_names());
  if (hint.empty())
    hint = "`ingot list` shows the store; `ingot pull hf:ORG/NAME` fetches a model";
  throw Error(
      fmt::format("{}: no such file or directory, and no model of that name in the "
                  "store {}",
                  shown, printable(store_directory())),
      hint);
}

}  // namespace

fs::path model_in_directory(const fs::path& directory) {
  if (is_there(directory / "config.json")) return directory;
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string file = it->path().filename().native();
    if (!lower_case(file).ends_with(".gguf") || file.starts_with("mmproj")) continue;
    if (parse_split_name(file, ".gguf").part > 1) continue;  // opened through the first
    found.push_back(it->path());
  }
  return found.size() == 1 ? found.front() : directory;
}

fs::path resolve_model(std::string_view reference, Download download) {
  if (reference.empty())
    fail_usage("MODEL: empty, wanted a directory, a .gguf file, hf:ORG/NAME or a name");
  if (is_hub_reference(reference)) return resolve_hub(reference, download);
  fs::path path(reference);
  std::error_code error;
  const bool is_directory = fs::is_directory(path, error);
  const bool is_file = !is_directory && is_there(path);
  const bool is_path = reference.find('/') != std::string_view::npos;
  if (is_file) return path;
  if (is_directory && (is_path || looks_like_model(path)))
    return model_in_directory(path);
  if (const std::optional<StoreEntry> entry = find_in_store(reference))
    return entry->path;
  if (is_directory) return path;
  fail_unknown(reference);
}

}  // namespace ingot
