// What a checkpoint says about generating: its stop ids and its sampling defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/checkpoint.h"

namespace ingot {

struct GenerationConfig {
  std::vector<int> eos_ids;
  std::string eos_source;  // "generation_config.json", "config.json", "" when neither
  // Set only where the checkpoint asks for sampling (do_sample true); else greedy.
  float temperature = 0.0f;
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repeat_penalty = 1.0f;
};

// Of generation_config.json, else of config.json (architectures.md 18).  Throws Error
// naming file and field for values out of range.  Empty for GGUF: its tokenizer knows the
// stop ids.
GenerationConfig read_generation_config(const Checkpoint& checkpoint);

}  // namespace ingot
