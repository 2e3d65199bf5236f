// Fuzz target: parse_shard_index.  What is accepted names bare files only.
#include "base/check.h"
#include "base/error.h"
#include "formats/fuzz_json.h"
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

}  // namespace
}  // namespace ingot

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  ingot::FuzzRandom random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (random.one_in(4)) {
    ingot::mutate_bytes(text, max_size);
  } else {
    for (size_t i = 0, changes = 1 + random.below(3); i < changes; ++i)
      ingot::mutate_json(text, random, ingot::kWords, size);
  }
  return ingot::give_back(text, data, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    ingot::check_accepted(ingot::parse_shard_index(text, "fuzz"));
  } catch (const ingot::Error&) {
  }
  return 0;
}
