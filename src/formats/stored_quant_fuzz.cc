// Fuzz target: StoredQuantization over a safetensors file and a config.json in one input:
// u32 length of the config, the config, the file.  What is accepted can be read whole,
// and has the sizes that it says.
#include "base/check.h"
#include "formats/fuzz_json.h"
#include "formats/fuzz_target.h"
#include "formats/stored_quant.h"

namespace ingot {
namespace {

const std::vector<std::string> kWords = {"m.weight",
                                         "m.weight_scale_inv",
                                         "m.weight_scale",
                                         "m.qweight",
                                         "m.qzeros",
                                         "m.scales",
                                         "m.g_idx",
                                         "m.biases",
                                         "m_blocks",
                                         "m_scales",
                                         "m.weight_packed",
                                         "m.weight_shape",
                                         "m.weight_g_idx",
                                         "m.weight_zero_point",
                                         "F8_E4M3",
                                         "F8_E8M0",
                                         "I32",
                                         "I64",
                                         "I8",
                                         "U8",
                                         "U32",
                                         "F16",
                                         "BF16",
                                         "gptq",
                                         "awq",
                                         "fp8",
                                         "mxfp4",
                                         "compressed-tensors",
                                         "pack-quantized",
                                         "float-quantized",
                                         "int-quantized",
                                         "bits",
                                         "group_size",
                                         "weight_block_size",
                                         "modules_to_not_convert"};

// Config and file of an input; nothing when the length does not fit.
struct Parts {
  std::string config, file;
};
std::optional<Parts> split(const std::string& input) {
  uint32_t n = 0;
  if (input.size() < sizeof n) return std::nullopt;
  std::memcpy(&n, input.data(), sizeof n);
  if (n > input.size() - sizeof n) return std::nullopt;
  return Parts{input.substr(sizeof n, n), input.substr(sizeof n + n)};
}

std::string join(const Parts& parts) {
  const auto n = uint32_t(parts.config.size());
  std::string out(sizeof n, '\0');
  std::memcpy(out.data(), &n, sizeof n);
  return out + parts.config + parts.file;
}

std::string mutate(std::string input, FuzzRandom& random, size_t max_size) {
  std::optional<Parts> parts = split(input);
  uint64_t n = 0;
  if (parts && parts->file.size() >= 8) std::memcpy(&n, parts->file.data(), 8);
  if (!parts || parts->file.size() < 8 || n > parts->file.size() - 8 ||
      random.one_in(16)) {
    mutate_bytes(input, max_size);
    return input;
  }
  std::string header = parts->file.substr(8, n);
  std::string data = parts->file.substr(8 + n);
  switch (random.below(3)) {
    case 0:
      mutate_json(parts->config, random, kWords, data.size());
      break;
    case 1:
      mutate_json(header, random, kWords, data.size());
      break;
    default:
      mutate_bytes(data, data.size() + 16);
  }
  const uint64_t length = header.size();
  parts->file.assign(8, '\0');
  std::memcpy(parts->file.data(), &length, 8);
  parts->file += header + data;
  return join(*parts);
}

void check_weight(const StoredQuantization& quantised, const std::string& name,
                  const StoredWeight& weight) {
  constexpr int64_t kMost = 1 << 20;  // a scale may stand for any number of columns
  CHECK(weight.n_slices >= 1 && weight.n_rows >= 1 && weight.n_cols >= 1);
  const StoredMatrix first = quantised.read(name, 0, std::vector<int>{weight.n_rows - 1});
  CHECK(first.matrix.n_rows == 1 && first.matrix.n_cols == weight.n_cols);
  if (int64_t{weight.n_slices} * weight.n_rows * weight.n_cols > kMost) return;
  const StoredMatrix all = quantised.read(name);
  CHECK(all.matrix.n_rows == weight.n_slices * weight.n_rows);
  dequantize_affine(all.matrix);
}

void read_all(const Parts& parts) {
  Checkpoint checkpoint;
  checkpoint.path = "fuzz";
  checkpoint.config_json = parts.config;
  const auto bytes = std::as_bytes(std::span(parts.file.data(), parts.file.size()));
  for (SafetensorsEntry& entry : parse_safetensors(bytes, "fuzz").entries)
    checkpoint.tensors[entry.name].view = std::move(entry.view);
  const StoredQuantization quantised(checkpoint);
  for (const auto& [name, weight] : quantised.weights())
    check_weight(quantised, name, weight);
}

}  // namespace
}  // namespace ingot

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return ingot::mutate_input(data, size, max_size, seed, ingot::mutate);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return ingot::try_input(data, size, [](std::span<const std::byte> bytes) {
    const std::string input(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (const auto parts = ingot::split(input)) ingot::read_all(*parts);
  });
}
