// MODEL on the command line, loaded: checkpoint, backend, model, tokenizer, template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "formats/checkpoint.h"
#include "model/generation_config.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ingot {

// The text side of a model: needs no weights.
struct TextParts {
  std::optional<Tokenizer> tokenizer;  // absent: the model has none
  std::optional<ChatTemplate> chat_template;
  std::optional<ChatTemplate> tool_template;  // where the model ships another for tools
  SpecialTokens special_tokens;
};

// Of a resolved MODEL: a directory (tokenizer files alone will do) or a .gguf file.
// `template_file` (may be empty) replaces the model's own template.
TextParts load_text(const std::filesystem::path& path, const std::string& template_file);
TextParts load_text(const Checkpoint& checkpoint, const std::string& template_file);

struct LoadedModel {
  Checkpoint checkpoint;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  TextParts text;
  GenerationConfig generation;
  std::vector<int> stop_ids;  // generation_config's, else the tokenizer's
  double load_seconds = 0;
};

std::unique_ptr<Ops> make_ops(const MachineFlags& flags);
std::unique_ptr<LoadedModel> load_everything(const MachineFlags& flags);

// The template that this request takes: the one for tools where there is one and the
// request has tools.  Throws Error when the model has none.
const ChatTemplate& template_for(const TextParts& text,
                                 const nlohmann::ordered_json& request,
                                 const std::string& model_name);

// A message list rendered and encoded: what the model is fed.
std::vector<int> encode_chat(const TextParts& text, const nlohmann::ordered_json& request,
                             const std::string& model_name);

}  // namespace ingot
