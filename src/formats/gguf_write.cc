#include "formats/gguf_write.h"

#include <set>
#include <type_traits>

#include "base/check.h"
#include "base/error.h"
#include "formats/gguf_types.h"
#include "formats/quote.h"

namespace ingot {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;  // the format's default
constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxDimensions = 4;

uint64_t padding_after(uint64_t n_bytes) {
  return (kAlignment - n_bytes % kAlignment) % kAlignment;
}

uint64_t tensor_bytes(const GgufWriteEntry& entry) {
  const std::optional<size_t> row = row_bytes(entry.dtype, uint64_t(entry.shape.back()));
  const uint64_t n_rows =
      uint64_t(element_count(entry.shape)) / uint64_t(entry.shape.back());
  return row.value() * n_rows;
}

// Little-endian, as every machine that this runs on.
class Bytes {
 public:
  template <typename T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(std::string_view text) {
    number(uint64_t(text.size()));
    text_ += text;
  }
  void type(GgufType type) { number(uint32_t(type)); }
  void pad() { text_.append(padding_after(text_.size()), '\0'); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// One value or element without its type, and the type it takes.
GgufType type_of(bool) { return GgufType::boolean; }
GgufType type_of(double) { return GgufType::f32; }
GgufType type_of(const std::string&) { return GgufType::string; }
GgufType type_of(uint64_t value) {
  return value <= UINT32_MAX ? GgufType::u32 : GgufType::u64;
}
GgufType type_of(int64_t value) {
  return value >= INT32_MIN && value <= INT32_MAX ? GgufType::i32 : GgufType::i64;
}

void put(Bytes& out, GgufType, bool value) { out.number(uint8_t(value)); }
void put(Bytes& out, GgufType, double value) { out.number(float(value)); }
void put(Bytes& out, GgufType, const std::string& value) { out.string(value); }
void put(Bytes& out, GgufType type, uint64_t value) {
  if (type == GgufType::u32)
    out.number(uint32_t(value));
  else
    out.number(value);
}
void put(Bytes& out, GgufType type, int64_t value) {
  if (type == GgufType::i32)
    out.number(int32_t(value));
  else
    out.number(value);
}

template <typename T>
void put_value(Bytes& out, const T& value) {
  const GgufType type = type_of(value);
  out.type(type);
  put(out, type, value);
}

// The widest type that an element needs.
template <typename T>
void put_value(Bytes& out, const std::vector<T>& values) {
  GgufType type = type_of(T());
  for (const T& value : values)
    if (type_of(value) != type_of(T())) type = type_of(value);
  out.type(GgufType::array);
  out.type(type);
  out.number(uint64_t(values.size()));
  for (const T& value : values) put(out, type, value);
}

void check_entry(const GgufWriteEntry& entry, const std::string& file) {
  const std::string tensor = file + ": tensor " + in_quotes(entry.name);
  if (entry.name.empty() || entry.name.size() > kMaxNameBytes)
    fail("{}: a name of {} bytes, wanted 1 to {}", tensor, entry.name.size(),
         kMaxNameBytes);
  if (!ggml_type_id(entry.dtype))
    fail("{}: GGUF has no type {}", tensor, name(entry.dtype));
  if (entry.shape.empty() || entry.shape.size() > kMaxDimensions ||
      element_count(entry.shape) <= 0)
    fail("{}: shape {}, wanted 1 to {} dimensions", tensor, to_string(entry.shape),
         kMaxDimensions);
  if (!row_bytes(entry.dtype, uint64_t(entry.shape.back())))
    fail("{}: rows of {} values, {} wants a multiple of {}", tensor, entry.shape.back(),
         name(entry.dtype), info(entry.dtype).group_elements);
}

std::string header_of(const std::string& file, const Metadata& metadata,
                      const std::vector<GgufWriteEntry>& entries) {
  Bytes out;
  for (const char letter : {'G', 'G', 'U', 'F'}) out.number(letter);
  out.number(kVersion);
  out.number(uint64_t(entries.size()));
  out.number(uint64_t(metadata.size()));
  for (const auto& [key, value] : metadata) {
    out.string(key);
    std::visit([&out](const auto& v) { put_value(out, v); }, value);
  }
  std::set<std::string_view> seen;
  uint64_t offset = 0;
  for (const GgufWriteEntry& entry : entries) {
    check_entry(entry, file);
    if (!seen.insert(entry.name).second)
      fail("{}: tensor {} twice", file, in_quotes(entry.name));
    out.string(entry.name);
    out.number(uint32_t(entry.shape.size()));
    for (auto it = entry.shape.rbegin(); it != entry.shape.rend(); ++it)
      out.number(uint64_t(*it));
    out.number(*ggml_type_id(entry.dtype));
    out.number(offset);
    offset += tensor_bytes(entry);
    offset += padding_after(offset);
  }
  out.pad();
  return out.text();
}

}  // namespace

uint64_t gguf_file_bytes(const std::filesystem::path& path, const Metadata& metadata,
                         const std::vector<GgufWriteEntry>& entries) {
  uint64_t total = header_of(printable(path), metadata, entries).size();
  for (const GgufWriteEntry& entry : entries) {
    total += tensor_bytes(entry);
    total += padding_after(total);
  }
  return total;
}

GgufWriter::GgufWriter(std::filesystem::path path, const Metadata& metadata,
                       std::vector<GgufWriteEntry> entries)
    : file_(path), entries_(std::move(entries)) {
  file_.write(header_of(printable(path), metadata, entries_));
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  CHECK(entry_ < entries_.size());
  const uint64_t whole = tensor_bytes(entries_[entry_]);
  CHECK(bytes.size() <= whole - entry_bytes_);
  file_.write(bytes.data(), bytes.size());
  entry_bytes_ += bytes.size();
  if (entry_bytes_ < whole) return;
  file_.write(std::string(padding_after(whole), '\0'));
  ++entry_;
  entry_bytes_ = 0;
}

void GgufWriter::commit() {
  CHECK(entry_ == entries_.size());
  file_.commit();
}

}  // namespace ingot
