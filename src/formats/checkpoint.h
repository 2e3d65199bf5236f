// A checkpoint: named tensors and metadata, whatever container they came in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace ingot {

enum class Container { safetensors, gguf };

// One value of GGUF metadata.  Integers keep their sign; arrays are of one kind.
using MetadataValue =
    std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<bool>,
                 std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
                 std::vector<std::string>>;

using Metadata = std::map<std::string, MetadataValue, std::less<>>;

struct StoredTensor {
  TensorView view;                   // points into one of the checkpoint's mapped files
  const MappedFile* file = nullptr;  // for messages and for dropping pages after the copy
};

// Everything read from MODEL.  Owns the mappings: views live as long as it does.
// Movable, not copyable.
struct Checkpoint {
  Container container = Container::safetensors;
  std::filesystem::path path;  // the model directory, or the (first) .gguf file

  // Tensors by the name in the file.  Shapes are row-major, slowest dimension first.
  std::map<std::string, StoredTensor, std::less<>> tensors;

  // GGUF only: all key-value pairs.
  Metadata metadata;

  // Safetensors directories: the JSON files beside the weights, as text; empty when
  // absent.
  std::string config_json;
  std::string generation_config_json;

  std::vector<std::unique_ptr<MappedFile>> files;

  const StoredTensor* find(std::string_view name) const;  // nullptr when absent
  // Throws Error "PATH: tensor 'NAME' is missing, wanted by the recipe".
  const StoredTensor& require(std::string_view name) const;
};

// Opens a model directory (safetensors, sharded or not), a GGUF file (first part of a
// split one) or a single safetensors file.  Every rule of formats.md 1.3, 1.6, 2.3, 2.4
// and the metadata rules of 2.5 are enforced before anything is returned; throws Error
// naming file, entry, found and wanted.  Values are not read (check_values.h does that).
Checkpoint open_checkpoint(const std::filesystem::path& path);

// How many tensors and bytes a checkpoint has of each type.
struct DTypeTotal {
  DType dtype;
  int n_tensors = 0;
  uint64_t n_values = 0;
  uint64_t n_bytes = 0;
};
std::vector<DTypeTotal> totals_by_dtype(
    const Checkpoint& checkpoint);  // most bytes first

// The parsers themselves, over bytes in memory: what open_checkpoint and the fuzzers
// call. `source` is the file's name for messages.
struct SafetensorsEntry {
  std::string name;
  TensorView view;
};
struct SafetensorsFile {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string, std::less<>> metadata;  // __metadata__
};
SafetensorsFile parse_safetensors(std::span<const std::byte> file,
                                  std::string_view source);

struct GgufTensor {
  std::string name;
  TensorView view;
};
struct GgufFile {
  uint32_t version = 0;
  Metadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of the file
  uint64_t trailing_bytes = 0;      // after the last tensor and its padding (GG-19)
};
GgufFile parse_gguf(std::span<const std::byte> file, std::string_view source);

// Writes a safetensors file (formats.md 1.7: ordered, aligned, reproducible, atomic).
struct SafetensorsWriteEntry {
  std::string name;
  TensorView view;
};
void write_safetensors(const std::filesystem::path& path,
                       std::vector<SafetensorsWriteEntry> entries,
                       const std::map<std::string, std::string>& metadata);

}  // namespace ingot
