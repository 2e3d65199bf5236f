// FP8 weights: E4M3 codes under scales per tensor, per output channel or per rectangle
// (formats.md 6.1), and compressed-tensors' float-quantized (5.4).
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/quote.h"
#include "formats/stored_schemes.h"
#include "tensor/dequantize.h"
#include "tensor/finite.h"

namespace ingot {
namespace {

// How a scale tensor lies over the weights: one value a `rows` x `cols` rectangle of each
// slice, `per_row` of them side by side.
struct ScaleGrid {
  int64_t rows = 0, cols = 0;
  int64_t per_slice = 0;  // values of a slice; 0: all slices share the one value
  int64_t per_row = 0;
};

int64_t rounded_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Shape with leading dimensions of 1 and trailing ones removed, to compare scalars.
bool is_one_value(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n == 1; });
}

struct Fp8Weight {
  std::string weight, scale;
  Shape lead;  // dimensions of the stack
  int64_t n_slices = 1, n_rows = 0, n_cols = 0;
};

Shape with(Shape shape, std::initializer_list<int64_t> more) {
  shape.insert(shape.end(), more);
  return shape;
}

// Rectangles as the config states them; nothing when it states none.
std::optional<ScaleGrid> stated_grid(const QuantConfig& config, const Fp8Weight& w) {
  int64_t rows = config.block_rows, cols = config.block_cols;
  for (const CompressedScheme& s : config.schemes) {
    if (s.format == "pack-quantized" || s.format == "int-quantized") continue;
    if (s.block_rows != 0) rows = s.block_rows, cols = s.block_cols;
    if (s.group_size.value_or(-1) > 0) rows = 1, cols = *s.group_size;
  }
  if (rows == 0) return std::nullopt;
  ScaleGrid grid{rows, cols, 0, rounded_up(w.n_cols, cols)};
  grid.per_slice = rounded_up(w.n_rows, rows) * grid.per_row;
  return grid;
}

// The grid that the scale's shape tells.
ScaleGrid grid_of(const Checkpoint& checkpoint, const QuantConfig& config,
                  const Fp8Weight& w) {
  const Shape& shape = checkpoint.require(w.scale).view.shape;
  const std::optional<ScaleGrid> stated = stated_grid(config, w);
  const Shape wanted =
      stated ? with(w.lead, {rounded_up(w.n_rows, stated->rows), stated->per_row})
             : Shape();
  if (stated && shape == wanted) return *stated;
  const ScaleGrid one_each{w.n_rows, w.n_cols, 1, 1};
  const ScaleGrid one_a_row{1, w.n_cols, w.n_rows, 1};
  // A config's rectangles hold for tensors named so; others go by their shape.
  if (!stated || !w.scale.ends_with("scale_inv")) {
    if (is_one_value(shape)) return {w.n_rows, w.n_cols, 0, 1};
    if (shape == with(w.lead, {w.n_rows}) || shape == with(w.lead, {w.n_rows, 1}))
      return one_a_row;
    if (!w.lead.empty() &&
        (shape == w.lead || shape == with(w.lead, {1}) || shape == with(w.lead, {1, 1})))
      return one_each;
  }
  const std::string or_grid = stated ? to_string(wanted) + ", " : "";
  fail("{} is {}, wanted {}one value or {} for the weight's {} (QC-2)",
       tensor_place(checkpoint, w.scale), to_string(shape), or_grid,
       to_string(with(w.lead, {w.n_rows, 1})),
       to_string(checkpoint.require(w.weight).view.shape));
}

float scale_at(const TensorView& scales, size_t i) {
  const auto width = size_t(info(scales.dtype).group_bytes);
  float value = 0.0f;
  dequantize_row(scales.dtype, scales.bytes.data() + i * width, {&value, 1});
  return value;
}

void check_codes(const Checkpoint& checkpoint, const Fp8Weight& w, int row,
                 std::span<const std::byte> codes) {
  if (const auto bad = first_non_finite(DType::f8_e4m3, codes))
    fail("{}: value {} of row {} is NaN, wanted finite codes (QC-6)",
         tensor_place(checkpoint, w.weight), *bad, row);
}

StoredMatrix read_rows(const Checkpoint& checkpoint, const Fp8Weight& w,
                       const ScaleGrid& grid, std::span<const int> rows) {
  const TensorView& scales = checkpoint.require(w.scale).view;
  const AffineMatrix all{.mode = AffineMode::e4m3,
                         .bits = 8,
                         .group_size = int(std::min(grid.cols, w.n_cols)),
                         .n_rows = int(w.n_slices * w.n_rows),
                         .n_cols = int(w.n_cols),
                         .scale_dtype = DType::f32,
                         .codes = checkpoint.require(w.weight).view.bytes};
  StoredMatrix out = take_rows(all, rows);
  const auto n_groups = size_t(out.matrix.groups_per_row());
  const auto n_cols = size_t(w.n_cols);
  out.scales.resize(rows.size() * n_groups * sizeof(float));
  for (size_t r = 0; r < rows.size(); ++r) {
    check_codes(checkpoint, w, rows[r], out.matrix.codes.subspan(r * n_cols, n_cols));
    const int64_t slice = rows[r] / w.n_rows, row = rows[r] % w.n_rows;
    const auto first = size_t(slice * grid.per_slice + row / grid.rows * grid.per_row);
    for (size_t g = 0; g < n_groups; ++g) {
      const float value = scale_at(scales, first + g);
      check_scale(checkpoint, w.scale, first + g, value);
      std::memcpy(out.scales.data() + (r * n_groups + g) * sizeof value, &value,
                  sizeof value);
    }
  }
  out.matrix.scales = out.scales;
  return out;
}

// The one scale tensor beside a weight.
std::string scale_beside(const Checkpoint& checkpoint, const std::string& weight) {
  const std::string stem = stem_of(weight, ".weight").value_or(weight);
  std::vector<std::string> names = {stem + ".weight_scale_inv", stem + ".weight_scale",
                                    stem + ".scale_inv", stem + ".scale"};
  if (stem == weight) {
    names.push_back(weight + "_scale_inv");
    names.push_back(weight + "_scale");
  }
  std::string found;
  for (const std::string& name : names) {
    if (checkpoint.find(name) == nullptr) continue;
    if (!found.empty())
      fail("{}: both {} and {} are there, wanted one scale (QC-1)",
           tensor_place(checkpoint, weight), in_quotes(found), in_quotes(name));
    found = name;
  }
  if (found.empty())
    fail(
        "{} is f8_e4m3, but has no {} (or weight_scale, scale_inv, scale), wanted its "
        "scale (QC-1)",
        tensor_place(checkpoint, weight), in_quotes(stem + ".weight_scale_inv"));
  return found;
}

StoredWeight fp8_weight(const Checkpoint& checkpoint, const QuantConfig& config,
                        const std::string& weight) {
  Fp8Weight w;
  w.weight = weight;
  w.scale = scale_beside(checkpoint, weight);
  check_type(checkpoint, w.scale, {DType::f32, DType::bf16, DType::f16, DType::f8_e8m0});
  check_not_empty(checkpoint, weight);
  const Shape& shape = checkpoint.require(weight).view.shape;
  w.lead = Shape(shape.begin(), shape.end() - 2);
  w.n_slices = element_count(w.lead);
  w.n_rows = checked_dimension(checkpoint, weight, shape[shape.size() - 2]);
  w.n_cols = checked_dimension(checkpoint, weight, shape.back());
  checked_dimension(checkpoint, weight, w.n_slices * w.n_rows);
  const ScaleGrid grid = grid_of(checkpoint, config, w);
  StoredWeight out;
  out.scheme = fmt::format("fp8 [{}, {}]", grid.rows, grid.cols);
  out.tensors = {w.weight, w.scale};
  add_unused_scales(checkpoint, stem_of(weight, ".weight").value_or(weight), out.tensors);
  out.n_slices = int(w.n_slices);
  out.n_rows = int(w.n_rows);
  out.n_cols = int(w.n_cols);
  out.read = [&checkpoint, w, grid](std::span<const int> rows) {
    return read_rows(checkpoint, w, grid, rows);
  };
  return out;
}

}  // namespace

void find_fp8(const Checkpoint& checkpoint, const QuantConfig& config,
              StoredWeights& out) {
  for (const auto& [tensor, stored] : checkpoint.tensors) {
    const DType type = stored.view.dtype;
    const bool is_weight = tensor.ends_with(".weight");
    if (type == DType::f8_e4m3 && stored.view.shape.size() >= 2) {
      // Not the E4M3 scales of other formats, which no weight has asked for.
      if (!is_weight && tensor.find("scale") != std::string::npos) continue;
      out.emplace(tensor, fp8_weight(checkpoint, config, tensor));
    } else if (is_weight && (type == DType::f8_e5m2 || type == DType::f8_e4m3fnuz ||
                             type == DType::f8_e5m2fnuz)) {
      fail("{} is {}, wanted f8_e4m3 (QC-2)", tensor_place(checkpoint, tensor),
           name(type));
    }
    if (const auto stem = stem_of(tensor, ".weight_scale_inv"))
      require_companion(checkpoint, *stem + ".weight", tensor);
  }
}

}  // namespace ingot
