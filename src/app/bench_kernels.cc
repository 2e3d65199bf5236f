#include "app/bench_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <list>

#include "app/load.h"
#include "base/progress.h"
#include "base/threads.h"
#include "formats/store.h"
#include "model/derive.h"
#include "model/every_source.h"
#include "model/weight_reader.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;
using Parts = std::vector<MatrixSource>;  // stacked

using Clock = std::chrono::steady_clock;

constexpr int kTokens[] = {1, 4, 512};
// What a shared machine can do changes; the peaks are measured again after so long.
constexpr std::chrono::seconds kBetweenPeaks{5};

struct Kind {
  KernelRow row;                      // without a time
  std::vector<const Parts*> weights;  // of this kind
};

// Collects the weights that a token is multiplied with, by type and shape.
class Kinds {
 public:
  Kinds(const Checkpoint& checkpoint, const Recipe& recipe, ActMode act)
      : checkpoint_(checkpoint), stored_(checkpoint), act_(act) {
    EverySource<Kinds> every(*this);
    for (const LayerRecipe& layer : recipe.layers) {
      every.add(layer);
      if (const auto* latent = std::get_if<LatentAttentionRecipe>(&layer.mixer)) {
        for (const MatrixSource& head : latent->key_up) add(single(head));
        for (const MatrixSource& head : latent->value_up) add(single(head));
      }
    }
    add(recipe.head ? recipe.head->parts : single(recipe.embed));
  }
  const std::vector<Kind>& all() const { return kinds_; }

  // What EverySource tells: a vector or a matrix on its own is no such weight.
  void whole(const LinearRecipe& linear) { add(linear.parts); }
  void operator()(const MatrixSource&, Share) {}
  void operator()(const VectorSource&) {}

 private:
  const Parts& single(const MatrixSource& source) {
    return singles_.emplace_back(Parts{source});
  }

  void add(const Parts& parts) {
    KernelRow row;
    row.n_cols = parts.at(0).n_cols;
    std::vector<std::string> types;
    for (const MatrixSource& part : parts) {
      row.n_rows += part.n_rows;
      const auto [type, integer] = type_of(part);
      row.integer = row.integer || integer;
      if (std::find(types.begin(), types.end(), type) == types.end())
        types.push_back(type);
    }
    row.type = fmt::format("{}", fmt::join(types, "+"));
    const auto same = [&](const Kind& kind) {
      return kind.row.type == row.type && kind.row.n_rows == row.n_rows &&
             kind.row.n_cols == row.n_cols;
    };
    auto kind = std::find_if(kinds_.begin(), kinds_.end(), same);
    if (kind == kinds_.end()) kind = kinds_.insert(kinds_.end(), Kind{row, {}});
    ++kind->row.count;
    kind->weights.push_back(&parts);
  }

  // As stored, and whether it meets int8 activations.
  std::pair<std::string, bool> type_of(const MatrixSource& source) const {
    const bool quantised_mode = act_ == ActMode::automatic;
    if (const StoredWeight* weight = stored_.find(source.name))
      return {weight->scheme, quantised_mode};
    const DType type = checkpoint_.require(source.name).view.dtype;
    return {std::string(name(type)), quantised_mode && is_quantised(type)};
  }

  const Checkpoint& checkpoint_;
  StoredQuantization stored_;
  ActMode act_;
  std::list<Parts> singles_;
  std::vector<Kind> kinds_;
};

// The kind's own weights first, then copies.
std::vector<std::unique_ptr<Weight>> pack_cold(WeightReader& reader, const Kind& kind) {
  std::vector<std::unique_ptr<Weight>> out;
  out.push_back(reader.pack(*kind.weights[0]));
  const int wanted = n_cold_weights(out[0]->bytes);
  for (size_t i = 1; int(i) < wanted; ++i)
    out.push_back(reader.pack(*kind.weights[i % kind.weights.size()]));
  return out;
}

}  // namespace

KernelReport time_kernels(const MachineFlags& flags) {
  KernelReport report;
  report.model = flags.model;
  report.n_threads = flags.threads == 0 ? default_thread_count() : flags.threads;
  const std::unique_ptr<Ops> ops = make_ops(flags);
  const Checkpoint checkpoint = open_checkpoint(resolve_model(flags.model));
  const Recipe recipe = derive_recipe(checkpoint);
  const Kinds kinds(checkpoint, recipe, ops->act_mode());
  report.facts = machine_facts();
  report.speed = measure_machine(report.n_threads);
  Clock::time_point measured = Clock::now();
  WeightReader reader(checkpoint, *ops, {});
  Progress bar("timing", kinds.all().size(), ProgressUnit::items);
  for (const Kind& kind : kinds.all()) {
    const std::vector<std::unique_ptr<Weight>> weights = pack_cold(reader, kind);
    for (const int n_tokens : kTokens) {
      KernelRow row = kind.row;
      row.bytes = weights[0]->bytes;
      row.n_tokens = n_tokens;
      row.time = time_matmul(*ops, report.n_threads, weights, n_tokens);
      report.rows.push_back(std::move(row));
    }
    bar.update(report.rows.size() / std::size(kTokens));
    if (Clock::now() - measured < kBetweenPeaks && &kind != &kinds.all().back()) continue;
    report.speed = faster(report.speed, measure_machine(report.n_threads));
    measured = Clock::now();
  }
  return report;
}

ordered_json json_of(const KernelReport& report) {
  ordered_json rows = ordered_json::array();
  for (const KernelRow& row : report.rows) {
    const double peak = row.integer ? report.speed.int8_operations_per_s
                                    : report.speed.f32_operations_per_s;
    rows.push_back({{"type", row.type},
                    {"shape", {row.n_rows, row.n_cols}},
                    {"count", row.count},
                    {"rows", row.n_tokens},
                    {"bytes", row.bytes},
                    {"warm_us", row.time.warm * 1e6},
                    {"cold_us", row.time.cold * 1e6},
                    {"warm_gb_per_s", row.gb_per_s(row.time.warm)},
                    {"cold_gb_per_s", row.gb_per_s(row.time.cold)},
                    {"read_fraction",
                     double(row.bytes) / row.time.cold / report.speed.read_bytes_per_s},
                    {"arithmetic", row.integer ? "int8" : "f32"},
                    {"cold_gop_per_s", row.operations() / row.time.cold / 1e9},
                    {"peak_fraction", row.operations() / row.time.cold / peak}});
  }
  return {{"machine", machine_json(report.facts, report.speed, report.n_threads)},
          {"build", build_json()},
          {"model", report.model},
          {"kernels", std::move(rows)}};
}

std::string table_of(const KernelReport& report) {
  std::string out =
      fmt::format("{:<12}{:>14}{:>6}{:>6}{:>11}{:>8}{:>11}{:>8}{:>10}{:>9}{:>10}\n",
                  "type", "shape", "count", "rows", "warm us", "GB/s", "cold us", "GB/s",
                  "of reads", "Gop/s", "of peak");
  for (const KernelRow& row : report.rows) {
    const double peak = row.integer ? report.speed.int8_operations_per_s
                                    : report.speed.f32_operations_per_s;
    out += fmt::format(
        "{:<12}{:>14}{:>6}{:>6}{:>11.1f}{:>8.2f}{:>11.1f}{:>8.2f}{:>9.1f}%{:>9.1f}"
        "{:>5.1f}% {}\n",
        row.type, fmt::format("{}x{}", row.n_rows, row.n_cols), row.count, row.n_tokens,
        row.time.warm * 1e6, row.gb_per_s(row.time.warm), row.time.cold * 1e6,
        row.gb_per_s(row.time.cold),
        100.0 * double(row.bytes) / row.time.cold / report.speed.read_bytes_per_s,
        row.operations() / row.time.cold / 1e9,
        100.0 * row.operations() / row.time.cold / peak, row.integer ? "int8" : "f32");
  }
  return out + machine_line(report.facts, report.speed, report.n_threads);
}

}  // namespace ingot
