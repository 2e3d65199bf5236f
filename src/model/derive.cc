#include "model/derive.h"

#include <array>

#include "base/error.h"
#include "formats/quant_method.h"
#include "model/derive/families.h"
#include "model/recipe_file.h"

namespace ingot {
namespace {

using nlohmann::json;

struct Family {
  std::string_view type;  // model_type of config.json, general.architecture of GGUF
  DeriveFamily* derive;
};

constexpr std::array kConfigFamilies = {
    Family{"gpt2", derive_gpt2_config},
    Family{"llama", derive_llama_config},
    Family{"mistral", derive_llama_config},
    Family{"qwen2", derive_llama_config},
    Family{"qwen3", derive_llama_config},
    Family{"gemma3", derive_gemma3_config},
    Family{"gemma3_text", derive_gemma3_config},
    Family{"olmo3", derive_olmo3_config},
    Family{"smollm3", derive_smollm3_config},
    Family{"phi3", derive_phi3_config},
    Family{"qwen3_moe", derive_qwen3_moe_config},
    Family{"mixtral", derive_mixtral_config},
    Family{"glm4_moe", derive_glm4_moe_config},
    Family{"minimax_m2", derive_minimax_m2_config},
    Family{"gpt_oss", derive_gpt_oss_config},
    Family{"qwen3_next", derive_qwen_hybrid_config},
    Family{"qwen3_5", derive_qwen_hybrid_config},
    Family{"qwen3_5_text", derive_qwen_hybrid_config},
    Family{"qwen3_5_moe", derive_qwen_hybrid_config},
    Family{"qwen3_5_moe_text", derive_qwen_hybrid_config},
    Family{"deepseek_v3", derive_deepseek_config},
    Family{"deepseek_v32", derive_deepseek_config},
    Family{"glm_moe_dsa", derive_deepseek_config}};

constexpr std::array kGgufFamilies = {Family{"gpt2", derive_gpt2_gguf},
                                      Family{"llama", derive_llama_gguf},
                                      Family{"qwen2", derive_llama_gguf},
                                      Family{"qwen3", derive_llama_gguf},
                                      Family{"gemma3", derive_gemma3_gguf},
                                      Family{"olmo2", derive_olmo3_gguf},
                                      Family{"smollm3", derive_smollm3_gguf},
                                      Family{"phi3", derive_phi3_gguf},
                                      Family{"qwen3moe", derive_qwen3_moe_gguf},
                                      Family{"glm4moe", derive_glm4_moe_gguf},
                                      Family{"minimax-m2", derive_minimax_m2_gguf},
                                      Family{"gpt-oss", derive_gpt_oss_gguf},
                                      Family{"qwen3next", derive_qwen_hybrid_gguf},
                                      Family{"qwen35", derive_qwen_hybrid_gguf},
                                      Family{"qwen35moe", derive_qwen_hybrid_gguf},
                                      Family{"deepseek2", derive_deepseek_gguf},
                                      Family{"deepseek32", derive_deepseek_gguf},
                                      Family{"glm-dsa", derive_deepseek_gguf}};

template <size_t N>
DeriveFamily* family_of(const std::array<Family, N>& families, const Fields& fields,
                        std::string_view field) {
  const std::string type = fields.text(field);
  std::string known;
  for (const Family& family : families) {
    if (family.type == type) return family.derive;
    known += (known.empty() ? "" : ", ") + std::string(family.type);
  }
  fields.refuse(field, "one of " + known);
}

bool is_conditional_generation(const json& config) {
  const auto it = config.find("architectures");
  return it != config.end() && it->is_array() && !it->empty() && (*it)[0].is_string() &&
         (*it)[0].get<std::string>().ends_with("ForConditionalGeneration");
}

// A multimodal wrapper keeps the text model's fields in text_config; they win over the
// wrapper's own (architectures.md 1.4).
json merged_config(json config) {
  const auto text = config.find("text_config");
  if (text == config.end() || !text->is_object()) return config;
  json inner = *text;
  for (const char* name :
       {"model_type", "tie_word_embeddings", "quantization_config", "quantization"})
    if (config.contains(name) && !inner.contains(name)) inner[name] = config[name];
  // The word on tying is that of the class which the checkpoint was saved as.
  if (config.contains("tie_word_embeddings") && is_conditional_generation(config))
    inner["tie_word_embeddings"] = config["tie_word_embeddings"];
  return inner;
}

Recipe derive_from_config(const Checkpoint& checkpoint,
                          const std::filesystem::path& file) {
  const std::string where = printable(file) + ": ";
  if (checkpoint.config_json.empty()) fail("{}missing, wanted beside the weights", where);
  const json config = merged_config(parse_object(checkpoint.config_json, where));
  check_quantization_method(config, where);
  const Fields fields(config, where);
  DeriveFamily* derive = family_of(kConfigFamilies, fields, "model_type");
  return derive(checkpoint, fields, fields.text("model_type"));
}

Recipe derive_from_gguf(const Checkpoint& checkpoint) {
  const std::string file = printable(checkpoint.path);
  const json general = metadata_json(checkpoint, "general.");
  const Fields head(general, file + ": general.");
  DeriveFamily* derive = family_of(kGgufFamilies, head, "architecture");
  const std::string architecture = head.text("architecture");
  const json metadata = metadata_json(checkpoint, architecture + ".");
  return derive(checkpoint, Fields(metadata, file + ": " + architecture + "."),
                architecture);
}

}  // namespace

Recipe derive_from_metadata(const Checkpoint& checkpoint) {
  return checkpoint.container == Container::gguf
             ? derive_from_gguf(checkpoint)
             : derive_from_config(checkpoint, checkpoint.path / "config.json");
}

Recipe derive_from_config_alone(const std::filesystem::path& file) {
  Checkpoint checkpoint;
  checkpoint.path = file;
  checkpoint.config_json = read_file(file, size_t(64) << 20);
  for (const char* embed : {"model.embed_tokens.weight", "transformer.wte.weight"})
    checkpoint.tensors[embed].view = {DType::bf16, {1, 1}, {}};
  return derive_from_config(checkpoint, file);
}

Recipe derive_recipe(const Checkpoint& checkpoint) {
  return load_recipe_override(checkpoint, derive_from_metadata(checkpoint));
}

}  // namespace ingot
