// `ingot doctor`: what this machine has, and what this build left out.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <curl/curl.h>
#include <fmt/format.h>
#include <pcre2.h>
#include <simdjson.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utf8proc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/machine_report.h"
#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "formats/store.h"
#include "model/describe.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr uint64_t kLittle = uint64_t(2) << 30;  // of memory or disk: worth a warning

struct StoreFacts {
  std::string path;     // printable; empty when there is none
  std::string problem;  // why there is none, or why it cannot be written
  uint64_t free_bytes = 0;
  bool writable = false;
  size_t n_models = 0;
};

// The directory itself, or the nearest one above it that exists.
fs::path nearest_existing(fs::path path) {
  std::error_code error;
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

StoreFacts store_facts() {
  StoreFacts out;
  try {
    const fs::path store = store_directory();
    out.path = printable(store);
    const fs::path there = nearest_existing(store);
    out.writable = ::access(there.c_str(), W_OK | X_OK) == 0;
    if (!out.writable)
      out.problem = fmt::format("{} cannot be written", printable(there));
    struct statvfs disk {};
    if (::statvfs(there.c_str(), &disk) == 0)
      out.free_bytes = uint64_t(disk.f_bavail) * uint64_t(disk.f_frsize);
    out.n_models = list_store().size();
  } catch (const Error& error) {
    out.problem = error.what();
  }
  return out;
}

struct Report {
  MachineFacts facts;
  MachineSpeed speed;
  StoreFacts store;
  int n_threads = 0;
  std::vector<std::string> warnings;
};

std::string gigabytes(uint64_t bytes) {
  return fmt::format("{:.1f} GB", double(bytes) / 1e9);
}

void find_warnings(Report& report) {
  std::vector<std::string>& out = report.warnings;
  const MachineFacts& facts = report.facts;
  if (facts.available_bytes < kLittle)
    out.push_back(
        fmt::format("{} of memory is available: models above that will swap or fail",
                    gigabytes(facts.available_bytes)));
  if (facts.backend == "cpu-scalar")
    out.push_back("no SIMD kernels for this CPU: expect a tenth of the speed");
  if (!report.store.problem.empty()) out.push_back("store: " + report.store.problem);
  if (report.store.writable && report.store.free_bytes < kLittle)
    out.push_back(fmt::format("{} is free where models are stored",
                              gigabytes(report.store.free_bytes)));
}

std::string pcre2_version() {
  char text[64] = {};
  return pcre2_config(PCRE2_CONFIG_VERSION, text) > 0 ? text : "unknown";
}

std::vector<Fact> library_facts() {
  const curl_version_info_data* curl = curl_version_info(CURLVERSION_NOW);
  return {{"libcurl", curl->version},
          {"TLS", curl->ssl_version ? curl->ssl_version : "none"},
          {"PCRE2", pcre2_version()},
          {"utf8proc", utf8proc_version()},
          {"simdjson", fmt::format("{}.{}.{}", int(simdjson::SIMDJSON_VERSION_MAJOR),
                                   int(simdjson::SIMDJSON_VERSION_MINOR),
                                   int(simdjson::SIMDJSON_VERSION_REVISION))},
          {"CLI11", CLI11_VERSION},
          {"nlohmann_json",
           fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                       NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)}};
}

constexpr const char* kLeftOut[] = {"cuda", "metal", "sim"};

std::string text_of(const Report& report) {
  const MachineFacts& facts = report.facts;
  const std::string tables = fmt::format("{}", fmt::join(facts.kernel_tables, ", "));
  const std::string features = fmt::format("{}", fmt::join(facts.features, " "));
  std::vector<Fact> out = {
      {"CPU", facts.cpu},
      {"threads", fmt::format("{} (cores that this process may use)", facts.n_cores)},
      {"features", features},
      {"kernels", fmt::format("{} (of {})", facts.backend, tables)},
      {"memory", fmt::format("{}, {} available", gigabytes(facts.memory_bytes),
                             gigabytes(facts.available_bytes))},
      {"reads",
       fmt::format("{:.2f} GB/s, measured", report.speed.read_bytes_per_s / 1e9)},
      {"int8 peak",
       fmt::format("{:.1f} Gop/s, measured", report.speed.int8_operations_per_s / 1e9)},
      {"f32 peak",
       fmt::format("{:.1f} Gop/s, measured", report.speed.f32_operations_per_s / 1e9)},
      {"store",
       report.store.path.empty()
           ? "none"
           : fmt::format("{}: {} models, {} free, {}", report.store.path,
                         report.store.n_models, gigabytes(report.store.free_bytes),
                         report.store.writable ? "writable" : "NOT writable")},
      {"backends", "cpu"}};
  for (const char* backend : kLeftOut)
    out.push_back({"", fmt::format("{}: not in this build", backend)});
  for (Fact& fact : library_facts())
    out.push_back({"library", fact.label + " " + fact.text});
  for (const std::string& warning : report.warnings) out.push_back({"warning", warning});
  if (report.warnings.empty()) out.push_back({"warnings", "none"});
  return to_lines(out);
}

ordered_json json_of(const Report& report) {
  ordered_json out;
  out["machine"] = machine_json(report.facts, report.speed, report.n_threads);
  out["build"] = build_json();
  out["store"] = {{"path", report.store.path},
                  {"writable", report.store.writable},
                  {"free_bytes", report.store.free_bytes},
                  {"models", report.store.n_models}};
  out["backends"] = {{"built", {"cpu"}}, {"left_out", kLeftOut}};
  out["libraries"] = ordered_json::object();
  for (const Fact& fact : library_facts()) out["libraries"][fact.label] = fact.text;
  out["warnings"] = report.warnings;
  return out;
}

int doctor(bool json) {
  Report report;
  report.n_threads = default_thread_count();
  report.facts = machine_facts();
  report.speed = measure_machine(report.n_threads);
  report.store = store_facts();
  find_warnings(report);
  const std::string out =
      json
          ? json_of(report).dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
                "\n"
          : text_of(report);
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout))
    fail("standard output: cannot be written");
  return 0;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("doctor", "what this machine has and what the build left out");
  static bool json = false;  // one command line a process
  command->add_flag("--json", json, "one JSON document instead of text");
  command->callback([&action] { action = [] { return doctor(json); }; });
}

}  // namespace ingot
