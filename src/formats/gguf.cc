// The GGUF parser (formats.md 2.1, 2.4; rule ids are that section's).  One cursor walks
// the header; counts and lengths are compared with the bytes that remain before anything
// is allocated, and no tensor byte is touched.
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/gguf_types.h"
#include "formats/quote.h"
#include "formats/sniff.h"

namespace ingot {
namespace {

constexpr uint64_t kMaxKeyValues = 65'536;
constexpr uint64_t kMaxTensors = 1'000'000;
constexpr uint64_t kLeastKeyValueBytes = 14;
constexpr uint64_t kLeastTensorBytes = 33;
constexpr uint64_t kMaxKeyBytes = 65'535;
constexpr uint64_t kMaxNameBytes = 63;
constexpr uint64_t kMaxStringBytes = uint64_t(64) << 20;
constexpr uint64_t kMaxArrayCount = 16'777'216;
constexpr uint64_t kMaxDimension = 0x7fffffff;
constexpr uint32_t kDefaultAlignment = 32;

// A position in the file that never passes its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, std::string_view source)
      : file_(file), source_(source) {}

  size_t position() const { return position_; }
  size_t remaining() const { return file_.size() - position_; }
  std::string_view source() const { return source_; }

  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what), sizeof value);
    return value;
  }

  // A length and that many bytes.  GG-3.
  std::string read_string(uint64_t longest, std::string_view what) {
    const uint64_t n = read<uint64_t>(what);
    if (n > remaining())
      fail("{}: {}: a string of {} bytes at byte {}, {} remain (GG-3)", source_, what, n,
           position_, remaining());
    if (n > longest)
      fail("{}: {}: a string of {} bytes, the limit is {} (GG-3)", source_, what, n,
           longest);
    return std::string(take(size_t(n), what), size_t(n));
  }

 private:
  const char* take(size_t n, std::string_view what) {
    if (n > remaining())
      fail("{}: {}: the file ends at byte {}, {} more bytes wanted at byte {} (GG-20)",
           source_, what, file_.size(), n, position_);
    const auto* p = reinterpret_cast<const char*>(file_.data()) + position_;
    position_ += n;
    return p;
  }

  std::span<const std::byte> file_;
  std::string_view source_;
  size_t position_ = 0;
};

bool has_control_byte(std::string_view text) {
  for (const char c : text)
    if (uint8_t(c) < 0x20 || c == 0x7f) return true;
  return false;
}

GgufType read_type(Cursor& in, const std::string& what) {
  const uint32_t id = in.read<uint32_t>(what);
  if (id >= kGgufTypeCount)
    fail("{}: {}: value type {}, the types are 0 to {} (GG-5)", in.source(), what,
         int32_t(id), kGgufTypeCount - 1);
  return GgufType(id);
}

bool read_bool(Cursor& in, const std::string& what) {
  const uint8_t byte = in.read<uint8_t>(what);
  if (byte > 1)
    fail("{}: {}: a bool of {}, wanted 0 or 1 (GG-5)", in.source(), what, byte);
  return byte != 0;
}

// One number, widened to the kind that MetadataValue keeps.
template <typename Wide>
Wide read_number(Cursor& in, GgufType type, const std::string& what) {
  switch (type) {
    case GgufType::u8:
      return Wide(in.read<uint8_t>(what));
    case GgufType::i8:
      return Wide(in.read<int8_t>(what));
    case GgufType::u16:
      return Wide(in.read<uint16_t>(what));
    case GgufType::i16:
      return Wide(in.read<int16_t>(what));
    case GgufType::u32:
      return Wide(in.read<uint32_t>(what));
    case GgufType::i32:
      return Wide(in.read<int32_t>(what));
    case GgufType::f32:
      return Wide(in.read<float>(what));
    case GgufType::u64:
      return Wide(in.read<uint64_t>(what));
    case GgufType::i64:
      return Wide(in.read<int64_t>(what));
    default:
      return Wide(in.read<double>(what));
  }
}

template <typename Wide>
std::vector<Wide> read_numbers(Cursor& in, GgufType type, size_t n,
                               const std::string& what) {
  std::vector<Wide> values(n);
  for (Wide& value : values) value = read_number<Wide>(in, type, what);
  return values;
}

MetadataValue read_array(Cursor& in, const std::string& what) {  // GG-4
  const GgufType type = read_type(in, what);
  if (type == GgufType::array)
    fail("{}: {}: an array of arrays, which no reader takes (GG-4)", in.source(), what);
  const uint64_t n = in.read<uint64_t>(what);
  if (n > in.remaining() / least_bytes(type))
    fail("{}: {}: an array of {} {} values, {} bytes remain (GG-4)", in.source(), what, n,
         name(type), in.remaining());
  if (n > kMaxArrayCount)
    fail("{}: {}: an array of {} values, the limit is {} (GG-4)", in.source(), what, n,
         kMaxArrayCount);
  switch (type) {
    case GgufType::u8:
    case GgufType::u16:
    case GgufType::u32:
    case GgufType::u64:
      return read_numbers<uint64_t>(in, type, n, what);
    case GgufType::i8:
    case GgufType::i16:
    case GgufType::i32:
    case GgufType::i64:
      return read_numbers<int64_t>(in, type, n, what);
    case GgufType::f32:
    case GgufType::f64:
      return read_numbers<double>(in, type, n, what);
    case GgufType::boolean: {
      std::vector<bool> values(n);
      for (size_t i = 0; i < n; ++i) values[i] = read_bool(in, what);
      return values;
    }
    default: {
      std::vector<std::string> values(n);
      for (std::string& value : values) value = in.read_string(kMaxStringBytes, what);
      return values;
    }
  }
}

MetadataValue read_value(Cursor& in, GgufType type, const std::string& what) {
  switch (type) {
    case GgufType::u8:
    case GgufType::u16:
    case GgufType::u32:
    case GgufType::u64:
      return read_number<uint64_t>(in, type, what);
    case GgufType::i8:
    case GgufType::i16:
    case GgufType::i32:
    case GgufType::i64:
      return read_number<int64_t>(in, type, what);
    case GgufType::f32:
    case GgufType::f64:
      return read_number<double>(in, type, what);
    case GgufType::boolean:
      return read_bool(in, what);
    case GgufType::string:
      return in.read_string(kMaxStringBytes, what);
    default:
      return read_array(in, what);
  }
}

struct Header {
  uint32_t version;
  uint64_t n_tensors;
  uint64_t n_key_values;
};

Header read_header(Cursor& in) {  // GG-1, GG-2
  in.read<uint32_t>("magic");
  const uint32_t version = in.read<uint32_t>("version");
  if ((version & 0xffff) == 0 && version != 0)
    fail(
        "{}: a big-endian GGUF file (version field {:#010x}), wanted little-endian "
        "(GG-1)",
        in.source(), version);
  if (version == 1)
    fail("{}: GGUF version 1, whose layout no current tool reads; wanted 2 or 3 (GG-1)",
         in.source());
  if (version != 2 && version != 3)
    fail("{}: GGUF version {}, wanted 2 or 3 (GG-1)", in.source(), version);
  const uint64_t n_tensors = in.read<uint64_t>("number of tensors");
  const uint64_t n_key_values = in.read<uint64_t>("number of key-value pairs");
  if (n_key_values > kMaxKeyValues || n_key_values > in.remaining() / kLeastKeyValueBytes)
    fail("{}: {} key-value pairs, the limit is {} and {} bytes remain (GG-2)",
         in.source(), n_key_values, kMaxKeyValues, in.remaining());
  if (n_tensors > kMaxTensors || n_tensors > in.remaining() / kLeastTensorBytes)
    fail("{}: {} tensors, the limit is {} and {} bytes remain (GG-2)", in.source(),
         n_tensors, kMaxTensors, in.remaining());
  return {version, n_tensors, n_key_values};
}

std::string read_key(Cursor& in, uint64_t number) {  // GG-3, GG-6
  const std::string what = fmt::format("key {}", number);
  std::string key = in.read_string(kMaxKeyBytes, what);
  if (key.empty()) fail("{}: {} is empty (GG-6)", in.source(), what);
  for (const char c : key)
    if (uint8_t(c) < 0x20 || uint8_t(c) > 0x7e)
      fail("{}: {} is {}, wanted printable ASCII (GG-6)", in.source(), what,
           in_quotes(key));
  return key;
}

// general.alignment; its type matters, so it is looked at while the pair is read.
uint32_t checked_alignment(const MetadataValue& value, GgufType type,
                           std::string_view source) {
  if (type != GgufType::u32)
    fail("{}: key 'general.alignment': a value of type {}, wanted u32 (GG-7)", source,
         name(type));
  const uint64_t alignment = std::get<uint64_t>(value);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > 65'536)
    fail("{}: key 'general.alignment': {}, wanted a power of two from 8 to 65536 (GG-7)",
         source, alignment);
  return uint32_t(alignment);
}

uint32_t read_metadata(Cursor& in, uint64_t n_key_values, Metadata& metadata) {
  uint32_t alignment = kDefaultAlignment;
  for (uint64_t i = 0; i < n_key_values; ++i) {
    const std::string key = read_key(in, i);
    const std::string what = "key " + in_quotes(key);
    const GgufType type = read_type(in, what);
    const auto [slot, is_new] = metadata.try_emplace(key, read_value(in, type, what));
    if (!is_new) fail("{}: {} twice (GG-6)", in.source(), what);
    if (key == "general.alignment")
      alignment = checked_alignment(slot->second, type, in.source());
  }
  return alignment;
}

std::string read_tensor_name(Cursor& in, uint64_t number) {  // GG-8
  const std::string what = fmt::format("tensor {}'s name", number);
  std::string name = in.read_string(kMaxNameBytes, what);
  if (name.empty()) fail("{}: tensor {} has no name (GG-8)", in.source(), number);
  if (has_control_byte(name))
    fail("{}: tensor {}: a control character in the name {} (GG-8)", in.source(), number,
         in_quotes(name));
  return name;
}

// Dimensions as in the file: the fastest first.  GG-9, GG-10, GG-11.
Shape read_dimensions(Cursor& in, const std::string& what) {
  const uint32_t rank = in.read<uint32_t>(what);
  if (rank < 1 || rank > 4)
    fail("{}: {}: {} dimensions, wanted 1 to 4 (GG-9)", in.source(), what, rank);
  Shape dimensions;
  uint64_t product = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    const uint64_t n = in.read<uint64_t>(what);
    if (n == 0 || n > uint64_t(INT64_MAX))
      fail("{}: {}: dimension {} is {}, wanted at least 1 (GG-10)", in.source(), what, d,
           int64_t(n));
    if (n > kMaxDimension || __builtin_mul_overflow(product, n, &product) ||
        product > uint64_t(INT64_MAX))
      fail("{}: {}: dimension {} is {}, which overflows; the limit is {} (GG-11)",
           in.source(), what, d, n, kMaxDimension);
    dimensions.push_back(int64_t(n));
  }
  return dimensions;
}

struct TensorInfo {
  std::string name;
  DType type;
  Shape dimensions;
  uint64_t offset;
  uint64_t n_bytes;
};

TensorInfo read_tensor_info(Cursor& in, uint64_t number) {
  TensorInfo tensor{.name = read_tensor_name(in, number),
                    .type = {},
                    .dimensions = {},
                    .offset = 0,
                    .n_bytes = 0};
  const std::string what = "tensor " + in_quotes(tensor.name);
  tensor.dimensions = read_dimensions(in, what);
  const uint32_t id = in.read<uint32_t>(what);
  const std::optional<DType> type = ggml_type(id);
  if (!type)
    fail("{}: {}: type id {} is {} (GG-12)", in.source(), what, int32_t(id),
         why_no_ggml_type(id));
  tensor.type = *type;
  tensor.offset = in.read<uint64_t>(what);

  const uint64_t n_cols = uint64_t(tensor.dimensions[0]);
  const std::optional<size_t> row = row_bytes(*type, n_cols);
  if (!row)
    fail("{}: {}: rows of {} values, {} wants a multiple of {} (GG-13)", in.source(),
         what, n_cols, name(*type), info(*type).group_elements);
  const uint64_t n_rows = uint64_t(element_count(tensor.dimensions)) / n_cols;
  if (__builtin_mul_overflow(uint64_t(*row), n_rows, &tensor.n_bytes))
    fail("{}: {}: its size overflows (GG-14)", in.source(), what);
  return tensor;
}

// `value` rounded up to the alignment; nothing when that overflows.
std::optional<uint64_t> align_up(uint64_t value, uint32_t alignment) {
  uint64_t padded = 0;
  if (__builtin_add_overflow(value, uint64_t(alignment) - 1, &padded))
    return std::nullopt;
  return padded & ~(uint64_t(alignment) - 1);
}

// GG-14 .. GG-18: each tensor begins where the padded one before it ends, inside the
// file. Returns the length of the data section with the last one's padding.
uint64_t check_layout(const std::vector<TensorInfo>& tensors, uint64_t data_begin,
                      uint64_t file_bytes, uint32_t alignment, std::string_view source) {
  uint64_t sum = 0;
  for (const TensorInfo& tensor : tensors) {
    const std::string what = "tensor " + in_quotes(tensor.name);
    if (tensor.offset % alignment != 0)
      fail("{}: {}: offset {} is no multiple of the alignment {} (GG-15)", source, what,
           tensor.offset, alignment);
    if (tensor.offset != sum)
      fail("{}: {}: offset {}, wanted {}, where the one before it ends (GG-16)", source,
           what, tensor.offset, sum);
    uint64_t end = 0;
    if (__builtin_add_overflow(data_begin, sum, &end) ||
        __builtin_add_overflow(end, tensor.n_bytes, &end) || end > file_bytes)
      fail("{}: {}: {} bytes at data offset {} end past the file's {} bytes (GG-18)",
           source, what, tensor.n_bytes, tensor.offset, file_bytes);
    const std::optional<uint64_t> padded = align_up(tensor.n_bytes, alignment);
    if (!padded || __builtin_add_overflow(sum, *padded, &sum))
      fail("{}: {}: sizes up to here overflow (GG-17)", source, what);
  }
  return sum;
}

}  // namespace

GgufFile parse_gguf(std::span<const std::byte> file, std::string_view source) {
  if (!looks_like_gguf(file))
    fail("{}: this is {}; wanted a GGUF file (GG-1)", source,
         foreign_format(file).value_or("no model file"));
  Cursor in(file, source);
  const Header header = read_header(in);
  GgufFile parsed{.version = header.version, .metadata = {}, .tensors = {}};
  const uint32_t alignment = read_metadata(in, header.n_key_values, parsed.metadata);
  std::vector<TensorInfo> tensors;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < header.n_tensors; ++i) {
    tensors.push_back(read_tensor_info(in, i));
    if (!names.insert(tensors.back().name).second)
      fail("{}: tensor {} twice (GG-8)", source, in_quotes(tensors.back().name));
  }
  // A file cannot be so long that this overflows.
  const uint64_t data_begin = *align_up(in.position(), alignment);
  const uint64_t data_bytes =
      check_layout(tensors, data_begin, file.size(), alignment, source);
  for (TensorInfo& tensor : tensors) {
    Shape shape(tensor.dimensions.rbegin(), tensor.dimensions.rend());
    parsed.tensors.push_back(
        {std::move(tensor.name),
         {tensor.type, std::move(shape),
          file.subspan(data_begin + tensor.offset, tensor.n_bytes)}});
  }
  if (file.size() - in.position() > data_begin - in.position() + data_bytes)
    parsed.trailing_bytes = file.size() - data_begin - data_bytes;
  return parsed;
}

}  // namespace ingot
