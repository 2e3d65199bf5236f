// Fuzz target: parse_safetensors.  The mutator knows the length prefix, the JSON header
// and where the data begins; what is accepted must lie inside the file without a gap.
#include "base/check.h"
#include "formats/checkpoint.h"
#include "formats/fuzz_json.h"
#include "formats/fuzz_target.h"

namespace ingot {
namespace {

const std::vector<std::string> kWords = {
    "F32",     "BF16",         "F4",           "F6_E2M3",
    "BOOL",    "C64",          "F8_E4M3",      "dtype",
    "shape",   "data_offsets", "__metadata__", "",
    "\\u0000", "\\ud800",      "\\\"",         "a",
    "b"};

uint64_t stored_length(const std::string& file) {
  uint64_t n = 0;
  if (file.size() >= 8) std::memcpy(&n, file.data(), 8);
  return n;
}

std::string mutate(std::string file, FuzzRandom& random, size_t max_size) {
  const uint64_t n = stored_length(file);
  if (file.size() < 8 || n > file.size() - 8 || random.one_in(8)) {
    mutate_bytes(file, max_size);
    return file;
  }
  std::string header = file.substr(8, n);
  std::string data = file.substr(8 + n);
  for (size_t i = 0, changes = 1 + random.below(3); i < changes; ++i) {
    if (random.one_in(5))
      mutate_bytes(header, header.size() + 64);
    else
      mutate_json(header, random, kWords, data.size());
  }
  if (random.one_in(4)) data.resize(random.below(data.size() + 9), '\x3c');
  const uint64_t length = random.one_in(8)
                              ? edge_number(random, header.size(), file.size() - 8)
                              : header.size();
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix + header + data;
}

void check_accepted(const SafetensorsFile& parsed, std::span<const std::byte> file) {
  size_t n_bytes = 0;
  const std::byte* end = nullptr;
  for (const SafetensorsEntry& e : parsed.entries) {
    const auto values = uint64_t(element_count(e.view.shape));
    CHECK(row_bytes(e.view.dtype, values) == e.view.bytes.size());
    CHECK(end == nullptr || e.view.bytes.data() == end);
    end = e.view.bytes.data() + e.view.bytes.size();
    CHECK(end <= file.data() + file.size());
    n_bytes += e.view.bytes.size();
  }
  CHECK(n_bytes + 8 <= file.size());
  CHECK(end == nullptr || end == file.data() + file.size());
}

}  // namespace
}  // namespace ingot

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return ingot::mutate_input(data, size, max_size, seed, ingot::mutate);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return ingot::try_input(data, size, [](std::span<const std::byte> file) {
    ingot::check_accepted(ingot::parse_safetensors(file, "fuzz"), file);
  });
}
