#include "app/bench_report.h"

#include <fmt/format.h>

#include "model/cost.h"
#include "model/state.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

// Whether most of the layers' bytes meet int8 activations.
bool integer_arithmetic(const LoadedModel& model) {
  if (model.ops->act_mode() == ActMode::f32) return false;
  const std::vector<DTypeTotal> totals = totals_by_dtype(model.checkpoint);
  return !totals.empty() &&
         (is_quantised(totals[0].dtype) || totals[0].dtype == DType::u32);
}

ordered_json json_of(const std::vector<BenchRow>& rows) {
  ordered_json out = ordered_json::array();
  for (const BenchRow& row : rows) {
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

std::string why_left_out(const BenchReport& report) {
  return fmt::format("left out: the context is {} tokens", report.longest);
}

ordered_json first_token_json(const BenchReport& report) {
  ordered_json out = ordered_json::array();
  for (const FirstTokenTiming& timing : report.first_token)
    out.push_back({{"test", name(timing)},
                   {"prompt_tokens", timing.n_tokens},
                   {"ms", timing.seconds * 1e3},
                   {"spread_ms", timing.spread * 1e3}});
  for (const int n : report.left_out)
    out.push_back({{"test", name(FirstTokenTiming{n})},
                   {"prompt_tokens", n},
                   {"ms", nullptr},
                   {"note", why_left_out(report)}});
  return out;
}

std::string rows_table(const std::vector<BenchRow>& rows) {
  if (rows.empty()) return {};
  std::string out =
      fmt::format("{:<16}{:>10}{:>9}{:>11}{:>11}{:>8}{:>9}\n", "test", "tokens/s",
                  "spread", "ms", "MB/token", "GB/s", "of peak");
  for (const BenchRow& row : rows)
    out += fmt::format("{:<16}{:>10.2f}{:>9.2f}{:>11.1f}{:>11.2f}{:>8.2f}{:>8.1f}%\n",
                       row.test, row.tokens_per_s, row.spread, row.seconds * 1e3,
                       row.bytes_per_token / 1e6, row.gb_per_s, 100 * row.fraction);
  return out;
}

std::string first_token_table(const BenchReport& report) {
  std::string out;
  for (const FirstTokenTiming& timing : report.first_token)
    out += fmt::format("{:<16}{:>10.2f} ms to the first token, spread {:.2f} ms\n",
                       name(timing), timing.seconds * 1e3, timing.spread * 1e3);
  for (const int n : report.left_out)
    out += fmt::format("{:<16}{}\n", name(FirstTokenTiming{n}), why_left_out(report));
  return out;
}

std::string memory_line(const MemoryUse& memory) {
  return fmt::format(
      "peak memory {:.1f} MB: {:+.1f}% above file {:.1f} MB and state {:.1f} MB\n",
      double(memory.peak_bytes) / 1e6, 100 * memory.above(),
      double(memory.file_bytes) / 1e6, double(memory.state_bytes) / 1e6);
}

}  // namespace

BenchRow bench_row(const BenchTiming& timing, const LoadedModel& model,
                   const MachineSpeed& speed) {
  BenchRow row;
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

MemoryUse memory_use(const LoadedModel& model, KvType type, int deepest) {
  MemoryUse out;
  for (const auto& file : model.checkpoint.files) out.file_bytes += file->bytes().size();
  const Recipe& recipe = model.model->recipe;
  const int n_pages = (deepest + kPageTokens - 1) / kPageTokens;
  out.state_bytes =
      state_page_bytes(recipe, type) * uint64_t(n_pages) + state_slot_bytes(recipe);
  out.peak_bytes = peak_resident_bytes();
  return out;
}

ordered_json json_of(const BenchReport& report) {
  ordered_json out = {
      {"machine", machine_json(report.facts, report.speed, report.n_threads)},
      {"build", build_json()},
      {"model", report.model},
      {"rows", json_of(report.rows)}};
  if (!report.verify.empty()) out["verify"] = json_of(report.verify);
  if (!report.first_token.empty() || !report.left_out.empty())
    out["ttft"] = first_token_json(report);
  const MemoryUse& memory = report.memory;
  out["memory"] = {{"peak_bytes", memory.peak_bytes},
                   {"file_bytes", memory.file_bytes},
                   {"state_bytes", memory.state_bytes},
                   {"above_percent", 100 * memory.above()}};
  return out;
}

std::string table_of(const BenchReport& report) {
  std::string out = rows_table(report.rows);
  for (const VerifyTiming& pass : report.verify)
    out +=
        fmt::format("verify {:>3} row{} {:>9.2f} ms  {:.2f} times one row\n", pass.n_rows,
                    pass.n_rows == 1 ? " " : "s", pass.seconds * 1e3, pass.relative);
  return out + first_token_table(report) + memory_line(report.memory) +
         machine_line(report.facts, report.speed, report.n_threads);
}

}  // namespace ingot
