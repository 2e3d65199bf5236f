// The safetensors writer: widest elements first, then by name, so that every tensor is
// aligned to its width and equal input gives equal bytes (formats.md 1.7).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/quote.h"
#include "formats/safetensors_dtype.h"

namespace ingot {
namespace {

// Bits per element: sub-byte types sort behind bytes.
int width_bits(DType type) {
  return info(type).group_bytes * 8 / info(type).group_elements;
}

void check_entry(const SafetensorsWriteEntry& entry, const std::string& file) {
  const TensorView& view = entry.view;
  if (safetensors_name(view.dtype).empty())
    fail("{}: tensor {}: safetensors has no type {}", file, in_quotes(entry.name),
         name(view.dtype));
  const std::optional<size_t> wanted =
      row_bytes(view.dtype, uint64_t(element_count(view.shape)));
  if (wanted != view.bytes.size())
    fail("{}: tensor {}: {} bytes, shape {} of {} wants {}", file, in_quotes(entry.name),
         view.bytes.size(), to_string(view.shape), name(view.dtype), wanted.value_or(0));
}

std::string header_of(const std::vector<SafetensorsWriteEntry>& entries,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty())
    text += "\"__metadata__\":" + nlohmann::json(metadata).dump() + ",";
  uint64_t offset = 0;
  for (const SafetensorsWriteEntry& entry : entries) {
    const uint64_t end = offset + entry.view.bytes.size();
    text +=
        fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},",
                    nlohmann::json(entry.name).dump(), safetensors_name(entry.view.dtype),
                    fmt::join(entry.view.shape, ","), offset, end);
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::vector<SafetensorsWriteEntry> entries,
                       const std::map<std::string, std::string>& metadata) {
  const std::string file = printable(path);
  for (const SafetensorsWriteEntry& entry : entries) check_entry(entry, file);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    const int width_a = width_bits(a.view.dtype);
    const int width_b = width_bits(b.view.dtype);
    return width_a != width_b ? width_a > width_b : a.name < b.name;
  });
  std::map<std::string_view, int> seen;
  for (const SafetensorsWriteEntry& entry : entries)
    if (++seen[entry.name] > 1) fail("{}: tensor {} twice", file, in_quotes(entry.name));

  const std::string header = header_of(entries, metadata);
  const uint64_t n_bytes = header.size();
  AtomicFile out(path);
  out.write(&n_bytes, sizeof n_bytes);
  out.write(header);
  for (const SafetensorsWriteEntry& entry : entries)
    out.write(entry.view.bytes.data(), entry.view.bytes.size());
  out.commit();
}

}  // namespace ingot
