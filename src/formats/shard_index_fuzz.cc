// Fuzz target: parse_shard_index.  What is accepted names bare files only.
#include "base/check.h"
#include "formats/fuzz_json.h"
#include "formats/fuzz_target.h"
#include "formats/shard_index.h"

namespace ingot {
namespace {

const std::vector<std::string> kWords = {"weight_map",
                                         "metadata",
                                         "total_size",
                                         "model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors",
                                         "model-99999-of-00001.safetensors",
                                         "-0001-of-00001.safetensors",
                                         "../x.safetensors",
                                         "/x.safetensors",
                                         "..safetensors",
                                         ".safetensors",
                                         "a\\\\b.safetensors",
                                         "\\u0000.safetensors",
                                         "adapter_model.safetensors",
                                         ""};

void check_accepted(const ShardIndex& index) {
  CHECK(!index.file_of.empty());
  for (const auto& [tensor, file] : index.file_of) {
    CHECK(file.ends_with(".safetensors") && file.size() > 12);
    CHECK(file.find('/') == std::string::npos && file.find('\\') == std::string::npos);
    CHECK(file.find('\0') == std::string::npos && file[0] != '.');
    const std::optional<PartName> part = part_name(file, ".safetensors");
    CHECK(!part || part_file(*part, ".safetensors") == file);
  }
}

std::string mutate(std::string text, FuzzRandom& random, size_t max_size) {
  const size_t size = text.size();
  if (random.one_in(4)) {
    mutate_bytes(text, max_size);
  } else {
    for (size_t i = 0, changes = 1 + random.below(3); i < changes; ++i)
      mutate_json(text, random, kWords, size);
  }
  return text;
}

}  // namespace
}  // namespace ingot

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return ingot::mutate_input(data, size, max_size, seed, ingot::mutate);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return ingot::try_input(data, size, [](std::span<const std::byte> file) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    ingot::check_accepted(ingot::parse_shard_index(text, "fuzz"));
  });
}
