// model.safetensors.index.json: which file holds which tensor (formats.md 1.6).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ingot {

struct ShardIndex {
  std::map<std::string, std::string, std::less<>>
      file_of;                         // tensor name -> bare file name
  std::optional<uint64_t> total_size;  // advisory
};

// ST-30, ST-31 (the name itself), ST-36 (as far as names tell), ST-39.  Throws Error.
ShardIndex parse_shard_index(std::string_view text, std::string_view source);

// "model-00002-of-00007.safetensors" -> prefix "model", 2, 7.  Also for .gguf.
struct PartName {
  std::string prefix;
  int number;
  int count;
};
std::optional<PartName> part_name(std::string_view file, std::string_view extension);
std::string part_file(const PartName& part, std::string_view extension);

}  // namespace ingot
