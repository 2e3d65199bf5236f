// Which type each tensor of a GGUF file takes: one for all matrices, or a mixture in
// which some matrices get more bits, by the rules of llama.cpp's quantiser, so that files
// of random weights have the sizes and the kernels of published ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf_write.h"

namespace ingot {

enum class Mixture { none, q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s, q5_k_m };

struct GgufPrecision {
  DType type = DType::f32;  // of matrices, before the mixture's exceptions
  Mixture mixture = Mixture::none;
  uint32_t file_type = 0;  // general.file_type
};

// "f16", "q8_0", "q4_k": that type alone.  "q4_k_m", "q3_k_l" ...: a mixture.  Letters of
// either case.  Nothing when there is no such precision.
std::optional<GgufPrecision> gguf_precision(std::string_view name);
std::string gguf_precision_names();  // "f32, f16, ...", for messages

// What the rules look at, beside names and shapes.
struct MixtureFacts {
  int n_layers = 0;
  int n_experts = 0;
  bool spare_values = false;  // one of the 70B shapes: values get more bits
};

// Sets the dtype of each entry.  Entries come layer after layer; vectors, norms, routers,
// convolutions and learned positions are float32; a matrix whose rows do not fit its type
// takes a type of smaller groups.
void choose_types(const GgufPrecision& precision, const MixtureFacts& facts,
                  std::vector<GgufWriteEntry>& entries);

}  // namespace ingot
