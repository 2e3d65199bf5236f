// `ingot eval kl`: how far a model's logits lie from another's, or from its own weights
// in a more exact mode.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/eval.h"
#include "base/error.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

struct KlFlags {
  MachineFlags machine;
  std::string reference;  // empty: the model itself
  std::string reference_act = "f32";
  std::string reference_kv_type = "f32";
  std::string text_file;
  int n_windows = 0;
  bool json = false;
};

MachineFlags reference_flags(const KlFlags& flags) {
  MachineFlags out = flags.machine;
  if (!flags.reference.empty()) out.model = flags.reference;
  out.act = flags.reference_act;
  out.kv_type = flags.reference_kv_type;
  return out;
}

// Rows can be compared only where both models mean the same by a token.
void check_alike(const LoadedModel& model, const LoadedModel& reference,
                 const ScoredText& text, const std::string& file, const KlFlags& flags) {
  const int wanted = model.model->recipe.vocab_size;
  const int found = reference.model->recipe.vocab_size;
  const std::string name = reference_flags(flags).model;
  if (found != wanted)
    fail("{}: has a vocabulary of {} tokens, wanted {} as {} has", name, found, wanted,
         flags.machine.model);
  if (!reference.text.tokenizer || !model.text.tokenizer) return;
  const std::vector<int> theirs = scored_text(file, reference, name).tokens;
  if (theirs == text.tokens) return;
  const auto [ours, other] =
      std::mismatch(text.tokens.begin(), text.tokens.end(), theirs.begin(), theirs.end());
  fail("{}: token {} of the text differs from {}'s, wanted models of one tokenizer", name,
       ours - text.tokens.begin(), flags.machine.model);
}

ordered_json json_of(const Divergence& d) {
  return {{"kl", {{"mean", d.mean}, {"p99", d.p99}, {"max", d.max}}},
          {"top1_agreement", d.top1_agreement},
          {"perplexity", d.model.perplexity},
          {"reference_perplexity", d.reference.perplexity},
          {"n_tokens", d.model.n_tokens}};
}

std::string text_of(const Divergence& d) {
  return fmt::format(
      "KL(reference || model)   mean {:.6g}, 99th percentile {:.6g}, maximum {:.6g} "
      "nats\n"
      "top-1 agreement          {:.3f} %\n"
      "perplexity               {:.5f}, reference {:.5f}\n"
      "tokens scored            {}\n",
      d.mean, d.p99, d.max, 100 * d.top1_agreement, d.model.perplexity,
      d.reference.perplexity, d.model.n_tokens);
}

Engine engine_of(const LoadedModel& model, const MachineFlags& flags) {
  return Engine(*model.model, {.context = flags.context,
                               .chunk = flags.chunk,
                               .kv_type = kv_type(flags),
                               .max_logit_rows = kLogitRows});
}

int eval_kl(KlFlags flags) {
  flags.machine.context = window_of(flags.machine);
  const MachineFlags other = reference_flags(flags);
  act_mode(other);  // a wrong flag is told before a long load
  kv_type(other);
  const std::string file = read_file(flags.text_file);
  const std::unique_ptr<LoadedModel> model = load_everything(flags.machine);
  const std::unique_ptr<LoadedModel> reference = load_everything(other);
  const bool speaks = model->text.tokenizer || !reference->text.tokenizer;
  ScoredText text = scored_text(file, speaks ? *model : *reference, flags.machine.model);
  check_alike(*model, *reference, text, file, flags);
  keep_windows(text.tokens, flags.machine.context, flags.n_windows);
  Engine engine = engine_of(*model, flags.machine);
  Engine reference_engine = engine_of(*reference, other);
  engine.check_tokens(text.tokens);
  const Divergence result =
      divergence(engine, reference_engine, text.tokens, flags.machine.context, text.bos);
  if (flags.json)
    fmt::print("{}\n", json_of(result).dump());
  else
    fmt::print("{}", text_of(result));
  return 0;
}

}  // namespace

void add_eval_kl(CLI::App& eval, Action& action) {
  CLI::App* kl = eval.add_subcommand("kl", "divergence from a reference model's logits");
  static KlFlags flags;  // one command line a process
  add_machine_flags(*kl, flags.machine);
  kl->add_option("--reference", flags.reference,
                 "the model to compare with (default: MODEL itself)");
  kl->add_option("--reference-act", flags.reference_act,
                 "its numeric mode (default: f32)");
  kl->add_option("--reference-kv-type", flags.reference_kv_type,
                 "its keys and values (default: f32)");
  kl->add_option("--text", flags.text_file, "text file")->required();
  kl->add_option("--windows", flags.n_windows, "only so many windows (default: all)");
  kl->add_flag("--json", flags.json, "one JSON document instead of text");
  kl->callback([&action] { action = [] { return eval_kl(flags); }; });
}

}  // namespace ingot
