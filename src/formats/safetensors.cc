// The safetensors parser: eight bytes of length, a JSON header, tensor bytes without a
// gap (formats.md 1.1 - 1.3; rule ids are that section's).
#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/quote.h"
#include "formats/safetensors_dtype.h"
#include "formats/sniff.h"
#include "formats/strict_json.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxMetadataEntries = 10'000;
constexpr size_t kMaxTensors = 1'000'000;
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxRank = 8;

// One entry of the header, before it is known to fit the file.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The header's text; checks that it is there.  ST-1, ST-2, ST-3, ST-5.
std::string_view header_text(std::span<const std::byte> file, std::string_view source) {
  if (file.size() < 8)
    fail("{}: {} bytes, a safetensors file has at least 8 (ST-1)", source, file.size());
  uint64_t n_bytes = 0;
  std::memcpy(&n_bytes, file.data(), 8);
  if (n_bytes > kMaxHeaderBytes)
    fail("{}: header of {} bytes, the limit is {} (ST-2)", source, n_bytes,
         kMaxHeaderBytes);
  if (n_bytes > file.size() - 8)
    fail("{}: header of {} bytes, the file has {} after its length (ST-3)", source,
         n_bytes, file.size() - 8);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, n_bytes);
  if (!text.starts_with('{')) fail("{}: header does not begin with '{{' (ST-5)", source);
  return text;
}

// A JSON integer >= 0 that fits 64 bits, read exactly.  ST-9.
uint64_t unsigned_of(const json& value, std::string_view where, std::string_view what) {
  if (!value.is_number_unsigned())
    fail("{}: {} is {}, wanted a non-negative integer (ST-9)", where, what,
         json_kind(value));
  return value.get<uint64_t>();
}

void check_name(const std::string& name, std::string_view source) {  // ST-20
  if (name.empty()) fail("{}: a tensor without a name (ST-20)", source);
  if (name.size() > kMaxNameBytes)
    fail("{}: tensor {}: a name of {} bytes, the limit is {} (ST-20)", source,
         in_quotes(name), name.size(), kMaxNameBytes);
  for (const char c : name)
    if (uint8_t(c) < 0x20 || c == 0x7f)
      fail("{}: tensor {}: a control character in the name (ST-20)", source,
           in_quotes(name));
}

Shape read_shape(const json& value, std::string_view where) {
  if (!value.is_array())
    fail("{}: shape is {}, wanted an array (ST-8)", where, json_kind(value));
  if (value.size() > kMaxRank)
    fail("{}: shape has {} dimensions, the limit is {} (ST-21)", where, value.size(),
         kMaxRank);
  Shape shape;
  for (const json& dimension : value) {
    const uint64_t n = unsigned_of(dimension, where, "a dimension of shape");
    if (n > uint64_t(INT64_MAX)) fail("{}: dimension {} overflows (ST-11)", where, n);
    shape.push_back(int64_t(n));
  }
  return shape;
}

Entry read_entry(const std::string& name, const json& value, std::string_view source) {
  check_name(name, source);
  const std::string where = fmt::format("{}: tensor {}", source, in_quotes(name));
  if (!value.is_object())
    fail("{}: entry is {}, wanted an object (ST-8)", where, json_kind(value));
  for (const char* field : {"dtype", "shape", "data_offsets"})
    if (!value.contains(field)) fail("{}: field '{}' is missing (ST-8)", where, field);
  for (const auto& [field, unused] : value.items())
    if (field != "dtype" && field != "shape" && field != "data_offsets")
      fail("{}: unknown field {} (ST-8)", where, in_quotes(field));

  Entry entry;
  entry.name = name;
  const json& dtype = value["dtype"];
  if (!dtype.is_string())
    fail("{}: dtype is {}, wanted a string (ST-8)", where, json_kind(dtype));
  const std::optional<DType> type =
      safetensors_dtype(dtype.get_ref<const std::string&>());
  if (!type)
    fail("{}: unknown dtype {}", where, in_quotes(dtype.get_ref<const std::string&>()));
  entry.dtype = *type;
  entry.shape = read_shape(value["shape"], where);
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2)
    fail("{}: data_offsets is {}, wanted two integers (ST-9)", where,
         offsets.is_array() ? fmt::format("{} values", offsets.size())
                            : json_kind(offsets));
  entry.begin = unsigned_of(offsets[0], where, "data_offsets[0]");
  entry.end = unsigned_of(offsets[1], where, "data_offsets[1]");
  return entry;
}

// Bytes that shape and dtype say; checked at every step.  ST-11.
uint64_t wanted_bytes(const Entry& entry, std::string_view where) {
  uint64_t n = 1;
  for (const int64_t dimension : entry.shape)
    if (__builtin_mul_overflow(n, uint64_t(dimension), &n) || n > uint64_t(INT64_MAX))
      fail("{}: shape {} overflows (ST-11)", where, to_string(entry.shape));
  const DTypeInfo& type = info(entry.dtype);
  if (n % uint64_t(type.group_elements) != 0)
    fail("{}: {} values of {} do not fill whole bytes (ST-11)", where, n, type.name);
  const std::optional<size_t> bytes = row_bytes(entry.dtype, n);
  if (!bytes) fail("{}: shape {} overflows (ST-11)", where, to_string(entry.shape));
  return *bytes;
}

// Entries in order of their bytes cover the data section without hole or overlap.
void check_layout(const std::vector<Entry>& entries, uint64_t data_bytes,
                  std::string_view source) {
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    const std::string where = fmt::format("{}: tensor {}", source, in_quotes(entry.name));
    if (entry.begin > entry.end)
      fail("{}: data_offsets [{}, {}] run backwards (ST-10)", where, entry.begin,
           entry.end);
    const uint64_t wanted = wanted_bytes(entry, where);
    if (entry.end - entry.begin != wanted)
      fail("{}: data_offsets [{}, {}] hold {} bytes, shape {} of {} wants {} (ST-13)",
           where, entry.begin, entry.end, entry.end - entry.begin, to_string(entry.shape),
           safetensors_name(entry.dtype), wanted);
    if (entry.begin != end)
      fail("{}: begins at byte {}, wanted {}: {} (ST-12)", where, entry.begin, end,
           entry.begin > end ? "a hole" : "an overlap");
    end = entry.end;
  }
  if (end != data_bytes)
    fail("{}: tensors end at byte {} of the data, the file has {} (ST-14)", source, end,
         data_bytes);
}

std::map<std::string, std::string, std::less<>> read_metadata(const json& value,
                                                              std::string_view source) {
  if (!value.is_object())
    fail("{}: __metadata__ is {}, wanted an object (ST-19)", source, json_kind(value));
  if (value.size() > kMaxMetadataEntries)
    fail("{}: __metadata__ has {} entries, the limit is {} (ST-19)", source, value.size(),
         kMaxMetadataEntries);
  std::map<std::string, std::string, std::less<>> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail("{}: __metadata__ {} is {}, wanted a string (ST-19)", source, in_quotes(key),
           json_kind(text));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

}  // namespace

SafetensorsFile parse_safetensors(std::span<const std::byte> file,
                                  std::string_view source) {
  if (!looks_like_safetensors(file))
    if (const std::optional<std::string> other = foreign_format(file))
      fail("{}: this is {}; wanted a safetensors file", source, *other);
  // Copied before it is parsed: a mapped file may change under us (formats.md 1.5).
  const std::string header(header_text(file, source));
  const json root = parse_strict_json(header, source);

  SafetensorsFile parsed;
  std::vector<Entry> entries;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      parsed.metadata = read_metadata(value, source);
    } else {
      entries.push_back(read_entry(name, value, source));
    }
  }
  if (entries.size() > kMaxTensors)
    fail("{}: {} tensors, the limit is {} (ST-22)", source, entries.size(), kMaxTensors);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const std::span<const std::byte> data = file.subspan(8 + header.size());
  check_layout(entries, data.size(), source);
  for (Entry& entry : entries) {
    const std::span<const std::byte> bytes =
        data.subspan(entry.begin, entry.end - entry.begin);
    parsed.entries.push_back(
        {std::move(entry.name), {entry.dtype, std::move(entry.shape), bytes}});
  }
  return parsed;
}

}  // namespace ingot
