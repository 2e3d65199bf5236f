// For tests: a checkpoint made of named tensors and a config.json.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/test_files.h"

namespace ingot {

struct TestTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::string bytes;
};
using TestTensors = std::map<std::string, TestTensor>;

// A tensor of `count` equal elements, each `element` as it lies in the file.
inline TestTensor filled(DType dtype, Shape shape, const std::string& element) {
  TestTensor t{dtype, std::move(shape), {}};
  for (int64_t i = 0; i < element_count(t.shape); ++i) t.bytes += element;
  return t;
}

// The checkpoint of a directory with these tensors, in two shards when `sharded`: every
// other tensor in the second.
class TestModel {
 public:
  TestModel(const TestTensors& tensors, std::string_view config, bool sharded = false,
            const std::map<std::string, std::string>& files = {}) {
    std::vector<SafetensorsWriteEntry> shards[2];
    std::string index;
    size_t n = 0;
    for (const auto& [name, t] : tensors) {
      const size_t shard = sharded ? n++ % 2 : 0;
      shards[shard].push_back({name, {t.dtype, t.shape, as_bytes(t.bytes)}});
      index += std::string(index.empty() ? "" : ",") + "\"" + name + "\":\"" +
               shard_name(shard) + "\"";
    }
    for (size_t i = 0; i < (sharded ? 2u : 1u); ++i)
      write_safetensors(
          directory_.path() / (sharded ? shard_name(i) : "model.safetensors"), shards[i],
          {{"format", "pt"}});
    if (sharded)
      directory_.write("model.safetensors.index.json",
                       "{\"metadata\":{},\"weight_map\":{" + index + "}}");
    if (!config.empty()) directory_.write("config.json", config);
    for (const auto& [name, text] : files) directory_.write(name, text);
    checkpoint_ = open_checkpoint(directory_.path());
  }
  const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  static std::string shard_name(size_t i) {
    return "model-0000" + std::to_string(i + 1) + "-of-00002.safetensors";
  }

  TemporaryDirectory directory_;
  Checkpoint checkpoint_;
};

}  // namespace ingot
