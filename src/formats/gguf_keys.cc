#include "formats/gguf_keys.h"

#include "base/error.h"
#include "formats/quote.h"

namespace ingot {

std::string_view kind(const MetadataValue& value) {
  constexpr std::string_view kKinds[] = {"a bool",
                                         "an integer",
                                         "an integer",
                                         "a float",
                                         "a string",
                                         "an array of bools",
                                         "an array of integers",
                                         "an array of integers",
                                         "an array of floats",
                                         "an array of strings"};
  static_assert(std::size(kKinds) == std::variant_size_v<MetadataValue>);
  return kKinds[value.index()];
}

const MetadataValue* GgufKeys::find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

void GgufKeys::refuse(std::string_view key, const MetadataValue& found,
                      std::string_view wanted) const {
  fail("{}: key {} is {}, wanted {} (GG-47)", source_, in_quotes(key), kind(found),
       wanted);
}

uint64_t GgufKeys::non_negative(std::string_view key, int64_t value) const {
  if (value < 0)
    fail("{}: key {} is {}, wanted a count (GG-47)", source_, in_quotes(key), value);
  return uint64_t(value);
}

std::optional<uint64_t> GgufKeys::find_count(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* n = std::get_if<uint64_t>(value)) return *n;
  if (const auto* n = std::get_if<int64_t>(value)) return non_negative(key, *n);
  refuse(key, *value, "an integer");
}

std::optional<GgufKeys::Counts> GgufKeys::find_counts(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* values = std::get_if<std::vector<uint64_t>>(value))
    return Counts{true, *values};
  if (const auto* values = std::get_if<std::vector<int64_t>>(value)) {
    Counts counts{true, {}};
    for (const int64_t n : *values) counts.values.push_back(non_negative(key, n));
    return counts;
  }
  if (value->index() > 2 || std::holds_alternative<bool>(*value))
    refuse(key, *value, "an integer or an array of integers");
  return Counts{false, {*find_count(key)}};
}

std::optional<double> GgufKeys::find_float(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  refuse(key, *value, "a float");
}

const std::string* GgufKeys::find_string(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* text = std::get_if<std::string>(value)) return text;
  refuse(key, *value, "a string");
}

const std::vector<std::string>* GgufKeys::find_strings(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* texts = std::get_if<std::vector<std::string>>(value)) return texts;
  refuse(key, *value, "an array of strings");
}

}  // namespace ingot
