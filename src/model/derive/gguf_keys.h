// The metadata keys that say what a recipe computes.
#pragma once

#include <string_view>

#include "formats/checkpoint.h"
#include "model/recipe.h"

namespace ingot {

// How GGUF tells of a family.
struct Architecture {
  std::string_view family;      // Recipe::family
  std::string_view name;        // general.architecture
  bool has_70b = false;         // one of its sizes is 70B (80 layers)
  bool states_head = false;     // a tied head is stored a second time
  bool states_window = false;   // says 0 where there is none
  bool window_pattern = false;  // says which layers have a window
  bool rope_sections = false;   // wants the sections of a multimodal rotation
};

Metadata gguf_keys(const Recipe& recipe, const Architecture& architecture);

}  // namespace ingot
