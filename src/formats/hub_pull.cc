// The pull of a model from the hub into the store (hub.h: pull_from_hub).
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/utf8.h"
#include "formats/hub.h"
#include "formats/hub_choice.h"
#include "formats/hub_client.h"
#include "formats/hub_download.h"
#include "formats/hub_text.h"
#include "formats/store_describe.h"
#include "formats/store_write.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxProgressBytes = size_t(16) << 20;
constexpr size_t kMaxIndexBytes = size_t(200) << 20;  // formats.md ST-30

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string hash_of(const HubFile& file) {
  return file.sha256.empty() ? file.git_sha1 : file.sha256;
}

// The unfinished download: which files are here, whole and checked, by what hash.
class PullProgress {
 public:
  explicit PullProgress(const fs::path& directory) : path_(directory / kProgressFile) {
    std::error_code error;
    if (!fs::exists(path_, error)) return;
    const json record = json::parse(read_file(path_, kMaxProgressBytes), nullptr, false);
    if (!record.is_object() || !record.contains("files") || !record["files"].is_object())
      return;
    for (const auto& item : record["files"].items())
      if (item.value().is_string())
        files_[hex_unescape(item.key())] = item.value().get<std::string>();
  }
  void begin(const std::string& name, const std::string& reference) {
    name_ = name;
    reference_ = reference;
    save();
  }
  void add(const std::string& file, const std::string& hash) {
    files_[file] = hash;
    save();
  }
  bool has(const std::string& file, const std::string& hash) const {
    const auto found = files_.find(file);
    return found != files_.end() && !hash.empty() && found->second == hash;
  }

 private:
  void save() const {
    json record = {{"name", hex_escape(name_)}, {"reference", hex_escape(reference_)}};
    record["files"] = json::object();
    for (const auto& [file, hash] : files_) record["files"][hex_escape(file)] = hash;
    AtomicFile out(path_);
    out.write(record.dump(2) + "\n");
    out.commit();
  }

  fs::path path_;
  std::string name_, reference_;
  std::map<std::string, std::string> files_;
};

// One pull, once its files are known and its directory is locked.
class HubPull {
 public:
  HubPull(HubClient& client, const HubReference& reference, const HubListing& listing,
          HubChoice choice, const fs::path& directory)
      : client_(client),
        reference_(reference),
        listing_(listing),
        choice_(std::move(choice)),
        directory_(directory),
        progress_(directory) {}

  void fetch_all(const std::string& name) {
    check_names(choice_.files);
    progress_.begin(name, reference_.text());
    drop_foreign_files();
    require_free_space(bytes_to_fetch(choice_.files), reference_.text());
    for (const HubFile& file : choice_.files) fetch(file);
    if (choice_.index.empty()) return;
    const fs::path index = directory_ / base_name(choice_.index);
    const std::vector<HubFile> shards = shards_of_index(
        listing_, read_file(index, kMaxIndexBytes), printable(index.filename()));
    require_free_space(bytes_to_fetch(shards), reference_.text());
    for (const HubFile& file : shards) fetch(file);
  }

 private:
  // Files are stored without their folders, so their names must differ.
  static void check_names(const std::vector<HubFile>& files) {
    std::set<std::string> names;
    for (const HubFile& file : files) {
      const std::string name = base_name(file.path);
      if (name.starts_with('.') || !names.insert(name).second)
        fail("{}: cannot be stored: hidden, or a second file of that name",
             printable_text(file.path));
    }
  }

  // What an earlier try for another commit left and this one does not want.
  void drop_foreign_files() {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory_, error)) {
      const std::string name = entry.path().filename().native();
      if (name.starts_with('.') || belongs(name)) continue;
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
    }
  }

  bool belongs(const std::string& name) const {
    for (const HubFile& file : listing_.files) {
      const std::string wanted = base_name(file.path);
      if (name == wanted || name == wanted + ".partial" ||
          name == wanted + ".partial.etag")
        return true;
    }
    return false;
  }

  bool is_here(const HubFile& file) const {
    const std::string name = base_name(file.path);
    std::error_code error;
    return progress_.has(name, hash_of(file)) && fs::exists(directory_ / name, error);
  }

  uint64_t bytes_to_fetch(const std::vector<HubFile>& files) const {
    uint64_t total = 0;
    for (const HubFile& file : files) {
      if (is_here(file)) continue;
      const uint64_t size = file.size_bytes.value_or(0);
      total += size - std::min(size, partial_bytes(directory_ / base_name(file.path)));
    }
    return total;
  }

  void fetch(const HubFile& file) {
    if (is_here(file)) return;
    const std::string name = base_name(file.path);
    download_file(client_, reference_, listing_, file, directory_ / name);
    progress_.add(name, hash_of(file));
  }

  HubClient& client_;
  const HubReference& reference_;
  const HubListing& listing_;
  HubChoice choice_;
  fs::path directory_;
  PullProgress progress_;
};

// The model that an earlier pull of the same reference left, under `name` if one is
// given.
std::optional<StoreEntry> stored(const HubReference& reference, std::string_view name) {
  const std::string wanted = lower_case(reference.text());
  for (StoreEntry& entry : list_store()) {
    const bool same = lower_case(entry.reference) == wanted;
    if (same && (name.empty() || entry.name == name)) return std::move(entry);
  }
  return {};
}

// "hf:ORG/NAME@COMMIT:FILE" without the commit: two versions of one thing are equal.
std::string without_commit(const std::string& source) {
  constexpr size_t kCommitDigits = 40;
  const size_t at = source.find('@');
  if (at == std::string::npos) return source;
  return source.substr(0, at) +
         source.substr(std::min(source.size(), at + 1 + kCommitDigits));
}

// Throws Error when the name is another model's already.
void require_own_name(const StoreEntry& wanted) {
  const std::optional<StoreEntry> other = find_in_store(wanted.name);
  if (!other || without_commit(other->source) == without_commit(wanted.source)) return;
  throw Error(
      fmt::format("{}: the store has another model of that name already, from {}",
                  printable_text(wanted.name),
                  other->source.empty() ? "elsewhere" : printable_text(other->source)),
      "choose another with --as NAME, or remove it with ingot rm");
}

}  // namespace

StoreEntry pull_from_hub(const HubReference& reference, std::string_view wanted_name,
                         const HubOptions& options) {
  if (!wanted_name.empty()) check_store_name(wanted_name);
  const std::optional<StoreEntry> present = stored(reference, wanted_name);
  if (present && (options.offline || is_hex(reference.revision, 40))) return *present;
  if (options.offline)
    throw Error(fmt::format("{}: not in the store {}, and offline", reference.text(),
                            printable(store_directory())),
                "pull it once without --offline (and without HF_HUB_OFFLINE)");
  make_directories(store_directory());
  sweep_store();

  HubClient client(options);
  const HubListing listing = client.list(reference);
  HubChoice choice = choose_files(listing, reference);
  StoreEntry entry;
  entry.name = wanted_name.empty() ? choice.default_name : std::string(wanted_name);
  check_store_name(entry.name);
  entry.reference = reference.text();
  entry.source = fmt::format("hf:{}@{}", reference.repo, listing.commit);
  if (!choice.label.empty()) entry.source += ":" + choice.label;
  require_own_name(entry);

  const std::string identity = entry.reference + "\n" + entry.name;
  Incoming incoming(xxh128_hex(identity.data(), identity.size()));
  // After the lock: another process may just have finished the same pull.
  if (std::optional<StoreEntry> done = find_in_store(entry.name);
      done && done->source == entry.source) {
    incoming.discard();
    return *done;
  }
  const std::string file = choice.first_gguf;
  HubPull(client, reference, listing, std::move(choice), incoming.directory())
      .fetch_all(entry.name);
  describe_checkpoint(file.empty() ? incoming.directory() : incoming.directory() / file,
                      entry);
  entry.added = utc_now();
  incoming.publish(entry, file);
  return find_in_store(entry.name).value();
}

}  // namespace ingot
