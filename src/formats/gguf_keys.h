// Typed reading of GGUF metadata: a value's kind is checked before it is used (GG-47).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"

namespace ingot {

// Each find_ is nothing (or nullptr) when the key is absent, and throws Error naming
// source, key, the kind found and the kind wanted when it is of another kind.
class GgufKeys {
 public:
  GgufKeys(const Metadata& metadata, std::string_view source)
      : metadata_(metadata), source_(source) {}

  std::string_view source() const { return source_; }
  bool has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }
  std::optional<uint64_t> find_count(std::string_view key) const;  // any integer >= 0
  // One integer, or an array of them (one a layer).
  struct Counts {
    bool per_layer = false;
    std::vector<uint64_t> values;
  };
  std::optional<Counts> find_counts(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  const std::string* find_string(std::string_view key) const;
  const std::vector<std::string>* find_strings(std::string_view key) const;

 private:
  const MetadataValue* find(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, const MetadataValue& found,
                           std::string_view wanted) const;
  uint64_t non_negative(std::string_view key, int64_t value) const;

  const Metadata& metadata_;
  std::string_view source_;
};

// "a string", "an array of integers": what a value is, for messages.
std::string_view kind(const MetadataValue& value);

}  // namespace ingot
