// A directory with safetensors files (formats.md 1.6).
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "formats/open.h"
#include "formats/quote.h"
#include "formats/shard_index.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = 200'000'000;
constexpr size_t kMaxConfigBytes = size_t(16) << 20;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

void read_configs(Checkpoint& checkpoint, const fs::path& directory) {
  if (const fs::path path = directory / "config.json"; is_file(path))
    checkpoint.config_json = read_file(path, kMaxConfigBytes);
  if (const fs::path path = directory / "generation_config.json"; is_file(path))
    checkpoint.generation_config_json = read_file(path, kMaxConfigBytes);
}

bool is_inside(const fs::path& path, const fs::path& directory) {
  const auto mismatch =
      std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return mismatch.first == directory.end();
}

// ST-31: past symlinks a shard is still inside the model directory, or among the blobs of
// the hub cache that the directory is a snapshot of.
void check_target(const fs::path& shard, const fs::path& directory) {
  std::error_code error;
  const fs::path target = fs::canonical(shard, error);
  if (error)
    fail("{}: cannot be resolved: {} (ST-32)", printable(shard), error.message());
  const fs::path home = fs::canonical(directory, error);
  const fs::path blobs = home.parent_path().parent_path() / "blobs";
  const bool in_snapshot = home.parent_path().filename() == "snapshots";
  if (!is_inside(target, home) && !(in_snapshot && is_inside(target, blobs)))
    fail("{}: leads out of the model directory, to {} (ST-31)", printable(shard),
         printable(target));
}

// ST-36: where shards are numbered, all of 1 .. n are there.
void check_all_parts(const std::set<std::string>& shards, const fs::path& directory) {
  for (const std::string& shard : shards) {
    std::optional<PartName> part = part_name(shard, ".safetensors");
    if (!part) continue;
    for (int number = 1; number <= part->count; ++number) {
      part->number = number;
      const fs::path path = directory / part_file(*part, ".safetensors");
      if (!is_file(path))
        fail("{}: shard {} of {} is missing (ST-36)", printable(path), number,
             part->count);
    }
    return;  // parse_shard_index saw to it that the others have the same count
  }
}

void open_shard(Checkpoint& checkpoint, const ShardIndex& index, const std::string& shard,
                const fs::path& directory) {
  const fs::path path = directory / shard;
  if (!is_file(path))
    fail("{}: this shard is missing, {} names it (ST-32)", printable(path), kIndex);
  check_target(path, directory);
  auto file = std::make_unique<MappedFile>(path);
  SafetensorsFile parsed = parse_safetensors(file->bytes(), printable(path));
  int n_unmapped = 0;
  for (SafetensorsEntry& entry : parsed.entries) {
    const auto it = index.file_of.find(entry.name);
    if (it == index.file_of.end()) {
      ++n_unmapped;
    } else {
      // In two shards, whichever of them the index names: ST-34.
      add_tensor(checkpoint, std::move(entry.name), std::move(entry.view), *file,
                 "ST-34");
    }
  }
  if (n_unmapped != 0)
    log_warning("{}: {} tensors that {} does not name are ignored (ST-35)",
                printable(path), n_unmapped, kIndex);
  checkpoint.files.push_back(std::move(file));
}

// ST-33: every tensor of the index is in the shard that it names.
void check_all_mapped(const Checkpoint& checkpoint, const ShardIndex& index,
                      const fs::path& directory) {
  uint64_t n_bytes = 0;
  for (const auto& [name, shard] : index.file_of) {
    const StoredTensor* tensor = checkpoint.find(name);
    if (tensor == nullptr)
      fail("{}: tensor {} is missing, {} puts it there (ST-33)",
           printable(directory / shard), in_quotes(name), kIndex);
    if (tensor->file->path().filename() != fs::path(shard))
      fail("{}: tensor {} is in {}, {} puts it in {} (ST-33)", printable(directory),
           in_quotes(name), printable(tensor->file->path().filename()), kIndex,
           in_quotes(shard));
    n_bytes += tensor->view.bytes.size();
  }
  if (index.total_size && *index.total_size != n_bytes)
    log_warning("{}: total_size is {}, the tensors have {} bytes (ST-37)",
                printable(directory / kIndex), *index.total_size, n_bytes);
}

void open_sharded(Checkpoint& checkpoint, const fs::path& directory) {
  const fs::path index_path = directory / kIndex;
  const ShardIndex index =
      parse_shard_index(read_file(index_path, kMaxIndexBytes), printable(index_path));
  std::set<std::string> shards;
  for (const auto& [name, shard] : index.file_of) shards.insert(shard);
  check_all_parts(shards, directory);
  for (const std::string& shard : shards) open_shard(checkpoint, index, shard, directory);
  check_all_mapped(checkpoint, index, directory);
  if (!shards.contains(kSingle) && is_file(directory / kSingle))
    log_warning("{}: ignored, the shards of {} are used (ST-38)",
                printable(directory / kSingle), kIndex);
}

void add_file(Checkpoint& checkpoint, std::unique_ptr<MappedFile> file) {
  SafetensorsFile parsed = parse_safetensors(file->bytes(), printable(file->path()));
  for (SafetensorsEntry& entry : parsed.entries)
    add_tensor(checkpoint, std::move(entry.name), std::move(entry.view), *file, "ST-7");
  checkpoint.files.push_back(std::move(file));
}

// What a directory without the expected names holds instead, for the message.
[[noreturn]] void refuse_directory(const fs::path& directory) {
  std::error_code error;
  std::string hint;
  std::string other;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const fs::path file = entry.path().filename();
    if (file.extension() == ".gguf")
      hint = "it holds " + printable(file) + ": name that file";
    if (file.extension() == ".safetensors" || file.extension() == ".bin" ||
        file.extension() == ".pth" || file.extension() == ".pt")
      other = ", found " + printable(file);
  }
  if (error) fail("{}: cannot be listed: {}", printable(directory), error.message());
  throw Error(fmt::format("{}: no {} and no {} here{}", printable(directory), kSingle,
                          kIndex, other),
              hint);
}

}  // namespace

Checkpoint open_safetensors_directory(const fs::path& directory) {
  Checkpoint checkpoint;
  checkpoint.container = Container::safetensors;
  checkpoint.path = directory;
  if (is_file(directory / kIndex)) {
    open_sharded(checkpoint, directory);
  } else if (is_file(directory / kSingle)) {
    add_file(checkpoint, std::make_unique<MappedFile>(directory / kSingle));
  } else {
    refuse_directory(directory);
  }
  read_configs(checkpoint, directory);
  return checkpoint;
}

Checkpoint open_safetensors_file(std::unique_ptr<MappedFile> file) {
  const fs::path path = file->path();
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const auto part = part_name(path.filename().string(), ".safetensors");
  if (part && part->count > 1)
    throw Error(fmt::format("{}: one shard of {}, wanted the whole model",
                            printable(path), part->count),
                "open the directory " + printable(directory));
  Checkpoint checkpoint;
  checkpoint.container = Container::safetensors;
  checkpoint.path = path;
  add_file(checkpoint, std::move(file));
  read_configs(checkpoint, directory);
  return checkpoint;
}

}  // namespace ingot
