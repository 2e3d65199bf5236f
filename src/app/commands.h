// The commands of `ingot`, one function each that declares flags and leaves the action.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace ingot {

using Action = std::function<int()>;  // returns the exit code; throws Error

// Each adds one subcommand to `app`; when the user chose it, `action` becomes what to do.
void add_run(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_store(CLI::App& app, Action& action);  // pull, list, rm
void add_text(CLI::App& app, Action& action);   // tokenize, detokenize, template
void add_eval(CLI::App& app, Action& action);   // eval logits, eval ppl
void add_bench(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_synth(CLI::App& app, Action& action);

}  // namespace ingot
