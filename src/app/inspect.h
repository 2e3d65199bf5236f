// Everything `ingot inspect` tells about a model, gathered without loading its weights.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/load.h"
#include "model/recipe_file.h"

namespace ingot {

struct InspectFlags {
  MachineFlags machine;
  bool json = false;
  bool tensors = false;
};

// What one KV type needs for sequence state.
struct StatePlan {
  std::string kv_type;
  size_t bytes_per_token = 0;
  size_t bytes = 0;  // for the whole context, in pages
};

struct MemoryPlan {
  int context = 0;
  int chunk = 0;
  size_t weight_bytes = 0;  // as stored
  std::vector<StatePlan> states;
  size_t activation_bytes = 0;  // of a pass of `chunk` tokens
};

struct Inspection {
  std::string model;
  Checkpoint checkpoint;
  Recipe recipe;
  // What its recipe.json makes different from the derived one; nothing: there is none.
  std::optional<std::vector<RecipeChange>> recipe_changes;
  TextParts text;
  GenerationConfig generation;
  std::vector<int> stop_ids;
  std::string stop_source;
  std::string
      tokenizer_kind;  // "gpt2 (GGUF, pre-tokenizer 'smollm')", "BPE (tokenizer.json)"
  std::string template_source;  // where the chat template stands; empty: none
  MemoryPlan memory;
};

Inspection inspect_model(const InspectFlags& flags);
std::string inspection_text(const Inspection& inspection, bool tensors);
nlohmann::ordered_json inspection_json(const Inspection& inspection, bool tensors);

}  // namespace ingot
