#include "app/bench_guard.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "engine/generate.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = 16 << 20;

std::vector<int> ids_of(const json& document, const char* field,
                        const std::string& file) {
  if (!document.contains(field) || !document[field].is_array() || document[field].empty())
    fail("{}: field '{}' is {}, wanted a list of token ids", file, field,
         document.contains(field) ? document[field].dump() : "missing");
  std::vector<int> ids;
  for (const json& item : document[field]) {
    if (!item.is_number_integer() || item < 0 || item > (1 << 30))
      fail("{}: field '{}' holds {}, wanted token ids", file, field, item.dump());
    ids.push_back(item.get<int>());
  }
  return ids;
}

std::string reference_of(const json& document, const std::string& file) {
  const auto it = document.find("made_by");
  if (it == document.end() || !it->is_string() ||
      it->get_ref<const std::string&>().empty())
    fail("{}: field 'made_by' is {}, wanted the independent reference's name", file,
         it == document.end() ? "missing" : it->dump());
  const auto& made_by = it->get_ref<const std::string&>();
  std::string lower = made_by;
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  if (lower.find("ingot") != std::string::npos)
    fail("{}: field 'made_by' is '{}', wanted a reference other than this program", file,
         printable_text(made_by));
  return made_by;
}

// How many tokens count: those before the first choice that arithmetic noise may turn.
size_t counted(const json& document, size_t n_tokens, const std::string& file) {
  if (!document.contains("bound")) return n_tokens;
  const json& bound = document["bound"];
  const json gaps = document.value("gaps", json());
  if (!bound.is_number() || !gaps.is_array() || gaps.size() != n_tokens)
    fail("{}: fields 'bound' and 'gaps' are not a number and one number a token", file);
  size_t n = 0;
  for (const json& gap : gaps) {
    if (!gap.is_number())
      fail("{}: field 'gaps' holds {}, wanted numbers", file, gap.dump());
    if (gap.get<double>() < bound.get<double>()) break;
    ++n;
  }
  if (n == 0)
    fail(
        "{}: field 'gaps' begins with {}, wanted at least the bound {}: nothing is "
        "guarded",
        file, gaps[0].dump(), bound.dump());
  return n;
}

void check_flags(const json& document, const MachineFlags& machine,
                 const std::string& file) {
  const json flags = document.value("flags", json::object());
  if (!flags.is_object())
    fail("{}: field 'flags' is {}, wanted an object", file, flags.dump());
  for (const auto& [key, value] : flags.items()) {
    if (key != "act" && key != "kv_type")
      fail("{}: field 'flags.{}' is unknown, wanted act or kv_type", file,
           printable_text(key));
    const std::string& ours = key == "act" ? machine.act : machine.kv_type;
    if (value != ours)
      fail_usage("{}: holds for --{} {}, this run has {}", file,
                 key == "act" ? "act" : "kv-type", value.dump(), ours);
  }
}

}  // namespace

BenchGuard read_guard(const std::filesystem::path& path, const MachineFlags& machine) {
  BenchGuard guard;
  guard.file = printable(path);
  const json document = json::parse(read_file(path, kMaxFileBytes), nullptr, false);
  if (!document.is_object()) fail("{}: is no JSON object, wanted a guard", guard.file);
  guard.made_by = reference_of(document, guard.file);
  guard.prompt = ids_of(document, "prompt_tokens", guard.file);
  guard.tokens = ids_of(document, "tokens", guard.file);
  guard.tokens.resize(counted(document, guard.tokens.size(), guard.file));
  check_flags(document, machine, guard.file);
  return guard;
}

void check_guard(const BenchGuard& guard, Engine& engine) {
  GenerateOptions options;  // greedy
  options.max_tokens = int(guard.tokens.size());
  Sequence sequence = engine.new_sequence();
  const Generation answer =
      generate(engine, sequence, nullptr, guard.prompt, options, {}, {});
  if (answer.finish == FinishReason::interrupted)
    throw Error("interrupted", {}, ErrorKind::interrupted);
  for (size_t i = 0; i < guard.tokens.size(); ++i) {
    if (i < answer.tokens.size() && answer.tokens[i] == guard.tokens[i]) continue;
    fail("{}: token {} is {}, {} has {}: every number is void", guard.file, i,
         i < answer.tokens.size() ? std::to_string(answer.tokens[i]) : "missing",
         printable_text(guard.made_by), guard.tokens[i]);
  }
}

}  // namespace ingot
