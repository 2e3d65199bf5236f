#include "base/hash.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"

namespace ingot {

std::string xxh128_hex(const void* data, size_t n_bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, n_bytes);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr));
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::update(const void* data, size_t n_bytes) {
  CHECK(EVP_DigestUpdate(state_->context, data, n_bytes));
}

std::string Sha256::finish_hex() {
  std::array<unsigned char, 32> digest{};
  CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr));
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_file(const std::filesystem::path& path,
                        const std::function<void(uint64_t)>& progress) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("{}: cannot be opened: {}", printable(path), std::strerror(errno));
  Sha256 sha;
  std::vector<char> buffer(size_t{1} << 20);
  uint64_t n_done = 0;
  while (true) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::string why = std::strerror(errno);
      ::close(fd);
      fail("{}: cannot be read: {}", printable(path), why);
    }
    if (n == 0) break;
    sha.update(buffer.data(), size_t(n));
    n_done += uint64_t(n);
    if (progress) progress(n_done);
  }
  ::close(fd);
  return sha.finish_hex();
}

}  // namespace ingot
