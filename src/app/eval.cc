// `ingot eval logits` and `ingot eval ppl`: our arithmetic, for other programs to check.
#include "app/eval.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/compare.h"
#include "app/prompt.h"
#include "base/error.h"

namespace ingot {
namespace {

using nlohmann::json;

struct EvalFlags {
  MachineFlags machine;
  std::string tokens_file;
  std::string out_file;
  std::string reference_file;
  double tolerance = 3e-4;
  bool hidden = false;
  bool mtp = false;
  std::string text_file;
  int n_windows = 0;
};

constexpr int kDrafts = 3;  // chained after the last row, with --mtp

std::vector<std::vector<int>> read_prompts(const std::string& file) {
  const json document = json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!document.is_array()) fail_usage("{}: is no JSON list, wanted [[ids], ...]", file);
  std::vector<std::vector<int>> prompts;
  for (const json& list : document) {
    std::vector<int>& prompt = prompts.emplace_back();
    if (!list.is_array())
      fail_usage("{}: entry {} is no list, wanted token ids", file, prompts.size() - 1);
    for (const json& id : list) {
      if (!id.is_number_integer() || id < 0 || id > (1 << 30))
        fail_usage("{}: entry {} holds {}, wanted token ids", file, prompts.size() - 1,
                   id.dump());
      prompt.push_back(id.get<int>());
    }
    if (prompt.empty())
      fail_usage("{}: entry {} is empty, wanted at least one token", file,
                 prompts.size() - 1);
  }
  return prompts;
}

// All rows of one prompt, and its hidden states when asked for.
struct Recorder {
  std::vector<float> logits;
  std::map<int, std::vector<float>> hidden;
  std::vector<float> mtp;
  std::vector<int32_t> drafts;
  std::vector<float> draft_logits;

  Engine::RowSink sink(bool want_hidden, bool want_mtp) {
    Engine::RowSink out;
    out.logits = [this](int, int n_rows, const float* rows, int width) {
      logits.insert(logits.end(), rows, rows + size_t(n_rows) * size_t(width));
    };
    if (want_hidden) {
      out.hidden = [this](int index, int, int n_rows, const float* rows, int width) {
        std::vector<float>& all = hidden[index];
        all.insert(all.end(), rows, rows + size_t(n_rows) * size_t(width));
      };
    }
    if (want_mtp) {
      out.mtp = [this](int, int n_rows, const float* rows, int width) {
        mtp.insert(mtp.end(), rows, rows + size_t(n_rows) * size_t(width));
      };
      out.draft = [this](int token, const float* row, int width) {
        drafts.push_back(token);
        draft_logits.insert(draft_logits.end(), row, row + width);
      };
      out.n_drafts = kDrafts;
    }
    return out;
  }
};

TensorView f32_view(const std::vector<float>& values, int64_t width) {
  return {DType::f32,
          {int64_t(values.size()) / width, width},
          std::as_bytes(std::span(values))};
}

int eval_logits(const EvalFlags& flags) {
  if (flags.out_file.empty() && flags.reference_file.empty())
    fail_usage("flags --out and --reference are both absent, wanted one of them");
  std::optional<Reference> reference;
  if (!flags.reference_file.empty()) reference.emplace(flags.reference_file);
  std::vector<std::vector<int>> prompts;
  if (!flags.tokens_file.empty())
    prompts = read_prompts(flags.tokens_file);
  else if (reference)
    prompts = reference->prompts();
  else
    fail_usage("flag --tokens is absent, wanted a file of [[ids], ...]");
  const std::unique_ptr<LoadedModel> model = load_everything(flags.machine);
  Engine engine(*model->model, {.context = flags.machine.context,
                                .chunk = flags.machine.chunk,
                                .kv_type = kv_type(flags.machine),
                                .max_logit_rows = kLogitRows});
  const Recipe& recipe = model->model->recipe;
  if (flags.mtp && recipe.mtp.empty())
    fail_usage("flag --mtp: {} has no MTP head", flags.machine.model);
  std::vector<Recorder> records(prompts.size());
  std::vector<SafetensorsWriteEntry> entries;
  for (size_t i = 0; i < prompts.size(); ++i) {
    engine.check_tokens(prompts[i]);
    const int wanted = int(prompts[i].size()) + (flags.mtp ? kDrafts : 0);
    if (wanted > engine.context())
      fail_usage("prompt {} is {} tokens, wanted at most {} (the context; -c sets it)", i,
                 wanted, engine.context());
    Sequence sequence = engine.new_sequence();
    engine.evaluate(sequence, prompts[i],
                    records[i].sink(flags.hidden || reference, flags.mtp));
    entries.push_back(
        {fmt::format("logits.{}", i), f32_view(records[i].logits, recipe.vocab_size)});
    if (flags.mtp) {
      entries.push_back(
          {fmt::format("mtp.logits.{}", i), f32_view(records[i].mtp, recipe.vocab_size)});
      entries.push_back({fmt::format("mtp.draft.{}", i),
                         {DType::i32,
                          {int64_t(records[i].drafts.size())},
                          std::as_bytes(std::span(records[i].drafts))}});
      entries.push_back({fmt::format("mtp.draft_logits.{}", i),
                         f32_view(records[i].draft_logits, recipe.vocab_size)});
    }
    for (const auto& [layer, rows] : records[i].hidden)
      if (flags.hidden)
        entries.push_back(
            {fmt::format("hidden.{}.{}", i, layer), f32_view(rows, recipe.hidden_size)});
  }
  if (!flags.out_file.empty())
    write_safetensors(flags.out_file, entries,
                      {{"model", flags.machine.model}, {"backend", model->ops->name()}});
  if (!reference) return 0;
  Comparison comparison;
  for (size_t i = 0; i < records.size(); ++i) {
    for (const auto& [layer, rows] : records[i].hidden)
      comparison.add(*reference, int(i), layer, rows, recipe.hidden_size);
    comparison.add(*reference, int(i), kLogits, records[i].logits, recipe.vocab_size);
    if (flags.mtp) {
      comparison.add(*reference, int(i), kMtpLogits, records[i].mtp, recipe.vocab_size);
      comparison.add(*reference, int(i), kDraftLogits, records[i].draft_logits,
                     recipe.vocab_size);
    }
  }
  return comparison.report(flags.tolerance);
}

int eval_ppl(const EvalFlags& flags) {
  MachineFlags machine = flags.machine;
  machine.context = window_of(machine);
  const std::string file = read_file(flags.text_file);
  const std::unique_ptr<LoadedModel> model = load_everything(machine);
  ScoredText text = scored_text(file, *model, machine.model);
  keep_windows(text.tokens, machine.context, flags.n_windows);
  Engine engine(*model->model, {.context = machine.context,
                                .chunk = machine.chunk,
                                .kv_type = kv_type(machine),
                                .max_logit_rows = kLogitRows});
  engine.check_tokens(text.tokens);
  const Perplexity result = perplexity(engine, text.tokens, machine.context, text.bos);
  const json out = {{"perplexity", result.perplexity},
                    {"nll", result.nll},
                    {"n_tokens", result.n_tokens}};
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace

int window_of(const MachineFlags& flags) {
  const int window = flags.context == 0 ? 512 : flags.context;
  if (window < 4) fail_usage("flag --ctx is {}, wanted at least 4 tokens", window);
  return window;
}

void keep_windows(std::vector<int>& tokens, int window, int n_windows) {
  if (n_windows < 0) fail_usage("flag --windows is {}, wanted at least 1", n_windows);
  const size_t wanted = size_t(n_windows) * size_t(window);
  if (n_windows > 0 && wanted < tokens.size()) tokens.resize(wanted);
}

ScoredText scored_text(const std::string& text, const LoadedModel& model,
                       const std::string& model_name) {
  if (!model.text.tokenizer) fail("{}: has no tokenizer, wanted one", model_name);
  const Tokenizer& tokenizer = *model.text.tokenizer;
  return {tokenizer.encode(text, {.add_special = true, .parse_special = false}),
          tokenizer.adds_bos() ? tokenizer.bos_id() : std::optional<int>()};
}

void add_eval(CLI::App& app, Action& action) {
  CLI::App* eval = app.add_subcommand(
      "eval", "logits of given tokens; perplexity of a text; divergence of two models");
  eval->require_subcommand(1);
  static EvalFlags flags;  // one command line a process

  CLI::App* logits = eval->add_subcommand("logits", "float32 logits of every position");
  add_machine_flags(*logits, flags.machine);
  logits->add_option("--tokens", flags.tokens_file, "JSON file [[ids], ...]");
  logits->add_option("--out", flags.out_file, "safetensors file to write");
  logits->add_flag("--hidden", flags.hidden, "write the hidden states too");
  logits->add_flag("--mtp", flags.mtp,
                   "the MTP head's logits too, and three drafts after each prompt");
  logits->add_option("--reference", flags.reference_file,
                     "compare with another program's file, layer by layer");
  logits->add_option("--tolerance", flags.tolerance,
                     "largest absolute difference allowed");
  logits->callback([&action] { action = [] { return eval_logits(flags); }; });

  CLI::App* ppl = eval->add_subcommand("ppl", "perplexity of a text");
  add_machine_flags(*ppl, flags.machine);
  ppl->add_option("--text", flags.text_file, "text file")->required();
  ppl->add_option("--windows", flags.n_windows, "only so many windows (default: all)");
  ppl->callback([&action] { action = [] { return eval_ppl(flags); }; });

  add_eval_kl(*eval, action);
}

}  // namespace ingot
