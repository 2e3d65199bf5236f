// `ingot run MODEL [PROMPT]`: one answer.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/prompt.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

struct RunFlags {
  MachineFlags machine;
  GenerationFlags generation;
  std::optional<std::string> prompt;
  bool json = false;
};

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout))
    fail("standard output: cannot be written, wanted to write the answer");
}

std::vector<int> encode_prompt(const RunFlags& flags, const LoadedModel& model) {
  if (!flags.generation.tokens.empty()) return parse_token_list(flags.generation.tokens);
  const std::string prompt =
      flags.prompt && *flags.prompt != "-" ? *flags.prompt : read_standard_input();
  const bool plain = flags.generation.raw || !model.text.chat_template;
  if (!flags.generation.raw && plain)
    log_warning("{}: has no chat template; the prompt is continued as it stands (--raw)",
                flags.machine.model);
  if (plain) return encode_raw(model.text, prompt, flags.machine.model);
  if (prompt.empty()) fail_usage("the prompt is empty, wanted at least one letter");
  ordered_json messages = ordered_json::array();
  if (flags.generation.system)
    messages.push_back({{"role", "system"}, {"content", *flags.generation.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return encode_chat(model.text, chat_request(flags.generation, messages),
                     flags.machine.model);
}

double per_second(size_t n, double seconds) {
  return seconds > 0 ? double(n) / seconds : 0;
}

void print_json(const RunFlags& flags, const LoadedModel& model,
                std::span<const int> prompt, const Generation& answer) {
  const size_t n_decoded = answer.tokens.empty() ? 0 : answer.tokens.size() - 1;
  ordered_json out;
  out["model"] = flags.machine.model;
  out["backend"] = model.ops->name();
  out["prompt_tokens"] = prompt;
  out["tokens"] = answer.tokens;
  out["text"] = answer.text;
  out["finish_reason"] =
      answer.finish == FinishReason::interrupted ? "error" : name(answer.finish);
  out["timings"] = {
      {"load_ms", model.load_seconds * 1e3},
      {"ttft_ms", answer.prefill_seconds * 1e3},
      {"prefill_tokens_per_s", per_second(prompt.size(), answer.prefill_seconds)},
      {"decode_tokens_per_s", per_second(n_decoded, answer.decode_seconds)}};
  out["draft"] = nullptr;
  write_out(out.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

int run(const RunFlags& flags) {
  if (!flags.generation.tokens.empty()) parse_token_list(flags.generation.tokens);
  const std::unique_ptr<LoadedModel> model = load_everything(flags.machine);
  const GenerateOptions options = generate_options(flags.generation, *model);
  const std::vector<int> prompt = encode_prompt(flags, *model);
  Engine engine(*model->model, {.context = flags.machine.context,
                                .chunk = flags.machine.chunk,
                                .kv_type = kv_type(flags.machine)});
  Sequence sequence = engine.new_sequence();
  const Tokenizer* tokenizer = model->text.tokenizer ? &*model->text.tokenizer : nullptr;
  std::unique_ptr<Progress> bar;
  const Generation answer = generate(
      engine, sequence, tokenizer, prompt, options,
      [&](std::string_view text) {
        if (!flags.json) write_out(text);
        return true;
      },
      [&](int done, int total) {
        if (!bar)
          bar = std::make_unique<Progress>("reading", total, ProgressUnit::tokens);
        bar->update(uint64_t(done));
        if (done == total) bar.reset();
      });
  if (flags.json)
    print_json(flags, *model, prompt, answer);
  else if (tokenizer)
    write_out("\n");
  else
    write_out(fmt::format("{}\n", fmt::join(answer.tokens, " ")));
  if (::isatty(STDERR_FILENO) == 1 || log_level() >= LogLevel::info) {
    fmt::print(stderr,
               "[{} prompt tokens in {:.2f} s, {} tokens at {:.1f}/s, ended by {}]\n",
               prompt.size(), answer.prefill_seconds, answer.tokens.size(),
               per_second(answer.tokens.empty() ? 0 : answer.tokens.size() - 1,
                          answer.decode_seconds),
               name(answer.finish));
  }
  return answer.finish == FinishReason::interrupted ? 130 : 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "answer one prompt");
  static RunFlags flags;  // one command line a process
  add_machine_flags(*command, flags.machine);
  command->add_option("PROMPT", flags.prompt,
                      "the prompt; '-' or absent: standard input");
  add_generation_flags(*command, flags.generation);
  command->add_flag("--json", flags.json, "one JSON document instead of text");
  command->callback([&action] { action = [] { return run(flags); }; });
}

}  // namespace ingot
