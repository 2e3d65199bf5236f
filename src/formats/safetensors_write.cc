// The safetensors writer: widest elements first, then by name, so that every tensor is
// aligned to its width and equal input gives equal bytes (formats.md 1.7).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/quote.h"
#include "formats/safetensors_dtype.h"
#include "formats/safetensors_stream.h"

namespace ingot {
namespace {

// Bits per element: sub-byte types sort behind bytes.
int width_bits(DType type) {
  return info(type).group_bytes * 8 / info(type).group_elements;
}

bool stands_before(DType type_a, const std::string& name_a, DType type_b,
                   const std::string& name_b) {
  const int width_a = width_bits(type_a);
  const int width_b = width_bits(type_b);
  return width_a != width_b ? width_a > width_b : name_a < name_b;
}

void check_type(const std::string& file, const std::string& name, DType type) {
  if (safetensors_name(type).empty())
    fail("{}: tensor {}: safetensors has no type {}", file, in_quotes(name),
         ingot::name(type));
}

void check_entry(const SafetensorsWriteEntry& entry, const std::string& file) {
  const TensorView& view = entry.view;
  check_type(file, entry.name, view.dtype);
  const std::optional<size_t> wanted =
      row_bytes(view.dtype, uint64_t(element_count(view.shape)));
  if (wanted != view.bytes.size())
    fail("{}: tensor {}: {} bytes, shape {} of {} wants {}", file, in_quotes(entry.name),
         view.bytes.size(), to_string(view.shape), name(view.dtype), wanted.value_or(0));
}

// The length of the header, then the header.
std::string header_of(const std::string& file, const std::vector<SafetensorsPlan>& plans,
                      const std::map<std::string, std::string>& metadata) {
  std::map<std::string_view, int> seen;
  std::string text = "{";
  if (!metadata.empty())
    text += "\"__metadata__\":" + nlohmann::json(metadata).dump() + ",";
  uint64_t offset = 0;
  for (const SafetensorsPlan& plan : plans) {
    check_type(file, plan.name, plan.dtype);
    if (++seen[plan.name] > 1) fail("{}: tensor {} twice", file, in_quotes(plan.name));
    const uint64_t end = offset + plan.n_bytes();
    text +=
        fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},",
                    nlohmann::json(plan.name).dump(), safetensors_name(plan.dtype),
                    fmt::join(plan.shape, ","), offset, end);
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t n_bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&n_bytes), sizeof n_bytes) + text;
}

}  // namespace

uint64_t SafetensorsPlan::n_bytes() const {
  return row_bytes(dtype, uint64_t(element_count(shape))).value();
}

void sort_for_safetensors(std::vector<SafetensorsPlan>& plans) {
  std::sort(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
    return stands_before(a.dtype, a.name, b.dtype, b.name);
  });
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     const std::vector<SafetensorsPlan>& plans,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  file_.write(header_of(printable(path), plans, metadata));
  for (const SafetensorsPlan& plan : plans) remaining_ += plan.n_bytes();
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= remaining_);
  file_.write(bytes.data(), bytes.size());
  remaining_ -= bytes.size();
}

void SafetensorsWriter::commit() {
  CHECK(remaining_ == 0);
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path,
                       std::vector<SafetensorsWriteEntry> entries,
                       const std::map<std::string, std::string>& metadata) {
  const std::string file = printable(path);
  for (const SafetensorsWriteEntry& entry : entries) check_entry(entry, file);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return stands_before(a.view.dtype, a.name, b.view.dtype, b.name);
  });
  std::vector<SafetensorsPlan> plans;
  for (const SafetensorsWriteEntry& entry : entries)
    plans.push_back({entry.name, entry.view.dtype, entry.view.shape});
  SafetensorsWriter out(path, plans, metadata);
  for (const SafetensorsWriteEntry& entry : entries) out.write(entry.view.bytes);
  out.commit();
}

}  // namespace ingot
