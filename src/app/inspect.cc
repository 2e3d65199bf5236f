// `ingot inspect MODEL`: what a model is, without loading its weights.
#include "app/inspect.h"

#include <simdjson.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "base/error.h"
#include "formats/store.h"
#include "model/derive.h"
#include "model/forward.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

MemoryPlan plan_memory(const Recipe& recipe, const Checkpoint& checkpoint,
                       const MachineFlags& machine) {
  if (machine.context < 0)
    fail_usage("context is {} tokens, wanted at least 1", machine.context);
  if (machine.chunk < 1)
    fail_usage("chunk is {} tokens, wanted at least 1", machine.chunk);
  MemoryPlan plan;
  plan.context =
      machine.context != 0 ? machine.context : default_context(recipe, kv_type(machine));
  plan.chunk = std::min(machine.chunk, plan.context);
  for (const auto& [name, tensor] : checkpoint.tensors)
    plan.weight_bytes += tensor.view.bytes.size();
  const size_t n_pages = (size_t(plan.context) + kPageTokens - 1) / kPageTokens;
  constexpr std::pair<const char*, KvType> kTypes[] = {{"f16", KvType::f16},
                                                       {"bf16", KvType::bf16},
                                                       {"f32", KvType::f32},
                                                       {"q8", KvType::q8}};
  for (const auto& [name, type] : kTypes) {
    const size_t page = state_page_bytes(recipe, type);
    plan.states.push_back(
        {name, page / kPageTokens, page * n_pages + state_slot_bytes(recipe)});
  }
  // Allocated, but not touched: the pages cost nothing.
  const std::unique_ptr<Ops> ops = make_ops(machine);
  plan.activation_bytes = Workspace(recipe, *ops, plan.chunk, 1, plan.context).bytes();
  return plan;
}

std::string text_of(const Metadata& metadata, std::string_view key) {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return {};
  const auto* text = std::get_if<std::string>(&it->second);
  return text ? *text : std::string();
}

std::string tokenizer_kind(const Checkpoint& checkpoint) {
  if (checkpoint.container == Container::gguf) {
    std::string out = text_of(checkpoint.metadata, "tokenizer.ggml.model") + " (GGUF";
    const std::string pre = text_of(checkpoint.metadata, "tokenizer.ggml.pre");
    if (!pre.empty()) out += ", pre-tokenizer '" + pre + "'";
    return out + ")";
  }
  const fs::path file = checkpoint.path / "tokenizer.json";
  if (fs::exists(file)) {
    // Parsed strictly by load_text already; here one word of it is wanted.
    simdjson::padded_string json = simdjson::padded_string::load(file.string());
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document;
    std::string_view type;
    if (parser.iterate(json).get(document) == simdjson::SUCCESS &&
        document["model"]["type"].get_string().get(type) == simdjson::SUCCESS)
      return std::string(type) + " (tokenizer.json)";
    return "tokenizer.json";
  }
  if (fs::exists(checkpoint.path / "vocab.json")) return "BPE (vocab.json, merges.txt)";
  return "SentencePiece (tokenizer.model)";
}

std::string template_source(const Checkpoint& checkpoint, const std::string& file) {
  if (!file.empty()) return file;
  if (checkpoint.container == Container::gguf) return "tokenizer.chat_template (GGUF)";
  if (fs::exists(checkpoint.path / "chat_template.jinja")) return "chat_template.jinja";
  return "tokenizer_config.json";
}

void find_stop_ids(Inspection& out) {
  out.stop_ids = out.generation.eos_ids;
  out.stop_source = out.generation.eos_source;
  if (!out.stop_ids.empty() || !out.text.tokenizer) return;
  out.stop_ids = out.text.tokenizer->end_of_generation_ids();
  if (!out.stop_ids.empty()) out.stop_source = "the tokenizer";
}

int inspect(const InspectFlags& flags) {
  const Inspection inspection = inspect_model(flags);
  const std::string out =
      flags.json ? inspection_json(inspection, flags.tensors)
                           .dump(-1, ' ', false,
                                 nlohmann::ordered_json::error_handler_t::replace) +
                       "\n"
                 : inspection_text(inspection, flags.tensors);
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout))
    fail("standard output: cannot be written");
  return 0;
}

}  // namespace

Inspection inspect_model(const InspectFlags& flags) {
  kv_type(flags.machine);  // a wrong flag is told first
  Inspection out;
  out.model = flags.machine.model;
  out.checkpoint = open_checkpoint(resolve_model(flags.machine.model));
  out.recipe = derive_recipe(out.checkpoint);
  if (has_recipe_file(out.checkpoint))
    out.recipe_changes = recipe_changes(derive_from_metadata(out.checkpoint), out.recipe);
  out.memory = plan_memory(out.recipe, out.checkpoint, flags.machine);
  out.text = load_text(out.checkpoint, flags.machine.chat_template);
  out.generation = read_generation_config(out.checkpoint);
  find_stop_ids(out);
  if (out.text.tokenizer) out.tokenizer_kind = tokenizer_kind(out.checkpoint);
  if (out.text.chat_template)
    out.template_source = template_source(out.checkpoint, flags.machine.chat_template);
  return out;
}

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("inspect", "what a model is: recipe, memory, text");
  static InspectFlags flags;  // one command line a process
  add_machine_flags(*command, flags.machine);
  command->add_flag("--json", flags.json, "one JSON document instead of text");
  command->add_flag("--tensors", flags.tensors, "every tensor: type, shape, bytes, file");
  command->callback([&action] { action = [] { return inspect(flags); }; });
}

}  // namespace ingot
