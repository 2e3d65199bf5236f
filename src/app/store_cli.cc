// `ingot pull`, `list` and `rm`: flags; pull.h and store_commands.h do the work.
#include <CLI/CLI.hpp>
#include <memory>

#include "app/commands.h"
#include "app/pull.h"
#include "app/store_commands.h"

namespace ingot {

void add_store(CLI::App& app, Action& action) {
  CLI::App* pull = app.add_subcommand("pull", "bring a model into the local store");
  static PullOptions pull_flags;  // one command line a process
  pull->add_option("REF", pull_flags.reference,
                   "hf:ORG/NAME[@REV][:FILE|:QUANT], a .gguf file or a model directory")
      ->required();
  pull->add_option("--as", pull_flags.name, "name in the store");
  pull->add_flag("--offline", pull_flags.offline, "no request to the network");
  pull->add_option("--connect-timeout", pull_flags.connect_timeout_s,
                   "seconds to wait for the hub's first answer");
  pull->add_option("--retries", pull_flags.retries, "attempts without progress");
  pull->add_flag("--json", pull_flags.json, "one JSON document");
  pull->callback([&action] { action = [] { return run_pull(pull_flags); }; });

  CLI::App* list = app.add_subcommand("list", "models in the local store");
  static ListOptions list_flags;  // one command line a process
  list->add_flag("--json", list_flags.json, "one JSON document");
  list->callback([&action] { action = [] { return run_list(list_flags); }; });

  CLI::App* rm = app.add_subcommand("rm", "remove models from the local store");
  static RemoveOptions rm_flags;  // one command line a process
  rm->add_option("NAME", rm_flags.names, "as `ingot list` shows it")->required();
  rm->callback([&action] { action = [] { return run_rm(rm_flags); }; });
}

}  // namespace ingot
