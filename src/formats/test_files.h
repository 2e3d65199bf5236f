// For tests and fuzzers: files of each format, built byte by byte so that every field can
// be wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

template <typename T>
std::string le(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// ---- GGUF -----------------------------------------------------------------------------

inline std::string gguf_string(std::string_view text) {
  return le(uint64_t(text.size())) + std::string(text);
}
// One key-value pair; `payload` is the value as it lies in the file.
inline std::string gguf_kv(std::string_view key, uint32_t type,
                           const std::string& payload) {
  return gguf_string(key) + le(type) + payload;
}
inline std::string kv_u32(std::string_view key, uint32_t value) {
  return gguf_kv(key, 4, le(value));
}
inline std::string kv_f32(std::string_view key, float value) {
  return gguf_kv(key, 6, le(value));
}
inline std::string kv_string(std::string_view key, std::string_view value) {
  return gguf_kv(key, 8, gguf_string(value));
}
inline std::string kv_array(std::string_view key, uint32_t type, uint64_t count,
                            const std::string& elements) {
  return gguf_kv(key, 9, le(type) + le(count) + elements);
}
inline std::string kv_strings(std::string_view key,
                              const std::vector<std::string>& values) {
  std::string elements;
  for (const std::string& value : values) elements += gguf_string(value);
  return kv_array(key, 8, values.size(), elements);
}

// One tensor info; dims fastest first, as in the file.
inline std::string gguf_info(std::string_view name, const std::vector<uint64_t>& dims,
                             uint32_t type, uint64_t offset) {
  std::string info = gguf_string(name) + le(uint32_t(dims.size()));
  for (const uint64_t d : dims) info += le(d);
  return info + le(type) + le(offset);
}

struct GgufParts {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> pairs = {};
  std::vector<std::string> infos = {};
  std::optional<uint64_t> n_tensors = {};  // stated instead of the true numbers
  std::optional<uint64_t> n_pairs = {};
  size_t alignment = 32;
  size_t data_bytes = 0;
};

inline std::string gguf_file(const GgufParts& parts) {
  std::string file = parts.magic + le(parts.version);
  file += le(parts.n_tensors.value_or(parts.infos.size()));
  file += le(parts.n_pairs.value_or(parts.pairs.size()));
  for (const std::string& pair : parts.pairs) file += pair;
  for (const std::string& info : parts.infos) file += info;
  if (parts.data_bytes == 0) return file;
  file.resize((file.size() + parts.alignment - 1) / parts.alignment * parts.alignment);
  file.resize(file.size() + parts.data_bytes, '\x11');
  return file;
}

// ---- safetensors ----------------------------------------------------------------------

inline std::string safetensors_file(std::string_view header, size_t data_bytes) {
  return le(uint64_t(header.size())) + std::string(header) +
         std::string(data_bytes, '\x11');
}

// ---- directories ----------------------------------------------------------------------

// A directory that is gone at the end of the test.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view name = "ingot") {
    std::string pattern =
        (std::filesystem::temp_directory_path() / (std::string(name) + ".XXXXXX"))
            .string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::filesystem::path& name,
                              std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace ingot
