// For tests: the arrays of a safetensors file, read with nlohmann-json and no help from
// formats/, so that a golden file says the same whatever our own loader does.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace ingot {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name) {
    std::ifstream in(std::string(INGOT_SOURCE_DIR "/tests/data/") + name,
                     std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    if (bytes_.size() < 8) return;
    std::memcpy(&header_bytes_, bytes_.data(), 8);
    header_ = nlohmann::json::parse(bytes_.begin() + 8,
                                    bytes_.begin() + 8 + std::ptrdiff_t(header_bytes_));
    header_.erase("__metadata__");
  }

  bool empty() const { return header_.empty(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& item : header_.items()) names.push_back(item.key());
    return names;
  }
  bool has(const std::string& name) const { return header_.contains(name); }
  std::string dtype(const std::string& name) const {
    return header_.at(name).at("dtype");
  }
  Shape shape(const std::string& name) const { return header_.at(name).at("shape"); }

  std::span<const std::byte> bytes(const std::string& name) const {
    const std::vector<size_t> range = header_.at(name).at("data_offsets");
    const auto* data =
        reinterpret_cast<const std::byte*>(bytes_.data()) + 8 + header_bytes_;
    return {data + range[0], range[1] - range[0]};
  }
  std::vector<float> floats(const std::string& name) const {
    const std::span<const std::byte> b = bytes(name);
    std::vector<float> values(b.size() / sizeof(float));
    std::memcpy(values.data(), b.data(), b.size());
    return values;
  }

 private:
  std::vector<char> bytes_;
  uint64_t header_bytes_ = 0;
  nlohmann::json header_;
};

}  // namespace ingot
