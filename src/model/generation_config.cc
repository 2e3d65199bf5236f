#include "model/generation_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/derive/fields.h"

namespace ingot {
namespace {

using nlohmann::json;

std::vector<int> eos_of(const Fields& fields) {
  if (!fields.has("eos_token_id")) return {};
  return fields.integers("eos_token_id", 0, 1 << 22);
}

}  // namespace

GenerationConfig read_generation_config(const Checkpoint& checkpoint) {
  GenerationConfig out;
  if (!checkpoint.generation_config_json.empty()) {
    const std::string where =
        printable(checkpoint.path / "generation_config.json") + ": ";
    const json object = parse_object(checkpoint.generation_config_json, where);
    const Fields fields(object, where);
    out.eos_ids = eos_of(fields);
    if (!out.eos_ids.empty()) out.eos_source = "generation_config.json";
    out.repeat_penalty = float(fields.real_or("repetition_penalty", 1e-3, 100, 1.0));
    if (fields.boolean_or("do_sample", false)) {
      out.temperature = float(fields.real_or("temperature", 0, 100, 1.0));
      out.top_k = fields.integer_or("top_k", 0, 1 << 22, 50);
      out.top_p = float(fields.real_or("top_p", 1e-6, 1, 1.0));
      out.min_p = float(fields.real_or("min_p", 0, 1, 0.0));
    }
  }
  if (out.eos_ids.empty() && !checkpoint.config_json.empty()) {
    const std::string where = printable(checkpoint.path / "config.json") + ": ";
    const json object = parse_object(checkpoint.config_json, where);
    const Fields fields(object, where);
    out.eos_ids = eos_of(fields);
    if (const std::optional<Fields> text = fields.object("text_config")) {
      for (const int id : eos_of(*text)) out.eos_ids.push_back(id);
    }
    if (!out.eos_ids.empty()) out.eos_source = "config.json";
  }
  return out;
}

}  // namespace ingot
