// An Inspection as text for a person, and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "app/inspect.h"
#include "base/utf8.h"
#include "model/cost.h"
#include "model/describe.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

constexpr int kTemplateLines = 6;
constexpr size_t kTemplateColumns = 100;

std::string size_text(size_t bytes) {
  if (bytes < 10'000) return fmt::format("{} bytes", with_commas(bytes));
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", double(bytes) / 1e3);
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", double(bytes) / 1e6);
  return fmt::format("{:.1f} GB", double(bytes) / 1e9);
}

std::string token_text(const Inspection& in, int id) {
  if (in.text.tokenizer)
    if (const auto token = in.text.tokenizer->id_to_token(id))
      return fmt::format("{} '{}'", id, printable_text(*token));
  return std::to_string(id);
}

std::string token_text(const Inspection& in, const std::optional<int>& id) {
  return id ? token_text(in, *id) : std::string("none");
}

void add_files(std::vector<Fact>& facts, const Inspection& in) {
  facts.push_back({"model", printable_text(in.model)});
  const bool gguf = in.checkpoint.container == Container::gguf;
  std::string text =
      fmt::format("{}, {} tensors in {} file{}", gguf ? "GGUF" : "safetensors",
                  in.checkpoint.tensors.size(), in.checkpoint.files.size(),
                  in.checkpoint.files.size() == 1 ? "" : "s");
  facts.push_back({"format", text});
}

// What recipe.json makes different: the field, its derived value, its own.
void add_recipe_changes(std::vector<Fact>& facts, const Inspection& in) {
  if (!in.recipe_changes) return;
  const size_t n = in.recipe_changes->size();
  facts.push_back({"recipe.json", n == 0 ? "the same as the derived recipe"
                                         : fmt::format("changes {} {}:", n,
                                                       n == 1 ? "field" : "fields")});
  const auto shown = [](const std::string& value) {
    return value.empty() ? std::string("absent") : value;
  };
  for (const RecipeChange& change : *in.recipe_changes)
    facts.push_back({"", fmt::format("{}: {} -> {}", printable_text(change.field),
                                     shown(change.derived), shown(change.now))});
}

void add_weights(std::vector<Fact>& facts, const Inspection& in) {
  const double all = double(std::max<size_t>(1, in.memory.weight_bytes));
  for (const DTypeTotal& total : totals_by_dtype(in.checkpoint)) {
    facts.push_back(
        {"weights", fmt::format("{} in {} {} tensors, {:.1f} %", size_text(total.n_bytes),
                                total.n_tensors, name(total.dtype),
                                100 * double(total.n_bytes) / all)});
  }
}

void add_memory(std::vector<Fact>& facts, const Inspection& in) {
  const MemoryPlan& plan = in.memory;
  facts.push_back(
      {"memory", fmt::format("{} of weights; {} of activations for {} tokens a pass",
                             size_text(plan.weight_bytes),
                             size_text(plan.activation_bytes), plan.chunk)});
  for (const StatePlan& state : plan.states) {
    facts.push_back(
        {"", fmt::format("{} of {} state a token, {} for a context of {}",
                         size_text(state.bytes_per_token), state.kv_type,
                         size_text(state.bytes), with_commas(uint64_t(plan.context)))});
  }
}

void add_tokenizer(std::vector<Fact>& facts, const Inspection& in) {
  if (!in.text.tokenizer) {
    facts.push_back({"tokenizer", "none"});
  } else {
    const Tokenizer& t = *in.text.tokenizer;
    facts.push_back(
        {"tokenizer", fmt::format("{}, {} tokens", printable_text(in.tokenizer_kind),
                                  with_commas(uint64_t(t.vocab_size())))});
    facts.push_back(
        {"begin", token_text(in, t.bos_id()) +
                      (t.adds_bos() ? ", put before a raw prompt" : ", not added")});
    facts.push_back({"end", token_text(in, t.eos_id())});
  }
  std::string stops;
  for (const int id : in.stop_ids)
    stops += (stops.empty() ? "" : ", ") + token_text(in, id);
  facts.push_back({"stops at", stops.empty() ? "nothing: answers end at -n or the context"
                                             : stops + " (from " + in.stop_source + ")"});
}

void add_generation(std::vector<Fact>& facts, const Inspection& in) {
  const GenerationConfig& g = in.generation;
  std::string text = "greedy";
  if (g.temperature > 0)
    text = fmt::format("temperature {:g}, top-k {}, top-p {:g}, min-p {:g}",
                       double(g.temperature), g.top_k, double(g.top_p), double(g.min_p));
  if (g.repeat_penalty != 1.0f)
    text += fmt::format(", repeat penalty {:g}", double(g.repeat_penalty));
  facts.push_back({"sampling", text});
}

void add_template(std::vector<Fact>& facts, const Inspection& in) {
  if (!in.text.chat_template) {
    facts.push_back(
        {"template", "none: prompts are continued as they stand, chat is refused"});
    return;
  }
  const std::string& source = in.text.chat_template->source();
  facts.push_back(
      {"template", fmt::format("{} letters from {}{}", with_commas(source.size()),
                               printable_text(in.template_source),
                               in.text.tool_template ? ", another for tools" : "")});
  size_t start = 0;
  for (int i = 0; i < kTemplateLines && start < source.size(); ++i) {
    const size_t end = std::min(source.find('\n', start), source.size());
    std::string_view line(source.data() + start, end - start);
    const bool cut = line.size() > kTemplateColumns;
    if (cut) line = line.substr(0, kTemplateColumns);
    facts.push_back({"", "| " + printable_text(line) + (cut ? " ..." : "")});
    start = end + 1;
  }
}

std::string file_name(const StoredTensor& tensor) {
  return tensor.file ? printable(tensor.file->path().filename()) : "";
}

std::string tensor_lines(const Inspection& in) {
  size_t width = 0;
  for (const auto& [name, tensor] : in.checkpoint.tensors)
    width = std::max(width, printable_text(name).size());
  std::string out;
  for (const auto& [tensor_name, tensor] : in.checkpoint.tensors) {
    out += fmt::format("{:<{}}  {:<8} {:<18} {:>13}  {}\n", printable_text(tensor_name),
                       width, name(tensor.view.dtype), to_string(tensor.view.shape),
                       with_commas(tensor.view.bytes.size()), file_name(tensor));
  }
  return out;
}

// ---- JSON ---------------------------------------------------------------------------

ordered_json weights_json(const Inspection& in) {
  ordered_json types = ordered_json::array();
  const double all = double(std::max<size_t>(1, in.memory.weight_bytes));
  for (const DTypeTotal& total : totals_by_dtype(in.checkpoint)) {
    types.push_back({{"dtype", name(total.dtype)},
                     {"tensors", total.n_tensors},
                     {"values", total.n_values},
                     {"bytes", total.n_bytes},
                     {"share", double(total.n_bytes) / all}});
  }
  return {{"bytes", in.memory.weight_bytes}, {"by_dtype", types}};
}

ordered_json memory_json(const MemoryPlan& plan) {
  ordered_json states = ordered_json::object();
  for (const StatePlan& state : plan.states)
    states[state.kv_type] = {{"bytes_per_token", state.bytes_per_token},
                             {"bytes", state.bytes}};
  return {{"context", plan.context},
          {"chunk", plan.chunk},
          {"weight_bytes", plan.weight_bytes},
          {"activation_bytes", plan.activation_bytes},
          {"state", states}};
}

ordered_json token_json(const Inspection& in, int id) {
  ordered_json out = {{"id", id}};
  if (in.text.tokenizer)
    if (const auto token = in.text.tokenizer->id_to_token(id)) out["token"] = *token;
  return out;
}

ordered_json tokenizer_json(const Inspection& in) {
  if (!in.text.tokenizer) return nullptr;
  const Tokenizer& t = *in.text.tokenizer;
  const auto token = [&](const std::optional<int>& id) {
    return id ? token_json(in, *id) : ordered_json();
  };
  return {{"kind", in.tokenizer_kind},
          {"vocab_size", t.vocab_size()},
          {"bos", token(t.bos_id())},
          {"adds_bos", t.adds_bos()},
          {"eos", token(t.eos_id())}};
}

ordered_json tensors_json(const Inspection& in) {
  ordered_json out = ordered_json::array();
  for (const auto& [tensor_name, tensor] : in.checkpoint.tensors) {
    out.push_back({{"name", tensor_name},
                   {"dtype", name(tensor.view.dtype)},
                   {"shape", tensor.view.shape},
                   {"bytes", tensor.view.bytes.size()},
                   {"file", file_name(tensor)}});
  }
  return out;
}

}  // namespace

std::string inspection_text(const Inspection& in, bool tensors) {
  std::vector<Fact> facts;
  add_files(facts, in);
  for (Fact& fact : recipe_facts(in.recipe)) facts.push_back(std::move(fact));
  add_recipe_changes(facts, in);
  add_weights(facts, in);
  add_memory(facts, in);
  add_tokenizer(facts, in);
  add_generation(facts, in);
  add_template(facts, in);
  std::string out = to_lines(facts);
  if (tensors) out += "\n" + tensor_lines(in);
  return out;
}

ordered_json inspection_json(const Inspection& in, bool tensors) {
  const ParameterCount n = count_parameters(in.recipe);
  ordered_json out;
  out["model"] = printable_text(in.model);
  out["path"] = printable(in.checkpoint.path);
  out["container"] = in.checkpoint.container == Container::gguf ? "gguf" : "safetensors";
  out["files"] = ordered_json::array();
  for (const auto& file : in.checkpoint.files)
    out["files"].push_back(
        {{"path", printable(file->path())}, {"bytes", file->bytes().size()}});
  out["recipe"] = ordered_json::parse(recipe_json(in.recipe));
  if (in.recipe_changes) {
    out["recipe_changes"] = ordered_json::array();
    for (const RecipeChange& change : *in.recipe_changes)
      out["recipe_changes"].push_back(
          {{"field", change.field}, {"derived", change.derived}, {"now", change.now}});
  }
  out["parameters"] = {
      {"total", n.total}, {"embedding", n.embedding}, {"head", n.head}, {"mtp", n.mtp}};
  out["weights"] = weights_json(in);
  out["memory"] = memory_json(in.memory);
  out["tokenizer"] = tokenizer_json(in);
  out["stop_ids"] = in.stop_ids;
  out["stop_ids_source"] = in.stop_source;
  const GenerationConfig& g = in.generation;
  out["generation"] = {{"temperature", shortest(g.temperature)},
                       {"top_k", g.top_k},
                       {"top_p", shortest(g.top_p)},
                       {"min_p", shortest(g.min_p)},
                       {"repeat_penalty", shortest(g.repeat_penalty)}};
  out["chat_template"] = nullptr;
  if (in.text.chat_template)
    out["chat_template"] = {{"from", printable_text(in.template_source)},
                            {"for_tools", in.text.tool_template.has_value()},
                            {"source", in.text.chat_template->source()}};
  if (tensors) out["tensors"] = tensors_json(in);
  return out;
}

}  // namespace ingot
