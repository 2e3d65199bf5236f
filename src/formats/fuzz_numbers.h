// For the fuzz targets: a small generator and the numbers that break parsers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace ingot {

class FuzzRandom {
 public:
  explicit FuzzRandom(unsigned seed) : state_(seed * 2654435761u + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  size_t below(size_t n) { return n == 0 ? 0 : size_t(next() >> 11) % n; }
  bool one_in(size_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// A number that stands at an edge, or near `old` or `limit` (say, the bytes that remain).
inline uint64_t edge_number(FuzzRandom& random, uint64_t old, uint64_t limit) {
  switch (random.below(12)) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return ~uint64_t(0);
    case 3:
      return uint64_t(1) << random.below(64);
    case 4:
      return (uint64_t(1) << random.below(64)) - 1;
    case 5:
      return old + 1;
    case 6:
      return old - 1;
    case 7:
      return old ^ (uint64_t(1) << random.below(64));
    case 8:
      return limit;
    case 9:
      return limit + 1;
    case 10:
      return ~limit + random.below(64);
    default:
      return random.below(512);
  }
}

// libFuzzer's own mutation of a string.
inline void mutate_bytes(std::string& text, size_t max_size) {
  const size_t n = text.size();
  if (max_size < n || max_size == 0) return;
  text.resize(max_size);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), n, max_size));
}

// Writes a mutated input back; what does not fit is cut.
inline size_t give_back(const std::string& text, uint8_t* data, size_t max_size) {
  const size_t n = text.size() < max_size ? text.size() : max_size;
  std::memcpy(data, text.data(), n);
  return n;
}

}  // namespace ingot
