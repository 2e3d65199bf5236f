#include "formats/shard_index.h"

#include <charconv>

#include "base/error.h"
#include "formats/quote.h"
#include "formats/sniff.h"
#include "formats/strict_json.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr size_t kMaxIndexBytes = 200'000'000;

void check_shard_name(std::string_view file, std::string_view tensor,
                      std::string_view source) {
  const std::string where =
      fmt::format("{}: tensor {}: shard {}", source, in_quotes(tensor), in_quotes(file));
  for (const char c : file)
    if (c == '/' || c == '\\' || c == ':' || uint8_t(c) < 0x20 || c == 0x7f)
      fail("{}: wanted a bare file name (ST-31)", where);
  if (!file.ends_with(".safetensors") || file.starts_with('.'))
    fail("{}: wanted a name that ends in .safetensors (ST-31)", where);
  if (file.starts_with("adapter_model") || file.starts_with("consolidated") ||
      file.find(".fp16.") != std::string_view::npos)
    fail("{}: no part of the model itself (ST-39)", where);
}

// Numbered shards agree on how many they are.
void check_counts(const ShardIndex& index, std::string_view source) {
  int count = 0;
  for (const auto& [tensor, file] : index.file_of) {
    const std::optional<PartName> part = part_name(file, ".safetensors");
    if (!part) continue;
    if (count == 0) count = part->count;
    if (part->count != count)
      fail("{}: shard {} is one of {}, another one of {} (ST-36)", source,
           in_quotes(file), part->count, count);
    if (part->number < 1 || part->number > part->count)
      fail("{}: shard {}: number {} of {} (ST-36)", source, in_quotes(file), part->number,
           part->count);
  }
}

}  // namespace

ShardIndex parse_shard_index(std::string_view text, std::string_view source) {
  if (text.size() > kMaxIndexBytes)
    fail("{}: {} bytes, the limit is {} (ST-30)", source, text.size(), kMaxIndexBytes);
  if (!text.starts_with('{'))
    fail("{}: this is {}; wanted a JSON object (ST-30)", source,
         foreign_format(std::as_bytes(std::span(text))).value_or("no JSON object"));
  const json root = parse_strict_json(text, source);
  ShardIndex index;
  if (!root.contains("weight_map") || !root["weight_map"].is_object())
    fail("{}: field 'weight_map' is {}, wanted an object (ST-30)", source,
         root.contains("weight_map") ? json_kind(root["weight_map"]) : "missing");
  for (const auto& [tensor, file] : root["weight_map"].items()) {
    if (!file.is_string())
      fail("{}: tensor {}: shard is {}, wanted a string (ST-30)", source,
           in_quotes(tensor), json_kind(file));
    check_shard_name(file.get_ref<const std::string&>(), tensor, source);
    index.file_of.emplace(tensor, file.get<std::string>());
  }
  if (index.file_of.empty()) fail("{}: 'weight_map' names no tensor (ST-30)", source);
  check_counts(index, source);
  if (root.contains("metadata") && root["metadata"].is_object()) {
    const json& metadata = root["metadata"];
    if (metadata.contains("total_size") && metadata["total_size"].is_number_unsigned())
      index.total_size = metadata["total_size"].get<uint64_t>();
  }
  return index;
}

std::optional<PartName> part_name(std::string_view file, std::string_view extension) {
  constexpr size_t kDigits = 5;
  constexpr size_t kTail = 1 + kDigits + 4 + kDigits;  // -00001-of-00002
  if (!file.ends_with(extension)) return std::nullopt;
  const std::string_view stem = file.substr(0, file.size() - extension.size());
  if (stem.size() < kTail) return std::nullopt;
  const std::string_view tail = stem.substr(stem.size() - kTail);
  PartName part{std::string(stem.substr(0, stem.size() - kTail)), 0, 0};
  const auto read = [](std::string_view digits, int& value) {
    const auto end = digits.data() + digits.size();
    return std::from_chars(digits.data(), end, value).ptr == end && digits[0] != '-';
  };
  if (tail[0] != '-' || tail.substr(1 + kDigits, 4) != "-of-" ||
      !read(tail.substr(1, kDigits), part.number) ||
      !read(tail.substr(1 + kDigits + 4), part.count))
    return std::nullopt;
  return part;
}

std::string part_file(const PartName& part, std::string_view extension) {
  return fmt::format("{}-{:05}-of-{:05}{}", part.prefix, part.number, part.count,
                     extension);
}

}  // namespace ingot
