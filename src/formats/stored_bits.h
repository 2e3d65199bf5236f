// Little-endian bit streams in 32-bit words: code e occupies bits e * bits and up of the
// words that begin at `first`.  Bytes may be unaligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ingot {

inline uint32_t word_at(std::span<const std::byte> words, size_t i) {
  uint32_t word;
  std::memcpy(&word, words.data() + 4 * i, sizeof word);
  return word;
}

// `stride` words lie between one word of the stream and the next.
inline uint32_t code_at(std::span<const std::byte> words, size_t first, size_t e,
                        int bits, size_t stride = 1) {
  const size_t bit = e * size_t(bits);
  const size_t shift = bit % 32;
  const size_t word = first + bit / 32 * stride;
  uint64_t window = word_at(words, word);
  if (shift + size_t(bits) > 32) window |= uint64_t(word_at(words, word + stride)) << 32;
  return uint32_t(window >> shift) & ((1u << bits) - 1);
}

// Older writers leave the top bits of a word empty where a code would cross into the
// next.
inline uint32_t padded_code_at(std::span<const std::byte> words, size_t first, size_t e,
                               int bits, size_t stride = 1) {
  const auto per_word = size_t(32 / bits);
  const uint32_t word = word_at(words, first + e / per_word * stride);
  return (word >> (e % per_word * size_t(bits))) & ((1u << bits) - 1);
}

// ORs code e into a stream of zero bytes.
inline void put_code(std::byte* stream, size_t e, int bits, uint32_t code) {
  const size_t bit = e * size_t(bits);
  const uint32_t shifted = code << (bit % 8);  // 8 bits and more: at most two bytes
  stream[bit / 8] |= std::byte(shifted & 255u);
  if (shifted > 255u) stream[bit / 8 + 1] |= std::byte(shifted >> 8);
}

}  // namespace ingot
