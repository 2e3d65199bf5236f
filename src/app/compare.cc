#include "app/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

std::string label(int layer) {
  switch (layer) {
    case kLogits:
      return "logits";
    case kMtpLogits:
      return "MTP logits";
    case kDraftLogits:
      return "draft logits";
    case 0:
      return "embedding";
    default:
      return fmt::format("hidden {}", layer);
  }
}

}  // namespace

Reference::Reference(const std::string& file)
    : file_(file), mapped_(file), parsed_(parse_safetensors(mapped_.bytes(), file)) {}

std::vector<std::vector<int>> Reference::prompts() const {
  std::vector<std::vector<int>> out;
  for (int i = 0;; ++i) {
    const std::string wanted = fmt::format("p{}.ids", i);
    const SafetensorsEntry* found = nullptr;
    for (const SafetensorsEntry& entry : parsed_.entries)
      if (entry.name == wanted) found = &entry;
    if (!found) break;
    if (found->view.dtype != DType::i32)
      fail("{}: tensor '{}' is {}, wanted i32", file_, wanted, name(found->view.dtype));
    std::vector<int> ids(found->view.bytes.size() / sizeof(int32_t));
    std::memcpy(ids.data(), found->view.bytes.data(), found->view.bytes.size());
    out.push_back(std::move(ids));
  }
  if (out.empty())
    fail("{}: holds no prompts (p0.ids), wanted them or the flag --tokens", file_);
  return out;
}

std::optional<Reference::Values> Reference::find(int prompt, int layer) const {
  const std::string ours = layer == kLogits      ? fmt::format("logits.{}", prompt)
                           : layer == kMtpLogits ? fmt::format("mtp.logits.{}", prompt)
                           : layer == kDraftLogits
                               ? fmt::format("mtp.draft_logits.{}", prompt)
                               : fmt::format("hidden.{}.{}", prompt, layer);
  const std::string golden = layer == kLogits      ? fmt::format("p{}.logits", prompt)
                             : layer == kMtpLogits ? fmt::format("p{}.mtp.logits", prompt)
                             : layer == kDraftLogits
                                 ? fmt::format("p{}.mtp.draft_logits", prompt)
                                 : fmt::format("p{}.hidden{}", prompt, layer);
  for (const SafetensorsEntry& entry : parsed_.entries) {
    if (entry.name != ours && entry.name != golden) continue;
    Values out;
    out.width = entry.view.cols();
    out.values.resize(size_t(element_count(entry.view.shape)));
    if (entry.view.dtype != DType::f32 && entry.view.dtype != DType::f16 &&
        entry.view.dtype != DType::bf16)
      fail("{}: tensor '{}' is {}, wanted f32, f16 or bf16", file_, entry.name,
           name(entry.view.dtype));
    dequantize_row(entry.view.dtype, entry.view.bytes.data(), out.values);
    return out;
  }
  return std::nullopt;
}

void Comparison::add(const Reference& reference, int prompt, int layer,
                     std::span<const float> ours, int width) {
  const std::optional<Reference::Values> theirs = reference.find(prompt, layer);
  if (!theirs) return;
  if (theirs->width != width || theirs->values.size() > ours.size())
    fail(
        "reference of prompt {}, {}: is {} values in rows of {}, wanted at most {} in "
        "rows of {}",
        prompt, label(layer), theirs->values.size(), theirs->width, ours.size(), width);
  const std::span<const float> tail = ours.subspan(ours.size() - theirs->values.size());
  const int first = int((ours.size() - tail.size()) / size_t(width));
  Row row{prompt, layer, first, 0.0, int64_t(tail.size())};
  for (size_t i = 0; i < tail.size(); ++i) {
    const double error = std::abs(double(tail[i]) - double(theirs->values[i]));
    if (error > row.error || std::isnan(error)) {
      row.error = std::isnan(error) ? INFINITY : error;
      row.position = first + int(i / size_t(width));
    }
  }
  rows_.push_back(row);
}

int Comparison::report(double tolerance) const {
  if (rows_.empty())
    fail("the reference holds nothing to compare, wanted logits or hidden");
  std::map<int, Row> worst;  // by layer, logits last, then drafts
  for (const Row& row : rows_) {
    const int key = row.layer < 0 ? (1 << 20) - row.layer : row.layer;
    const auto [it, fresh] = worst.emplace(key, row);
    if (!fresh && row.error > it->second.error) it->second = row;
  }
  const Row* first_bad = nullptr;
  for (const auto& [key, row] : worst) {
    const bool bad = !(row.error <= tolerance);
    if (bad && !first_bad) first_bad = &row;
    fmt::print("{:<12} largest error {:.3e}{}\n", label(row.layer), row.error,
               bad ? "  PAST TOLERANCE" : "");
  }
  if (!first_bad) {
    fmt::print("all within {:g}\n", tolerance);
    return 0;
  }
  fmt::print("first past {:g}: {}, prompt {}, position {}, error {:.3e}\n", tolerance,
             label(first_bad->layer), first_bad->prompt, first_bad->position,
             first_bad->error);
  return 1;
}

}  // namespace ingot
