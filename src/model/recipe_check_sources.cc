// Sources, linear maps and norms: sizes, and rows that lie within what is stored.
#include <algorithm>

#include "model/recipe_check_parts.h"

namespace ingot {

constexpr int kMaxWidth = 1 << 24;
constexpr size_t kMaxParts = 1 << 16;
constexpr size_t kMaxAxes = 8;

void Checker::equal(const std::string& path, int64_t found, int64_t wanted,
                    const std::string& what) const {
  if (found == wanted) return;
  refuse(path, found,
         what.empty() ? std::to_string(wanted) : fmt::format("{} {}", wanted, what));
}

int Checker::width(const std::string& path, int64_t value) const {
  if (value > kMaxWidth)
    refuse(path, fmt::format("of a width of {}", value),
           fmt::format("at most {}", kMaxWidth));
  return int(value);
}

void Checker::rope(const std::string& path, int rope, int dims) const {
  const int n = int(recipe.ropes.size());
  if (rope < -1 || rope >= n)
    refuse(path, rope,
           n == 0 ? "-1, as there are no ropes" : fmt::format("-1 to {}", n - 1));
  if (rope >= 0 && recipe.ropes[size_t(rope)].rotary_dims > dims)
    refuse(path, rope,
           fmt::format("one that turns at most {} dimensions, not {}", dims,
                       recipe.ropes[size_t(rope)].rotary_dims));
}

void Checker::order(const std::string& path, const RowOrder& order, int n_rows,
                    int stored_rows) const {
  if (order.axes.size() > kMaxAxes)
    refuse(path + ".order.axes", fmt::format("a list of {}", order.axes.size()),
           fmt::format("at most {}", kMaxAxes));
  int64_t rows = 1;
  int64_t last = order.first;
  for (const RowAxis& axis : order.axes) {
    rows = std::min(rows * axis.count, int64_t{1} << 31);  // no overflow
    last += int64_t(axis.count - 1) * axis.stride;
  }
  if (order.axes.empty())
    last += n_rows - 1;
  else
    equal(path + ".order.axes", rows, n_rows, "rows in all");
  if (last >= stored_rows)
    refuse(path + ".order", fmt::format("of rows up to {}", last),
           fmt::format("less than the {} that are stored", stored_rows));
}

void Checker::slice(const std::string& path, int slice, int n_slices) const {
  if (slice < 0 && n_slices != 0)
    refuse(path + ".n_slices", n_slices, "0, as there is no slice");
  if (slice >= 0 && slice >= n_slices)
    refuse(path + ".slice", slice, fmt::format("less than n_slices, {}", n_slices));
}

void Checker::matrix(const std::string& path, const MatrixSource& m, int n_rows,
                     int n_cols) const {
  if (m.name.empty()) refuse(path + ".name", "''", "the name of a tensor");
  equal(path + ".n_rows", m.n_rows, n_rows);
  equal(path + ".n_cols", m.n_cols, n_cols);
  order(path, m.order, m.n_rows, m.stored_rows == 0 ? m.n_rows : m.stored_rows);
  slice(path, m.slice, m.n_slices);
  if (!m.transposed && (m.first_col != 0 || m.stored_cols != 0))
    refuse(path + (m.first_col != 0 ? ".first_col" : ".stored_cols"),
           m.first_col != 0 ? m.first_col : m.stored_cols,
           "0 where the matrix is not transposed");
  const int stored_cols = m.stored_cols == 0 ? m.n_cols : m.stored_cols;
  if (int64_t{m.first_col} + m.n_cols > stored_cols)
    refuse(path + ".first_col", m.first_col,
           fmt::format("{} columns from there within the {} that are stored", m.n_cols,
                       stored_cols));
}

void Checker::vector(const std::string& path, const VectorSource& v, int n) const {
  if (v.name.empty()) refuse(path + ".name", "''", "the name of a tensor");
  equal(path + ".n", v.n, n);
  order(path, v.order, v.n, v.stored_n == 0 ? v.n : v.stored_n);
  slice(path, v.slice, v.n_slices);
}

void Checker::linear(const std::string& path, const LinearRecipe& linear, int n_rows,
                     int n_cols) const {
  if (linear.parts.empty()) missing(path + ".parts");
  int64_t rows = 0;
  if (linear.parts.size() > kMaxParts)
    refuse(path + ".parts", fmt::format("a list of {}", linear.parts.size()),
           fmt::format("at most {}", kMaxParts));
  for (size_t i = 0; i < linear.parts.size(); ++i) {
    const MatrixSource& part = linear.parts[i];
    matrix(fmt::format("{}.parts[{}]", path, i), part, part.n_rows, n_cols);
    rows += part.n_rows;
  }
  if (linear.parts.size() == 1)
    equal(path + ".parts[0].n_rows", rows, n_rows);
  else
    equal(path + ".parts", rows, n_rows, "rows together");
  if (linear.bias.empty()) return;
  equal(path + ".bias", int64_t(linear.bias.size()), int64_t(linear.parts.size()),
        "entries, one a part, or none");
  for (size_t i = 0; i < linear.bias.size(); ++i)
    vector(fmt::format("{}.bias[{}]", path, i), linear.bias[i], linear.parts[i].n_rows);
}

void Checker::norm(const std::string& path, const NormRecipe& norm, int width) const {
  vector(path + ".weight", norm.weight, width);
  if (norm.kind == NormKind::rms && norm.bias)
    refuse(path + ".bias", "there", "it absent in an rms norm");
  if (norm.kind == NormKind::layer && !norm.bias) missing(path + ".bias");
  if (norm.bias) vector(path + ".bias", *norm.bias, width);
}

void Checker::norm(const std::string& path, const std::optional<NormRecipe>& norm,
                   int width) const {
  if (norm) this->norm(path, *norm, width);
}

void Checker::rms_norm(const std::string& path, const NormRecipe& norm, int width) const {
  if (norm.kind != NormKind::rms) refuse(path + ".kind", "layer", "rms");
  this->norm(path, norm, width);
}

}  // namespace ingot
