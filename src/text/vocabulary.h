// Token texts and their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Far above any published vocabulary (262,145 today); a limit, so that one huge id in a
// hostile file does not ask for gigabytes.
constexpr int kMaxTokenId = (1 << 21) - 1;

class Vocabulary {
 public:
  // Requires: 0 <= id <= kMaxTokenId.  A text seen again moves to the new id; an id seen
  // again is refused: false.
  [[nodiscard]] bool add(std::string_view text, int id);
  void reserve(size_t n_tokens, size_t n_bytes);

  std::optional<int> find(std::string_view text) const;
  // The ids of many texts, -1 where there is none.  In step, so that the waits for memory
  // overlap: with a large vocabulary that is most of the time.
  void find_each(std::span<const std::string_view> texts, std::span<int> ids) const;
  std::optional<std::string_view> text(int id) const;
  int size() const { return int(entries_.size()); }  // highest id + 1

 private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t length = kHole;
  };
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };
  static constexpr uint32_t kHole = ~uint32_t{0};

  std::string_view text_of(const Entry& entry) const {
    return std::string_view(letters_).substr(entry.begin, entry.length);
  }
  size_t slot_of(std::string_view text, uint32_t hash) const;
  void grow(size_t n_slots);

  std::string letters_;  // all texts, end to end
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing; a power of two, at most half full
  size_t n_used_ = 0;
};

}  // namespace ingot
