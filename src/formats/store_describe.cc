#include "formats/store_describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/checkpoint.h"

namespace ingot {
namespace {

std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return out;
}

// "4-bit" of an MLX config's "quantization": {"bits": 4}; empty without one.
std::string mlx_quant(const std::string& config_json) {
  const nlohmann::json config = nlohmann::json::parse(config_json, nullptr, false);
  if (!config.is_object() || !config.contains("quantization")) return {};
  const nlohmann::json& quantization = config["quantization"];
  if (!quantization.is_object() || !quantization.contains("bits") ||
      !quantization["bits"].is_number_integer())
    return {};
  return fmt::format("{}-bit", quantization["bits"].get<int>());
}

// The type that most bytes have.
std::string main_dtype(const Checkpoint& checkpoint) {
  std::map<DType, uint64_t> bytes_of;
  for (const auto& [name, tensor] : checkpoint.tensors)
    bytes_of[tensor.view.dtype] += tensor.view.bytes.size();
  const auto most =
      std::max_element(bytes_of.begin(), bytes_of.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes_of.end() ? std::string() : upper_case(name(most->first));
}

}  // namespace

void describe_checkpoint(const std::filesystem::path& path, StoreEntry& entry) {
  const Checkpoint checkpoint = open_checkpoint(path);
  entry.format = checkpoint.container == Container::gguf ? "gguf" : "safetensors";
  entry.quant = mlx_quant(checkpoint.config_json);
  if (entry.quant.empty()) entry.quant = main_dtype(checkpoint);
}

}  // namespace ingot
