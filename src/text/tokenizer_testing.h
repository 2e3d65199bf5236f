// What the tokenizer tests share: the published tokenizers, unpacked by the build from
// tests/data/tokenizers.tar.xz into INGOT_TOKENIZERS (tests/tokenizers/unpack.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "text/tokenizer.h"

namespace ingot {

constexpr const char* kTokenizerNames[] = {"gpt2",  "llama2", "deepseek_v3", "llama3_1",
                                           "qwen3", "gptoss", "gemma3"};

inline std::filesystem::path tokenizer_directory(std::string_view name) {
  return std::filesystem::path(INGOT_TOKENIZERS) / name;
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_file(path));
}

// FNV-1a, as tests/tokenizers/make_data.py has it.
inline std::string fnv_hex(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return fmt::format("{:016x}", hash);
}

inline std::string fnv_hex(std::span<const int> ids) {
  std::string bytes;
  for (const int id : ids) {
    for (int shift = 0; shift < 32; shift += 8) bytes += char(uint8_t(id >> shift));
  }
  return fnv_hex(bytes);
}

// All ids through the stream, one at a time; fails a test when a part ends inside a
// UTF-8 sequence.
std::string streamed(const Tokenizer& tokenizer, std::span<const int> ids,
                     bool skip_special);

}  // namespace ingot
