// A model of seeded random weights at a config's exact shapes, for measuring speed where
// the weights are not at hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ingot {

struct SynthOptions {
  std::filesystem::path config;  // a config.json, under any name
  // Ends in .gguf: a GGUF file.  Else a new directory: config.json, model.safetensors.
  std::filesystem::path out;
  std::string type;  // as gguf_precision(); empty: q4_k_m, and bf16 for a directory
  uint64_t seed = 0;
};

struct SynthSummary {
  std::string type;
  uint64_t n_bytes = 0;   // written
  uint64_t n_values = 0;  // weights, those of small vectors too
  size_t n_tensors = 0;
};

// What is written depends on the config, the type and the seed alone; memory is a few
// megabytes whatever the size.  Throws Error: of kind usage for an unknown type; naming
// the config and its field, or the file that cannot be written.  Nothing is left behind.
SynthSummary synthesize(const SynthOptions& options);

}  // namespace ingot
