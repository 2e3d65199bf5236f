// `ingot chat MODEL`: a conversation.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/chat_input.h"
#include "app/chat_messages.h"
#include "app/commands.h"
#include "app/prompt.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/utf8.h"

namespace ingot {
namespace {

struct ChatFlags {
  MachineFlags machine;
  GenerationFlags generation;
};

constexpr const char* kHelp =
    "/system TEXT     set the system message; without TEXT: none; \"\": an empty one\n"
    "/set NAME VALUE  change a sampling flag: temp, top-k, top-p, min-p, "
    "repeat-penalty,\n"
    "                 presence-penalty, frequency-penalty, logit-bias, seed, max-tokens, "
    "stop,\n"
    "                 think, ignore-eos; without NAME: show what holds\n"
    "/regen           answer the last message again\n"
    "/clear           forget the conversation (the system message stays)\n"
    "/save FILE       write the conversation as JSON\n"
    "/load FILE       read one that was saved\n"
    "/quit            leave; so does Ctrl-D\n"
    "Ctrl-C stops an answer.  A message that begins with / is written with //.\n";

// For the person: standard error, so that standard output holds the answers alone.
void tell(const std::string& text) { std::fputs((text + "\n").c_str(), stderr); }

void tell(const Error& error) {
  tell("ingot: " + printable_text(error.what()));
  if (!error.hint().empty()) tell("hint: " + printable_text(error.hint()));
}

// Whether to go on, as generate() asks.
bool write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout))
    fail("standard output: cannot be written, wanted to write the answer");
  return true;
}

class Chat {
 public:
  Chat(const ChatFlags& flags, const LoadedModel& model)
      : flags_(flags),
        model_(model),
        engine_(*model.model, {.context = flags.machine.context,
                               .chunk = flags.machine.chunk,
                               .kv_type = kv_type(flags.machine)}),
        sequence_(engine_.new_sequence()) {
    generate_options(flags_.generation, model_);  // wrong flags are told at once
    messages_.set_system(flags_.generation.system);
  }

  int run(ChatInput& input);

 private:
  enum class Next { go_on, leave };
  Next obey(const std::string& line);
  void set(const std::string& arguments);
  void show_settings();
  void send(const std::string& text);
  void regenerate();
  // Answers the last message, which is the user's; drops it when there can be no answer.
  void answer(uint64_t seed_offset);
  std::optional<std::vector<int>> encode();
  void report(const Generation& answer, bool limited);

  ChatFlags flags_;
  const LoadedModel& model_;
  Engine engine_;
  Sequence sequence_;
  ChatMessages messages_;
  uint64_t n_regenerated_ = 0;
};

int Chat::run(ChatInput& input) {
  if (input.is_terminal())
    tell(fmt::format("{}, context {}.  /help tells the commands, Ctrl-D leaves.",
                     printable_text(flags_.machine.model), engine_.context()));
  bool interrupted_before = false;
  std::string line;
  while (true) {
    switch (input.read(line)) {
      case Typed::end:
        return 0;
      case Typed::interrupted:
        if (interrupted_before || !input.is_terminal()) return 130;
        interrupted_before = true;
        tell("Ctrl-C again or Ctrl-D leaves.");
        continue;
      case Typed::line:
        break;
    }
    interrupted_before = false;
    if (line.find_first_not_of(" \t\n") == std::string::npos) continue;
    if (!line.starts_with('/'))
      send(line);
    else if (line.starts_with("//"))
      send(line.substr(1));
    else if (obey(line) == Next::leave)
      return 0;
  }
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// What follows /system: nothing, or "" for an empty message, or the text.
std::optional<std::string> system_text(const std::string& rest) {
  if (rest.empty()) return std::nullopt;
  return rest == "\"\"" ? std::string() : rest;
}

Chat::Next Chat::obey(const std::string& line) {
  const std::string command = line.substr(0, line.find_first_of(" \t"));
  const std::string rest = trimmed(line.substr(command.size()));
  const auto file = [&] {
    if (rest.empty())
      fail_usage("{}: the name of a file is missing, wanted one", command);
    return std::filesystem::path(rest);
  };
  try {
    if (command == "/quit" || command == "/exit") return Next::leave;
    if (command == "/help") {
      std::fputs(kHelp, stderr);
    } else if (command == "/system") {
      messages_.set_system(system_text(rest));
    } else if (command == "/set") {
      set(rest);
    } else if (command == "/regen") {
      regenerate();
    } else if (command == "/clear") {
      messages_.clear();
      tell("forgotten");
    } else if (command == "/save") {
      messages_.save(file(), flags_.machine.model);
      tell(fmt::format("saved: {} messages", messages_.list().size()));
    } else if (command == "/load") {
      messages_.load(file());
      tell(fmt::format("loaded: {} messages", messages_.list().size()));
    } else {
      tell(fmt::format("unknown command '{}': /help tells the commands",
                       printable_text(command)));
    }
  } catch (const Error& error) {
    // What was typed was wrong, not the model: the conversation goes on.
    if (error.kind() != ErrorKind::usage && command == "/regen") throw;
    tell(error);
  }
  return Next::go_on;
}

// The same words as on the command line, through the same parser.
void Chat::set(const std::string& arguments) {
  if (arguments.empty()) return show_settings();
  const size_t space = std::min(arguments.find_first_of(" \t"), arguments.size());
  const std::string name = arguments.substr(0, space);
  const std::string value = trimmed(arguments.substr(space));
  if (name == "raw" || name == "tokens" || name == "system" || name.starts_with('-'))
    fail_usage("/set: '{}' is nothing to set, wanted a name that /help tells", name);
  if (value.empty()) fail_usage("/set {}: the value is missing, wanted one", name);
  GenerationFlags changed = flags_.generation;
  CLI::App app;
  app.set_help_flag();
  add_generation_flags(app, changed);
  std::vector<std::string> argument = {
      (name == "n" ? "--max-tokens=" : "--" + name + "=") + value};
  try {
    app.parse(argument);
  } catch (const CLI::ParseError& error) {
    fail_usage("/set {}: {}", name, error.what());
  }
  generate_options(changed, model_);
  chat_request(changed, messages_.list());
  flags_.generation = changed;
}

void Chat::show_settings() {
  const GenerateOptions options = generate_options(flags_.generation, model_);
  const SamplerArgs& a = options.sampler.args;
  tell(fmt::format(
      "temp {:g}, top-k {}, top-p {:g}, min-p {:g}, repeat-penalty {:g}, "
      "presence-penalty {:g}, frequency-penalty {:g}",
      double(a.temperature), a.top_k, double(a.top_p), double(a.min_p),
      double(a.repeat_penalty), double(a.presence_penalty), double(a.frequency_penalty)));
  tell(fmt::format(
      "seed {}, max-tokens {}, ignore-eos {}",
      flags_.generation.seed ? std::to_string(*flags_.generation.seed) : "from the clock",
      options.max_tokens < 0 ? "the context" : std::to_string(options.max_tokens),
      flags_.generation.ignore_eos ? "on" : "off"));
}

void Chat::send(const std::string& text) {
  messages_.add("user", text);
  n_regenerated_ = 0;
  answer(0);
}

void Chat::regenerate() {
  if (messages_.last_is("assistant")) messages_.drop_last();
  if (!messages_.last_is("user"))
    fail_usage("/regen: there is no message to answer, wanted one");
  answer(++n_regenerated_);  // another seed: the same one would say the same
}

// Nothing, and the reason told, when the template refuses or the context is too small.
std::optional<std::vector<int>> Chat::encode() {
  std::vector<int> prompt;
  try {
    prompt = encode_chat(model_.text, chat_request(flags_.generation, messages_.list()),
                         flags_.machine.model);
  } catch (const Error& error) {
    tell(error);
    return std::nullopt;
  }
  if (int(prompt.size()) < engine_.context()) return prompt;
  tell(fmt::format(
      "ingot: the conversation is {} tokens with this message, the context holds "
      "{} with the answer; the message was not sent",
      prompt.size(), engine_.context()));
  tell("hint: /clear starts anew; ingot chat -c N gives more context");
  return std::nullopt;
}

void Chat::answer(uint64_t seed_offset) {
  const std::optional<std::vector<int>> prompt = encode();
  if (!prompt) return messages_.drop_last();
  GenerateOptions options = generate_options(flags_.generation, model_);
  options.sampler.args.seed += seed_offset;
  std::unique_ptr<Progress> bar;
  const auto on_prefill = [&](int done, int total) {
    if (!bar) bar = std::make_unique<Progress>("reading", total, ProgressUnit::tokens);
    bar->update(uint64_t(done));
    if (done == total) bar.reset();
  };
  Generation answer;
  try {
    answer = generate(engine_, sequence_, &*model_.text.tokenizer, *prompt, options,
                      write_out, on_prefill);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    answer.finish = FinishReason::interrupted;  // while the prompt was read
  }
  bar.reset();
  write_out("\n");
  report(answer,
         options.max_tokens >= 0 && int(answer.tokens.size()) >= options.max_tokens);
  if (answer.text.empty() && answer.finish == FinishReason::interrupted)
    messages_.drop_last();
  else
    messages_.add("assistant", answer.text);
}

void Chat::report(const Generation& answer, bool limited) {
  if (answer.finish == FinishReason::interrupted) {
    clear_interrupt();
    tell("[stopped]");
  } else if (answer.finish == FinishReason::length && limited) {
    tell("[cut: max-tokens is reached]");
  } else if (answer.finish == FinishReason::length) {
    tell(fmt::format(
        "[cut: the context of {} tokens is full; /clear starts anew, ingot chat "
        "-c N gives more]",
        engine_.context()));
  }
  if (log_level() >= LogLevel::info)
    tell(fmt::format("[{} prompt tokens read in {:.2f} s, {} tokens in {:.2f} s]",
                     answer.prefill_tokens, answer.prefill_seconds, answer.tokens.size(),
                     answer.decode_seconds));
}

int chat(const ChatFlags& flags) {
  if (flags.generation.raw)
    fail_usage("flag --raw: chat needs the template (or: ingot run)");
  if (!flags.generation.tokens.empty())
    fail_usage("flag --tokens: chat takes messages (or: ingot run)");
  const std::unique_ptr<LoadedModel> model = load_everything(flags.machine);
  if (!model->text.tokenizer)
    fail("{}: has no tokenizer, wanted one to chat", flags.machine.model);
  if (!model->text.chat_template)
    throw Error(
        fmt::format("{}: has no chat template, wanted one to chat", flags.machine.model),
        "ingot run continues a text as it stands; --chat-template FILE brings one");
  Chat conversation(flags, *model);
  ChatInput input;
  return conversation.run(input);
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("chat", "a conversation");
  static ChatFlags flags;  // one command line a process
  add_machine_flags(*command, flags.machine);
  add_generation_flags(*command, flags.generation);
  command->callback([&action] { action = [] { return chat(flags); }; });
}

}  // namespace ingot
