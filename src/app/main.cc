// The command line: which command, and how its end becomes an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "app/commands.h"
#include "app/options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/utf8.h"

namespace ingot {
namespace {

constexpr int kUsage = 2;

void say(const std::string& message, const std::string& hint) {
  fmt::print(stderr, "ingot: {}\n", printable_text(message));
  if (!hint.empty()) fmt::print(stderr, "hint: {}\n", printable_text(hint));
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return kUsage;
    case ErrorKind::interrupted:
      return 130;
    case ErrorKind::job:
      break;
  }
  return 1;
}

void add_unbuilt_commands(CLI::App& app, Action& action) {
  for (const char* name : {"serve", "convert"}) {
    CLI::App* command = app.add_subcommand(name, "")->group("");
    command->allow_extras();
    command->callback([&action, name] {
      action = [name]() -> int { fail_usage("command {}: not built yet", name); };
    });
  }
}

// One line, as every other error: what CLI11 found, and where help is.
int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  std::string message = error.what();
  if (app.get_subcommands().empty() && !app.remaining().empty())
    message = fmt::format("unknown command '{}'", app.remaining().front());
  for (char& c : message)
    if (c == '\n') c = ' ';
  say(message, "ingot --help, ingot COMMAND --help");
  return kUsage;
}

// Of a flag given twice the last one counts, so that an alias can be overridden.
void take_last(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() == 1)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  for (CLI::App* command : app.get_subcommands({})) take_last(*command);
}

int run_main(int argc, char** argv) {
  CLI::App app("Ingot runs large language models on this machine.", "ingot");
  app.set_version_flag("--version", std::string("ingot ") + INGOT_VERSION);
  app.require_subcommand(1);
  Action action;
  add_run(app, action);
  add_chat(app, action);
  add_inspect(app, action);
  add_bench(app, action);
  add_doctor(app, action);
  add_synth(app, action);
  add_store(app, action);
  add_text(app, action);
  add_eval(app, action);
  add_unbuilt_commands(app, action);
  take_last(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  const int code = action();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    fail("standard output: cannot be written");
  return code;
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::install_interrupt_handler();
  ingot::install_truncation_handler();
  try {
    return ingot::run_main(argc, argv);
  } catch (const ingot::Error& error) {
    ingot::say(error.what(), error.hint());
    return ingot::exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    ingot::say("out of memory",
               "a smaller -c, --kv-type q8, or a smaller model needs less");
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    ingot::say(
        fmt::format("{}: {}", ingot::printable(error.path1()), error.code().message()),
        "");
    return 1;
  } catch (const std::exception& error) {  // ours to mend, yet a line and an exit code
    ingot::say(fmt::format("unexpected: {}", error.what()), "");
    return 1;
  }
}
