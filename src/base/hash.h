// Hashes: xxHash for identity inside one machine, SHA-256 for what others publish.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace ingot {

// XXH3, 128 bits, as 32 lower-case hex digits.
std::string xxh128_hex(const void* data, size_t n_bytes);

// SHA-256 in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(const void* data, size_t n_bytes);
  std::string finish_hex();  // 64 lower-case digits; call once
 private:
  struct State;
  std::unique_ptr<State> state_;
};

// SHA-256 of a file.  `progress` (may be empty) hears the bytes done.  Throws Error.
std::string sha256_file(const std::filesystem::path& path,
                        const std::function<void(uint64_t)>& progress);

}  // namespace ingot
