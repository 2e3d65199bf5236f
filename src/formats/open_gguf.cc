// A GGUF file and its further parts (formats.md 2.3).
#include "base/error.h"
#include "base/log.h"
#include "formats/gguf_check.h"
#include "formats/gguf_keys.h"
#include "formats/open.h"
#include "formats/quote.h"
#include "formats/shard_index.h"

namespace ingot {
namespace {

constexpr uint64_t kMaxParts = 99'999;  // five digits

// Parses one file into the checkpoint, which takes the mapping.
GgufFile add_part(Checkpoint& checkpoint, std::unique_ptr<MappedFile> file) {
  const std::string source = printable(file->path());
  GgufFile parsed = parse_gguf(file->bytes(), source);
  if (parsed.trailing_bytes != 0)
    log_warning("{}: {} bytes after the last tensor are ignored (GG-19)", source,
                parsed.trailing_bytes);
  for (GgufTensor& tensor : parsed.tensors)
    add_tensor(checkpoint, std::move(tensor.name), std::move(tensor.view), *file,
               "GG-21");
  checkpoint.files.push_back(std::move(file));
  return parsed;
}

// split.no and split.count must be `number` (zero-based) and `count`.
void check_split_keys(const GgufKeys& keys, uint64_t number, uint64_t count) {
  const std::optional<uint64_t> found_number = keys.find_count("split.no");
  const std::optional<uint64_t> found_count = keys.find_count("split.count");
  if (!found_number || !found_count)
    fail("{}: key '{}' is missing from a part of a split file (2.3)", keys.source(),
         found_number ? "split.count" : "split.no");
  if (*found_number != number)
    fail("{}: key 'split.no' is {}, wanted {} for part {} (2.3)", keys.source(),
         *found_number, number, number + 1);
  if (*found_count != count)
    fail("{}: key 'split.count' is {}, wanted {} (2.3)", keys.source(), *found_count,
         count);
}

void open_other_parts(Checkpoint& checkpoint, uint64_t count, uint64_t n_tensors) {
  const std::string source = printable(checkpoint.path);
  const std::string file = checkpoint.path.filename().string();
  std::optional<PartName> part = part_name(file, ".gguf");
  if (!part || uint64_t(part->count) != count || part->number != 1)
    fail(
        "{}: part 1 of {} by its keys, wanted a name that ends in -00001-of-{:05}.gguf "
        "(2.3)",
        source, count, count);
  for (uint64_t i = 1; i < count; ++i) {
    part->number = int(i) + 1;
    const std::filesystem::path path =
        checkpoint.path.parent_path() / part_file(*part, ".gguf");
    std::error_code error;
    if (!std::filesystem::exists(path, error))
      fail("{}: part {} of {} is missing (2.3)", printable(path), i + 1, count);
    const GgufFile parsed = add_part(checkpoint, std::make_unique<MappedFile>(path));
    const std::string part_source = printable(path);
    check_split_keys(GgufKeys(parsed.metadata, part_source), i, count);
  }
  if (checkpoint.tensors.size() != n_tensors)
    fail("{}: {} tensors in {} parts, key 'split.tensors.count' says {} (2.3)", source,
         checkpoint.tensors.size(), count, n_tensors);
}

}  // namespace

Checkpoint open_gguf(std::unique_ptr<MappedFile> first) {
  Checkpoint checkpoint;
  checkpoint.container = Container::gguf;
  checkpoint.path = first->path();
  const std::string source = printable(checkpoint.path);
  checkpoint.metadata = add_part(checkpoint, std::move(first)).metadata;

  const GgufKeys keys(checkpoint.metadata, source);
  const std::string file = checkpoint.path.filename().string();
  const std::optional<PartName> part = part_name(file, ".gguf");
  if (part && part->number != 1)
    throw Error(fmt::format("{}: part {} of {}, wanted the first (2.3)", source,
                            part->number, part->count),
                "open " + part_file({part->prefix, 1, part->count}, ".gguf"));
  // Tools that merge parts leave split.count behind, as 0.
  const uint64_t count = keys.find_count("split.count").value_or(0);
  if (count > kMaxParts)
    fail("{}: key 'split.count' is {}, the limit is {} (2.3)", source, count, kMaxParts);
  if (count > 1) {
    check_split_keys(keys, 0, count);
    const std::optional<uint64_t> n_tensors = keys.find_count("split.tensors.count");
    if (!n_tensors) fail("{}: key 'split.tensors.count' is missing (2.3)", source);
    open_other_parts(checkpoint, count, *n_tensors);
  } else if (part && part->count > 1) {
    fail("{}: named as part 1 of {}, but key 'split.count' is {} (2.3)", source,
         part->count, keys.has("split.count") ? std::to_string(count) : "missing");
  }
  check_gguf_model(checkpoint, source);
  return checkpoint;
}

}  // namespace ingot
