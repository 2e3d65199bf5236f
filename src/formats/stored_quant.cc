#include "formats/stored_quant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "formats/mlx_quant.h"
#include "formats/quote.h"
#include "formats/stored_schemes.h"
#include "formats/strict_json.h"

namespace ingot {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kMaxDepth = 64;

// What the directory says: config.json, its text_config, or quantize_config.json.
QuantConfig directory_config(const Checkpoint& checkpoint) {
  const std::string where = printable(checkpoint.path / "config.json") + ": ";
  if (!checkpoint.config_json.empty()) {
    const json root = parse_strict_json(checkpoint.config_json, where, {kMaxDepth});
    if (root.is_object()) {
      QuantConfig config = read_quant_config(root, where);
      if (config.method == QuantMethod::none && root.contains("text_config") &&
          root["text_config"].is_object())
        config = read_quant_config(root["text_config"], where);
      if (config.method != QuantMethod::none) return config;
    }
  }
  std::error_code error;
  if (!fs::is_directory(checkpoint.path, error)) return {};
  constexpr size_t kMaxBytes = size_t(16) << 20;
  if (const fs::path path = checkpoint.path / "quantize_config.json";
      fs::is_regular_file(path, error)) {
    const std::string text = read_file(path, kMaxBytes);
    return read_quantize_config(parse_strict_json(text, printable(path), {kMaxDepth}),
                                printable(path) + ": ");
  }
  if (const fs::path path = checkpoint.path / "hf_quant_config.json";
      fs::is_regular_file(path, error))
    fail(
        "{}: ModelOpt's quantisation, wanted fp8, gptq, awq, mxfp4, compressed-tensors "
        "or MLX's",
        printable(path));
  return {};
}

bool any_ends_with(const Checkpoint& checkpoint, std::string_view suffix) {
  return std::any_of(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                     [&](const auto& t) { return t.first.ends_with(suffix); });
}

// QC-3: a module that the config lists as not converted has a plain weight.
void check_not_converted(const Checkpoint& checkpoint, const QuantConfig& config,
                         const StoredWeights& weights) {
  for (const auto& [weight, stored] : weights)
    for (const std::string& module : config.not_converted)
      if (("." + weight + ".").find("." + module + ".") != std::string::npos)
        fail("{} is quantised, but {}' lists {} as not converted (QC-3)",
             tensor_place(checkpoint, stored.tensors.front()), config.where,
             in_quotes(module));
}

}  // namespace

// ---- What the schemes share ---------------------------------------------------------

std::string tensor_place(const Checkpoint& checkpoint, const std::string& tensor) {
  const StoredTensor* stored = checkpoint.find(tensor);
  return printable(stored != nullptr && stored->file != nullptr ? stored->file->path()
                                                                : checkpoint.path) +
         ": tensor " + in_quotes(tensor);
}

const TensorView* view_of(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor* stored = checkpoint.find(name);
  return stored == nullptr ? nullptr : &stored->view;
}

const TensorView& require_companion(const Checkpoint& checkpoint, const std::string& name,
                                    const std::string& of) {
  if (const TensorView* view = view_of(checkpoint, name)) return *view;
  fail("{}: {} is missing, wanted beside it (QC-1)", tensor_place(checkpoint, of),
       in_quotes(name));
}

void check_type(const Checkpoint& checkpoint, const std::string& tensor,
                std::initializer_list<DType> wanted) {
  const DType found = checkpoint.require(tensor).view.dtype;
  if (std::find(wanted.begin(), wanted.end(), found) != wanted.end()) return;
  std::string names;
  for (const DType type : wanted)
    names += (names.empty() ? "" : " or ") + std::string(name(type));
  fail("{} is {}, wanted {} (QC-2)", tensor_place(checkpoint, tensor), name(found),
       names);
}

void check_shape(const Checkpoint& checkpoint, const std::string& tensor,
                 const Shape& wanted, std::string_view why) {
  const Shape& found = checkpoint.require(tensor).view.shape;
  if (found != wanted)
    fail("{} is {}, wanted {} {} (QC-2)", tensor_place(checkpoint, tensor),
         to_string(found), to_string(wanted), why);
}

void check_scale(const Checkpoint& checkpoint, const std::string& tensor, size_t i,
                 float value) {
  if (!std::isfinite(value))
    fail("{}: scale {} is not finite (QC-6)", tensor_place(checkpoint, tensor), i);
}

void check_not_empty(const Checkpoint& checkpoint, const std::string& tensor) {
  const TensorView& view = checkpoint.require(tensor).view;
  if (view.bytes.empty())
    fail("{} is {}, wanted no dimension of 0 (QC-2)", tensor_place(checkpoint, tensor),
         to_string(view.shape));
}

int checked_dimension(const Checkpoint& checkpoint, const std::string& tensor,
                      int64_t n) {
  if (n < 1 || n > INT32_MAX)
    fail("{} has a dimension of {}, wanted 1 to 2^31 - 1 (QC-2)",
         tensor_place(checkpoint, tensor), n);
  return int(n);
}

std::optional<std::string> stem_of(const std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix) || name.size() == suffix.size()) return std::nullopt;
  return name.substr(0, name.size() - suffix.size());
}

void add_unused_scales(const Checkpoint& checkpoint, const std::string& module,
                       std::vector<std::string>& tensors) {
  for (const char* suffix : {".input_scale", ".input_global_scale", ".output_scale",
                             ".k_scale", ".v_scale", ".q_scale"})
    if (checkpoint.find(module + suffix) != nullptr) tensors.push_back(module + suffix);
}

StoredMatrix take_rows(const AffineMatrix& all, std::span<const int> rows) {
  StoredMatrix out;
  out.matrix = all;
  out.matrix.n_rows = int(rows.size());
  bool together = true;
  for (size_t i = 1; i < rows.size(); ++i)
    together = together && rows[i] == rows[i - 1] + 1;
  const auto take = [&](std::span<const std::byte>& part, std::vector<std::byte>& owned,
                        size_t row_bytes) {
    if (part.empty() || rows.empty()) return;
    if (together) {
      part = part.subspan(size_t(rows[0]) * row_bytes, rows.size() * row_bytes);
      return;
    }
    owned.resize(rows.size() * row_bytes);
    for (size_t i = 0; i < rows.size(); ++i)
      std::memcpy(owned.data() + i * row_bytes, part.data() + size_t(rows[i]) * row_bytes,
                  row_bytes);
    part = owned;
  };
  const auto groups = size_t(all.groups_per_row());
  const size_t scale_bytes = groups * size_t(info(all.scale_dtype).group_bytes);
  take(out.matrix.codes, out.codes, all.code_bytes_per_row());
  take(out.matrix.scales, out.scales, scale_bytes);
  take(out.matrix.biases, out.biases,
       all.mode == AffineMode::zero_point ? groups : scale_bytes);
  return out;
}

// ---- MLX and gpt-oss: bytes that need no rearranging --------------------------------

void find_mlx(const Checkpoint& checkpoint, StoredWeights& out) {
  const MlxQuantization mlx(checkpoint);
  for (const auto& [weight, all] : mlx.matrices()) {
    const Shape& shape = checkpoint.require(weight).view.shape;
    const int n_rows = checked_dimension(checkpoint, weight, shape[shape.size() - 2]);
    StoredWeight stored;
    stored.scheme = fmt::format("mlx {} {} bits", name(all.mode), all.bits);
    stored.tensors = mlx.tensors_of(weight);
    stored.n_slices = all.n_rows / n_rows;
    stored.n_rows = n_rows;
    stored.n_cols = all.n_cols;
    stored.read = [all = all](std::span<const int> rows) { return take_rows(all, rows); };
    out.emplace(weight, std::move(stored));
  }
}

namespace {

// X_blocks [.., out, in / 32, 16] and X_scales [.., out, in / 32].
StoredWeight mxfp4_weight(const Checkpoint& checkpoint, const std::string& blocks,
                          const std::string& scales) {
  check_type(checkpoint, blocks, {DType::u8});
  check_not_empty(checkpoint, blocks);
  require_companion(checkpoint, scales, blocks);
  check_type(checkpoint, scales, {DType::u8, DType::f8_e8m0});
  const TensorView& codes = checkpoint.require(blocks).view;
  const size_t rank = codes.shape.size();
  if (rank < 3 || codes.shape.back() != 16)
    fail("{} is {}, wanted [.., out, in / 32, 16] (QC-2)",
         tensor_place(checkpoint, blocks), to_string(codes.shape));
  check_shape(checkpoint, scales, Shape(codes.shape.begin(), codes.shape.end() - 1),
              "as the blocks");
  const int64_t n_rows = codes.shape[rank - 3];
  const int64_t all_rows =
      element_count(Shape(codes.shape.begin(), codes.shape.end() - 2));
  StoredWeight out;
  out.scheme = "mxfp4";
  out.tensors = {blocks, scales};
  out.n_rows = checked_dimension(checkpoint, blocks, n_rows);
  out.n_slices = checked_dimension(checkpoint, blocks, all_rows) / out.n_rows;
  out.n_cols = checked_dimension(checkpoint, blocks, codes.shape[rank - 2] * 32);
  const AffineMatrix all{.mode = AffineMode::mxfp4,
                         .bits = 4,
                         .group_size = 32,
                         .n_rows = int(all_rows),
                         .n_cols = out.n_cols,
                         .scale_dtype = DType::u8,
                         .codes = codes.bytes,
                         .scales = checkpoint.require(scales).view.bytes};
  out.read = [&checkpoint, all, scales](std::span<const int> rows) {
    const auto groups = size_t(all.groups_per_row());
    for (const int row : rows)
      for (size_t i = size_t(row) * groups; i < (size_t(row) + 1) * groups; ++i)
        check_scale(checkpoint, scales, i, all.scales[i] == std::byte(255) ? NAN : 1.0f);
    return take_rows(all, rows);
  };
  return out;
}

}  // namespace

void find_mxfp4(const Checkpoint& checkpoint, StoredWeights& out) {
  for (const auto& [tensor, stored] : checkpoint.tensors) {
    if (const auto stem = stem_of(tensor, "_blocks"))
      out.emplace(*stem, mxfp4_weight(checkpoint, tensor, *stem + "_scales"));
    if (const auto stem = stem_of(tensor, "_scales");
        stem && (stored.view.dtype == DType::u8 || stored.view.dtype == DType::f8_e8m0))
      require_companion(checkpoint, *stem + "_blocks", tensor);
  }
}

bool has_weight(const Checkpoint& checkpoint, std::string_view weight) {
  const std::string name(weight);
  if (checkpoint.find(name) != nullptr || checkpoint.find(name + "_blocks") != nullptr)
    return true;
  const auto module = stem_of(name, ".weight");
  return module && (checkpoint.find(*module + ".qweight") != nullptr ||
                    checkpoint.find(*module + ".weight_packed") != nullptr);
}

// ---- The lookup ---------------------------------------------------------------------

StoredQuantization::StoredQuantization(const Checkpoint& checkpoint) {
  if (checkpoint.container != Container::safetensors) return;
  const QuantConfig config = directory_config(checkpoint);
  const bool mlx = config.method == QuantMethod::mlx;
  // GPTQ and AWQ have ".scales" too.
  const bool packed =
      any_ends_with(checkpoint, ".qweight") || any_ends_with(checkpoint, ".qzeros");
  if (mlx || !packed) find_mlx(checkpoint, weights_);
  if (mlx) return;
  find_mxfp4(checkpoint, weights_);
  find_gptq_and_awq(checkpoint, config, weights_);
  find_compressed_tensors(checkpoint, config, weights_);
  find_fp8(checkpoint, config, weights_);
  check_not_converted(checkpoint, config, weights_);
}

const StoredWeight* StoredQuantization::find(std::string_view weight) const {
  const auto it = weights_.find(weight);
  return it == weights_.end() ? nullptr : &it->second;
}

StoredMatrix StoredQuantization::read(std::string_view weight, int slice,
                                      std::span<const int> rows) const {
  const StoredWeight* stored = find(weight);
  CHECK(stored != nullptr && slice >= -1 && slice < stored->n_slices);
  const int first = slice < 0 ? 0 : slice * stored->n_rows;
  const int count = slice < 0 ? stored->n_slices * stored->n_rows : stored->n_rows;
  std::vector<int> chosen(rows.begin(), rows.end());
  if (rows.empty()) {
    chosen.resize(size_t(count));
    std::iota(chosen.begin(), chosen.end(), 0);
  }
  for (int& row : chosen) {
    CHECK(row >= 0 && row < count);
    row += first;
  }
  return stored->read(chosen);
}

std::vector<std::string> StoredQuantization::tensors_of(std::string_view weight) const {
  const StoredWeight* stored = find(weight);
  return stored == nullptr ? std::vector<std::string>{} : stored->tensors;
}

}  // namespace ingot
