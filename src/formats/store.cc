#include "formats/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/hub_text.h"
#include "formats/store_write.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxNameBytes = 250;
constexpr size_t kMaxRecordBytes = size_t(1) << 20;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The JSON object in `path`; null when there is none or it is none.
json read_record(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  json record = json::parse(read_file(path, kMaxRecordBytes), nullptr, false);
  return record.is_object() ? record : json();
}

std::string text_of(const json& record, const char* key) {
  const auto found = record.find(key);
  if (!record.is_object() || found == record.end() || !found->is_string()) return {};
  return hex_unescape(found->get<std::string>());
}

// A record is only a hint: its file must be a plain name that exists beside it.
fs::path model_path(const fs::path& directory, const std::string& file) {
  std::error_code error;
  const bool plain = !file.empty() && file.find('/') == std::string::npos && file != "..";
  if (plain && fs::is_regular_file(directory / file, error)) return directory / file;
  return model_in_directory(directory);
}

StoreEntry read_entry(const fs::path& directory) {
  const json record = read_record(directory / kEntryFile);
  StoreEntry entry;
  entry.name = directory.filename().native();
  entry.path = model_path(directory, text_of(record, "file"));
  entry.size_bytes = directory_bytes(directory);
  entry.source = text_of(record, "source");
  entry.reference = text_of(record, "reference");
  entry.format = text_of(record, "format");
  entry.quant = text_of(record, "quant");
  entry.added = text_of(record, "added");
  if (entry.format.empty())
    entry.format = entry.path.extension() == ".gguf" ? "gguf" : "safetensors";
  return entry;
}

// The directories right inside `path`, sorted; none when `path` does not exist.
std::vector<fs::path> directories_in(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> found;
  fs::directory_iterator it(path, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) found.push_back(it->path());
  }
  if (error)
    throw Error(fmt::format("{}: cannot be read: {}", printable(path), error.message()),
                kStoreHint);
  std::sort(found.begin(), found.end());
  return found;
}

// Where the unfinished download `name` is; empty when there is none.
fs::path leftover_directory(std::string_view name) {
  for (const fs::path& directory : directories_in(store_directory() / kIncomingDirectory))
    if (text_of(read_record(directory / kProgressFile), "name") == name) return directory;
  return {};
}

// Removes an unfinished download, holding its lock meanwhile.
void remove_leftover(const fs::path& directory, std::string_view name) {
  const int fd =
      ::open((directory / kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    fail("{}: another ingot is fetching this model, wanted it to be at rest",
         printable_text(name));
  }
  move_to_trash(directory);
  if (fd >= 0) ::close(fd);
}

}  // namespace

fs::path store_directory() {
  if (const std::string home = variable("INGOT_HOME"); !home.empty())
    return fs::path(home) / "models";
  if (const std::string data = variable("XDG_DATA_HOME"); data.starts_with('/'))
    return fs::path(data) / "ingot" / "models";
  if (const std::string home = variable("HOME"); !home.empty())
    return fs::path(home) / ".local" / "share" / "ingot" / "models";
  throw Error("model store: no home: INGOT_HOME, XDG_DATA_HOME and HOME are all unset",
              "set INGOT_HOME to the directory that shall hold the models");
}

std::vector<StoreEntry> list_store() {
  std::vector<StoreEntry> entries;
  for (const fs::path& directory : directories_in(store_directory()))
    if (!directory.filename().native().starts_with('.'))
      entries.push_back(read_entry(directory));
  // A model removed meanwhile by someone else is not listed.
  std::erase_if(entries, [](const StoreEntry& entry) {
    std::error_code ignored;
    return !fs::exists(entry.path, ignored);
  });
  return entries;
}

std::vector<StoreLeftover> list_leftovers() {
  std::vector<StoreLeftover> leftovers;
  for (const fs::path& directory :
       directories_in(store_directory() / kIncomingDirectory)) {
    const json record = read_record(directory / kProgressFile);
    if (!record.is_object()) continue;
    leftovers.push_back({text_of(record, "name"), text_of(record, "reference"),
                         directory_bytes(directory)});
  }
  return leftovers;
}

std::vector<std::string> store_names() {
  std::vector<std::string> names;
  for (const StoreEntry& entry : list_store())
    names.push_back(printable_text(entry.name));
  return names;
}

std::optional<StoreEntry> find_in_store(std::string_view name) {
  std::error_code error;
  if (name.empty() || name.starts_with('.') || name.find('/') != std::string_view::npos ||
      name.size() > kMaxNameBytes)
    return {};
  const fs::path directory = store_directory() / name;
  if (!fs::is_directory(directory, error)) return {};
  return read_entry(directory);
}

uint64_t remove_from_store(std::string_view name) {
  check_store_name(name);
  sweep_store();
  std::error_code error;
  const fs::path model = store_directory() / name;
  if (fs::is_directory(model, error)) {
    const uint64_t n_bytes = directory_bytes(model);
    move_to_trash(model);
    return n_bytes;
  }
  const fs::path leftover = leftover_directory(name);
  if (!leftover.empty()) {
    const uint64_t n_bytes = directory_bytes(leftover);
    remove_leftover(leftover, name);
    return n_bytes;
  }
  throw Error(
      fmt::format("{}: not in the store {}, wanted a name that `ingot list` shows",
                  printable_text(name), printable(store_directory())),
      near_names_hint(printable_text(name), store_names()));
}

void check_store_name(std::string_view name) {
  const std::string shown = printable_text(name);
  if (name.empty()) fail_usage("model name: empty, wanted at least one letter");
  if (name.size() > kMaxNameBytes)
    fail_usage("model name: {} bytes, wanted at most {}", name.size(), kMaxNameBytes);
  if (name.front() == '.' || name.front() == '-')
    fail_usage("model name '{}': begins with '{}', which hidden files and flags do",
               shown, name.front());
  if (name.starts_with("hf:"))
    fail_usage("model name '{}': begins with \"hf:\", which means the hub", shown);
  for (const char c : name) {
    const bool control = (c >= 0 && c < ' ') || c == 0x7F;
    if (control || c == '/' || c == '\\')
      fail_usage(
          "model name '{}': has a slash, backslash or control character, wanted one "
          "plain folder name",
          shown);
  }
}

}  // namespace ingot
