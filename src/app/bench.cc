// `ingot bench MODEL`: the command; bench_runner.cc does the timing.
#include "app/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/bench_guard.h"
#include "app/commands.h"
#include "app/load.h"
#include "app/machine_report.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/threads.h"
#include "model/cost.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

struct BenchFlags {
  MachineFlags machine;
  std::vector<int> prefill;
  std::vector<int> decode;
  std::vector<int> depths;
  int n_repeats = 5;
  int verify_rows = 0;
  std::string guard_file;
  bool json = false;
};

constexpr int kMostTokens = 1 << 24;

void check_counts(const char* flag, const std::vector<int>& values) {
  for (const int value : values)
    if (value < 0 || value > kMostTokens)
      fail_usage("flag {} is {}, wanted 0 to {} tokens", flag, value, kMostTokens);
}

void check_flags(const BenchFlags& flags) {
  check_counts("-p", flags.prefill);
  check_counts("-n", flags.decode);
  check_counts("-d", flags.depths);
  if (flags.n_repeats < 1 || flags.n_repeats > 1000)
    fail_usage("flag -r is {}, wanted 1 to 1000 repeats", flags.n_repeats);
  if (flags.verify_rows < 0 || flags.verify_rows > 256)
    fail_usage("flag --verify is {}, wanted 1 to 256 rows", flags.verify_rows);
}

// By depth, so that a deep context is filled once.
std::vector<BenchTest> tests_of(const BenchFlags& flags) {
  std::vector<int> depths = flags.depths;
  std::sort(depths.begin(), depths.end());
  std::vector<BenchTest> tests;
  for (const int depth : depths) {
    for (const int n : flags.prefill)
      if (n > 0) tests.push_back({BenchKind::prefill, n, depth});
    for (const int n : flags.decode)
      if (n > 0) tests.push_back({BenchKind::decode, n, depth});
  }
  if (tests.empty() && flags.verify_rows == 0)
    fail_usage("flags -p and -n are both 0, wanted something to time");
  return tests;
}

int context_needed(const BenchFlags& flags, const std::vector<BenchTest>& tests,
                   const std::optional<BenchGuard>& guard) {
  int needed = 1;
  for (const BenchTest& test : tests)
    needed = std::max(needed, test.depth + test.n_tokens);
  if (flags.verify_rows > 0)
    needed = std::max(needed, flags.depths[0] + flags.verify_rows);
  if (guard) needed = std::max(needed, int(guard->prompt.size() + guard->tokens.size()));
  if (flags.machine.context != 0 && flags.machine.context < needed)
    fail_usage("context is {} tokens, wanted at least {} for these tests",
               flags.machine.context, needed);
  return std::max(needed, flags.machine.context);
}

// A finished row: what cli.md promises.
struct Row {
  std::string test;
  double tokens_per_s = 0;
  double spread = 0;
  double seconds = 0;
  double bytes_per_token = 0;
  double gb_per_s = 0;
  double fraction = 0;
};

// Whether most of the layers' bytes meet int8 activations.
bool integer_arithmetic(const LoadedModel& model) {
  if (model.ops->act_mode() == ActMode::f32) return false;
  const std::vector<DTypeTotal> totals = totals_by_dtype(model.checkpoint);
  return !totals.empty() &&
         (is_quantised(totals[0].dtype) || totals[0].dtype == DType::u32);
}

Row row_of(const BenchTiming& timing, const LoadedModel& model,
           const MachineSpeed& speed) {
  Row row;
  row.test = name(timing.test);
  row.tokens_per_s = timing.tokens_per_s();
  row.spread = timing.spread();
  row.seconds = median(timing.seconds);
  row.bytes_per_token = timing.weight_bytes_per_token + timing.state_bytes_per_token;
  const double bytes_per_s = row.bytes_per_token * row.tokens_per_s;
  row.gb_per_s = bytes_per_s / 1e9;
  if (timing.test.kind == BenchKind::decode) {
    row.fraction = bytes_per_s / speed.read_bytes_per_s;
    return row;
  }
  const double peak = integer_arithmetic(model) ? speed.int8_operations_per_s
                                                : speed.f32_operations_per_s;
  const int middle = timing.test.depth + timing.test.n_tokens / 2;
  row.fraction = layer_operations(model.model->recipe, middle) * row.tokens_per_s / peak;
  return row;
}

ordered_json json_of(const std::vector<Row>& rows) {
  ordered_json out = ordered_json::array();
  for (const Row& row : rows) {
    out.push_back({{"test", row.test},
                   {"tokens_per_s", row.tokens_per_s},
                   {"spread", row.spread},
                   {"bytes_per_token", row.bytes_per_token},
                   {"gb_per_s", row.gb_per_s},
                   {"fraction", row.fraction}});
  }
  return out;
}

ordered_json json_of(const std::vector<VerifyTiming>& verify) {
  ordered_json out = ordered_json::array();
  for (const VerifyTiming& pass : verify)
    out.push_back(
        {{"rows", pass.n_rows}, {"ms", pass.seconds * 1e3}, {"relative", pass.relative}});
  return out;
}

std::string table(const std::vector<Row>& rows, const std::vector<VerifyTiming>& verify) {
  std::string out;
  if (!rows.empty())
    out += fmt::format("{:<16}{:>10}{:>9}{:>11}{:>11}{:>8}{:>9}\n", "test", "tokens/s",
                       "spread", "ms", "MB/token", "GB/s", "of peak");
  for (const Row& row : rows) {
    out += fmt::format("{:<16}{:>10.2f}{:>9.2f}{:>11.1f}{:>11.2f}{:>8.2f}{:>8.1f}%\n",
                       row.test, row.tokens_per_s, row.spread, row.seconds * 1e3,
                       row.bytes_per_token / 1e6, row.gb_per_s, 100 * row.fraction);
  }
  for (const VerifyTiming& pass : verify)
    out +=
        fmt::format("verify {:>3} row{} {:>9.2f} ms  {:.2f} times one row\n", pass.n_rows,
                    pass.n_rows == 1 ? " " : "s", pass.seconds * 1e3, pass.relative);
  return out;
}

std::string machine_lines(const MachineFacts& facts, const MachineSpeed& speed,
                          const LoadedModel& model, int n_threads) {
  return fmt::format(
      "{}, {} threads, {}: reads {:.2f} GB/s, int8 {:.1f} Gop/s, f32 {:.1f} "
      "Gop/s (measured in this run)\n",
      facts.cpu, n_threads, model.ops->name(), speed.read_bytes_per_s / 1e9,
      speed.int8_operations_per_s / 1e9, speed.f32_operations_per_s / 1e9);
}

int bench(const BenchFlags& flags) {
  check_flags(flags);
  const std::vector<BenchTest> tests = tests_of(flags);
  std::optional<BenchGuard> guard;
  if (!flags.guard_file.empty()) guard = read_guard(flags.guard_file, flags.machine);
  const int context = context_needed(flags, tests, guard);
  MachineFlags machine = flags.machine;
  machine.context = context;
  const std::unique_ptr<LoadedModel> model = load_everything(machine);
  Engine engine(*model->model, {.context = context,
                                .chunk = flags.machine.chunk,
                                .kv_type = kv_type(flags.machine),
                                .max_logit_rows = std::max(1, flags.verify_rows)});
  if (guard) check_guard(*guard, engine);

  BenchRunner runner(*model->model, engine, kv_type(flags.machine), flags.n_repeats);
  std::vector<BenchTiming> timings;
  std::vector<VerifyTiming> verify;
  {
    Progress bar("timing", tests.size(), ProgressUnit::items);
    for (const BenchTest& test : tests) {
      bar.update(timings.size());
      timings.push_back(runner.time(test));
    }
    if (flags.verify_rows > 0)
      verify = runner.time_verify(flags.verify_rows, flags.depths[0]);
  }
  const int n_threads =
      flags.machine.threads == 0 ? default_thread_count() : flags.machine.threads;
  const MachineFacts facts = machine_facts();
  const MachineSpeed speed = measure_machine(n_threads);
  std::vector<Row> rows;
  for (const BenchTiming& timing : timings) rows.push_back(row_of(timing, *model, speed));

  std::string out;
  if (flags.json) {
    ordered_json document = {{"machine", machine_json(facts, speed, n_threads)},
                             {"build", build_json()},
                             {"model", flags.machine.model},
                             {"rows", json_of(rows)}};
    if (!verify.empty()) document["verify"] = json_of(verify);
    out = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  } else {
    out = table(rows, verify) + machine_lines(facts, speed, *model, n_threads);
    if (guard)
      out += fmt::format("{} greedy tokens equal {}'s\n", guard->tokens.size(),
                         guard->made_by);
  }
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout))
    fail("standard output: cannot be written");
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("bench", "speed of prefill and decode");
  static BenchFlags flags;  // one command line a process
  add_machine_flags(*command, flags.machine);
  const auto list = [&](const char* name, std::vector<int>& values, const char* help) {
    command->add_option(name, values, help)->delimiter(',')->allow_extra_args(false);
  };
  list("-p,--prefill", flags.prefill,
       "prompt tokens, repeatable or a,b,c (default 512; 0: none)");
  list("-n,--decode", flags.decode, "tokens to decode, likewise (default 128; 0: none)");
  list("-d,--depth", flags.depths, "tokens in the context before, likewise (default 0)");
  command->add_option("-r,--repeats", flags.n_repeats, "repeats; the median counts");
  command->add_option("--verify", flags.verify_rows, "cost of passes over 1 to N rows");
  command->add_option(
      "--guard", flags.guard_file,
      "JSON file of an independent reference's tokens; any other token voids "
      "the run");
  command->add_flag("--json", flags.json, "one JSON document instead of a table");
  add_unbuilt_flags(*command, {"--kernels"});
  command->callback([&action] {
    if (flags.prefill.empty()) flags.prefill = {512};
    if (flags.decode.empty()) flags.decode = {128};
    if (flags.depths.empty()) flags.depths = {0};
    action = [] { return bench(flags); };
  });
}

}  // namespace ingot
