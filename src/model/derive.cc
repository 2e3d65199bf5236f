#include "model/derive.h"

#include "base/error.h"
#include "model/derive/decoder.h"
#include "model/derive/fields.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr std::string_view kKnownTypes = "gpt2, llama, mistral, qwen2, qwen3 or gemma3";

// A multimodal wrapper keeps the text model's fields in text_config; they win over the
// wrapper's own (architectures.md 1.4).
json merged_config(json config) {
  const auto text = config.find("text_config");
  if (text == config.end() || !text->is_object()) return config;
  json inner = *text;
  // The wrapper's word on tying is the one that counts for the published class.
  if (config.contains("tie_word_embeddings") && !inner.contains("tie_word_embeddings"))
    inner["tie_word_embeddings"] = config["tie_word_embeddings"];
  if (config.contains("quantization_config") && !inner.contains("quantization_config"))
    inner["quantization_config"] = config["quantization_config"];
  if (config.contains("quantization") && !inner.contains("quantization"))
    inner["quantization"] = config["quantization"];
  return inner;
}

// Stored weights in a scheme that the loader does not read would load as noise.  MLX
// writes "quantization" (formats/mlx_quant.h reads it) and often the same again for
// transformers.
void check_quantization(const json& config, const std::string& where) {
  const auto it = config.find("quantization_config");
  if (it == config.end() || it->is_null() || config.contains("quantization")) return;
  const json method = it->is_object() && it->contains("quant_method")
                          ? (*it)["quant_method"]
                          : json("(none)");
  fail(
      "{}field 'quantization_config.quant_method' is {}, wanted it absent (MLX's "
      "'quantization' is the one scheme read so far)",
      where, method.dump());
}

Recipe derive_from_config(const Checkpoint& checkpoint) {
  const std::filesystem::path file = checkpoint.path / "config.json";
  const std::string where = printable(file) + ": ";
  if (checkpoint.config_json.empty()) fail("{}missing, wanted beside the weights", where);
  json config = merged_config(parse_object(checkpoint.config_json, where));
  check_quantization(config, where);
  const Fields fields(config, where);
  const std::string type = fields.text("model_type");
  if (type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3")
    return derive_llama_config(checkpoint, fields, type);
  if (type == "gemma3_text" || type == "gemma3")
    return derive_gemma3_config(checkpoint, fields);
  if (type == "gpt2") return derive_gpt2_config(checkpoint, fields);
  fields.refuse("model_type", std::string(kKnownTypes));
}

Recipe derive_from_gguf(const Checkpoint& checkpoint) {
  const std::string file = printable(checkpoint.path);
  const json general = metadata_json(checkpoint, "general.");
  const Fields head(general, file + ": general.");
  const std::string architecture = head.text("architecture");
  const json metadata = metadata_json(checkpoint, architecture + ".");
  const Fields fields(metadata, file + ": " + architecture + ".");
  if (architecture == "llama" || architecture == "qwen2" || architecture == "qwen3")
    return derive_llama_gguf(checkpoint, fields, architecture);
  if (architecture == "gemma3") return derive_gemma3_gguf(checkpoint, fields);
  if (architecture == "gpt2") return derive_gpt2_gguf(checkpoint, fields);
  head.refuse("architecture", "gpt2, llama, qwen2, qwen3 or gemma3");
}

}  // namespace

Recipe derive_recipe(const Checkpoint& checkpoint) {
  return checkpoint.container == Container::gguf ? derive_from_gguf(checkpoint)
                                                 : derive_from_config(checkpoint);
}

}  // namespace ingot
