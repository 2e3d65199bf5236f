// `ingot synth CONFIG.json OUT`: a model of seeded random weights.
#include "model/synth.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/commands.h"
#include "base/file.h"

namespace ingot {
namespace {

int synth(const SynthOptions& options) {
  const SynthSummary done = synthesize(options);
  fmt::print(stderr, "{}: {} tensors, {:.3f} billion weights, {}, seed {}, {:.3f} GB\n",
             printable(options.out), done.n_tensors, double(done.n_values) / 1e9,
             done.type, options.seed, double(done.n_bytes) / 1e9);
  return 0;
}

}  // namespace

void add_synth(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("synth", "a model of random weights at a config's shapes");
  static SynthOptions options;  // one command line a process
  command->add_option("CONFIG", options.config, "a config.json")->required();
  command->add_option("OUT", options.out, "FILE.gguf, or a new safetensors directory")
      ->required();
  command->add_option(
      "--type", options.type,
      "f32, f16, bf16, q8_0, q4_0 ... q6_k: of all matrices; q3_k_s ... "
      "q5_k_m: mixtures as llama.cpp makes them (q4_k_m; directory: bf16)");
  command->add_option("--seed", options.seed, "of the weights (0)");
  command->callback([&action] { action = [] { return synth(options); }; });
}

}  // namespace ingot
