// Reads Hugging Face's tokenizer.json (tokenizers.md 2) into a TokenizerDefinition.
#pragma once

#include <string_view>

#include "text/tokenizer_definition.h"

namespace ingot {

// Throws Error "SOURCE: FIELD: found, wanted".  A step that the engine does not know is
// refused by name.
TokenizerDefinition tokenizer_definition_from_json(std::string_view json,
                                                   std::string_view source);

}  // namespace ingot
