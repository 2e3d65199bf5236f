// What config.json says of how the weights are quantised (formats.md 5.1).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

enum class QuantMethod {
  none,  // nothing said: the tensors' names and shapes tell
  mlx,
  fp8,
  gptq,
  awq,
  mxfp4,
  compressed_tensors,
};
std::string_view name(QuantMethod method);

// How compressed-tensors lays out the modules of one group of its config.
struct CompressedScheme {
  std::string format;  // "pack-quantized", "float-quantized", ...
  int bits = 4;        // num_bits
  bool symmetric = true;
  std::optional<int> group_size;       // strategy group
  int block_rows = 0, block_cols = 0;  // strategy block
};

struct QuantConfig {
  QuantMethod method = QuantMethod::none;
  std::string where;                   // "FILE: field 'quantization_config", for messages
  std::optional<int> bits;             // gptq, awq
  std::optional<int> group_size;       // gptq, awq; -1: the whole row
  bool symmetric = false;              // gptq: sym
  std::optional<int> gptq_version;     // 1: stored zeros are one less
  bool has_overrides = false;          // gptq: modules may differ ("dynamic")
  int block_rows = 0, block_cols = 0;  // fp8: weight_block_size; 0: none stated
  std::vector<std::string> not_converted;  // modules said to be plain (QC-3)
  std::vector<CompressedScheme> schemes;   // compressed-tensors
};

// Reads "quantization_config" of a config (the merged one, or its text_config).  Throws
// Error naming the field when the method, or an option that changes what the tensors
// mean, is not one that is read.  `where` begins messages: "DIR/config.json: ".
QuantConfig read_quant_config(const nlohmann::json& config, const std::string& where);

// The same for its refusals alone: a config that passes can be loaded as far as it tells.
void check_quantization_method(const nlohmann::json& config, const std::string& where);

// The object of a quantize_config.json, which old GPTQ and AWQ exporters write beside the
// weights.
QuantConfig read_quantize_config(const nlohmann::json& object, const std::string& where);

}  // namespace ingot
