// From flags to what the model is fed and how it answers; shared by run and chat.
#pragma once

#include "app/load.h"

namespace ingot {

// Flags over the model's own defaults.
GenerateOptions generate_options(const GenerationFlags& flags, const LoadedModel& model);

// Messages so far as a template request, with the flags' template variables.
nlohmann::ordered_json chat_request(const GenerationFlags& flags,
                                    const nlohmann::ordered_json& messages);

// The prompt as it stands, encoded with what the tokenizer adds; never two begin-of-text.
std::vector<int> encode_raw(const TextParts& text, const std::string& prompt,
                            const std::string& model_name);

// Standard input to its end.
std::string read_standard_input();

}  // namespace ingot
