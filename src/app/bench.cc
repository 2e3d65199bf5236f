// `ingot bench MODEL`: the command; bench_runner.cc does the timing.
#include "app/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/bench_guard.h"
#include "app/bench_kernels.h"
#include "app/bench_report.h"
#include "app/commands.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/threads.h"

namespace ingot {
namespace {

struct BenchFlags {
  MachineFlags machine;
  std::vector<int> prefill;
  std::vector<int> decode;
  std::vector<int> depths;
  std::vector<int> first_token;
  int n_repeats = 5;
  int verify_rows = 0;
  std::string guard_file;
  bool kernels = false;
  bool json = false;
};

// Where no flag says what to time, that and this.
void fill_in(BenchFlags& flags) {
  const bool chosen = !flags.prefill.empty() || !flags.decode.empty() ||
                      !flags.depths.empty() || flags.verify_rows > 0;
  if (flags.first_token.empty() && !chosen) flags.first_token = {1, 128, 2048};
  if (flags.prefill.empty()) flags.prefill = {512};
  if (flags.decode.empty()) flags.decode = {128};
  if (flags.depths.empty()) flags.depths = {0};
  std::erase(flags.first_token, 0);
}

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
  check_counts("--ttft", flags.first_token);
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
  if (tests.empty() && flags.verify_rows == 0 && flags.first_token.empty())
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

// Splits the prompts of --ttft: those that fit stay, the others are reported.
void leave_out_long(BenchFlags& flags, BenchReport& report, int max_positions) {
  report.longest = flags.machine.context != 0 ? flags.machine.context : max_positions;
  const auto fits = [&](int n) { return n <= report.longest; };
  const auto end =
      std::stable_partition(flags.first_token.begin(), flags.first_token.end(), fits);
  report.left_out.assign(end, flags.first_token.end());
  flags.first_token.erase(end, flags.first_token.end());
}

void time_all(const BenchFlags& flags, const std::vector<BenchTest>& tests,
              const LoadedModel& model, Engine& engine, BenchReport& report,
              std::vector<BenchTiming>& timings) {
  BenchRunner runner(*model.model, engine, kv_type(flags.machine), flags.n_repeats);
  Progress bar("timing", tests.size() + flags.first_token.size(), ProgressUnit::items);
  for (const BenchTest& test : tests) {
    timings.push_back(runner.time(test));
    bar.update(timings.size());
  }
  if (flags.verify_rows > 0)
    report.verify = runner.time_verify(flags.verify_rows, flags.depths[0]);
  for (const int n : flags.first_token) {
    report.first_token.push_back(runner.time_first_token(n));
    bar.update(timings.size() + report.first_token.size());
  }
}

int print(const std::string& out) {
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout))
    fail("standard output: cannot be written");
  return 0;
}

std::string document(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

int bench(BenchFlags flags) {
  check_flags(flags);
  const std::vector<BenchTest> tests = tests_of(flags);
  std::optional<BenchGuard> guard;
  if (!flags.guard_file.empty()) guard = read_guard(flags.guard_file, flags.machine);
  const int needed = context_needed(flags, tests, guard);
  MachineFlags machine = flags.machine;
  machine.context = needed;
  const std::unique_ptr<LoadedModel> model = load_everything(machine);
  BenchReport report;
  leave_out_long(flags, report, model->model->recipe.max_positions);
  int deepest = needed;
  for (const int n : flags.first_token) deepest = std::max(deepest, n);
  Engine engine(*model->model, {.context = deepest,
                                .chunk = flags.machine.chunk,
                                .kv_type = kv_type(flags.machine),
                                .max_logit_rows = std::max(1, flags.verify_rows)});
  if (guard) check_guard(*guard, engine);

  std::vector<BenchTiming> timings;
  time_all(flags, tests, *model, engine, report, timings);
  // Before the measurements of the machine, which take memory of their own.
  report.memory = memory_use(*model, kv_type(flags.machine), deepest);
  report.model = flags.machine.model;
  report.n_threads =
      flags.machine.threads == 0 ? default_thread_count() : flags.machine.threads;
  report.facts = machine_facts();
  report.speed = measure_machine(report.n_threads);
  for (const BenchTiming& timing : timings)
    report.rows.push_back(bench_row(timing, *model, report.speed));

  if (flags.json) return print(document(json_of(report)));
  std::string out = table_of(report);
  if (guard)
    out += fmt::format("{} greedy tokens equal {}'s\n", guard->tokens.size(),
                       guard->made_by);
  return print(out);
}

int bench_kernels(const BenchFlags& flags) {
  const KernelReport report = time_kernels(flags.machine);
  return print(flags.json ? document(json_of(report)) : table_of(report));
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("bench", "speed of prefill and decode");
  static BenchFlags flags;  // one command line a process
  add_machine_flags(*command, flags.machine);
  const auto list = [&](const char* name, std::vector<int>& values, const char* help) {
    return command->add_option(name, values, help)
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  std::vector<CLI::Option*> of_tests = {
      list("-p,--prefill", flags.prefill,
           "prompt tokens, repeatable or a,b,c (default 512; 0: none)"),
      list("-n,--decode", flags.decode,
           "tokens to decode, likewise (default 128; 0: none)"),
      list("-d,--depth", flags.depths,
           "tokens in the context before, likewise (default 0)"),
      list("--ttft", flags.first_token,
           "prompt tokens before a first token, likewise (default 1,128,2048 where no "
           "other flag says what to time; 0: none)"),
      command->add_option("-r,--repeats", flags.n_repeats, "repeats; the median counts"),
      command->add_option("--verify", flags.verify_rows,
                          "cost of passes over 1 to N rows"),
      command->add_option(
          "--guard", flags.guard_file,
          "JSON file of an independent reference's tokens; any other token voids "
          "the run")};
  command->add_flag("--json", flags.json, "one JSON document instead of a table");
  CLI::Option* kernels = command->add_flag(
      "--kernels", flags.kernels, "the model's matrix products alone, warm and cold");
  for (CLI::Option* option : of_tests) kernels->excludes(option);
  command->callback([&action] {
    fill_in(flags);
    action = [] { return flags.kernels ? bench_kernels(flags) : bench(flags); };
  });
}

}  // namespace ingot
