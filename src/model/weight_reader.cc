#include "model/weight_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "formats/check_values.h"
#include "tensor/dequantize.h"

namespace ingot {

int RowOrder::stored(int row) const {
  if (axes.empty()) return first + row;
  int at = first;
  for (size_t i = axes.size(); i-- > 0;) {
    at += row % axes[i].count * axes[i].stride;
    row /= axes[i].count;
  }
  return at;
}

RowOrder RowOrder::alternating_halves(int n_heads, int head_dim) {
  return {0, {{n_heads, head_dim}, {2, 1}, {head_dim / 2, 2}}};
}

namespace {

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// Dimensions of one say nothing: [C, 1, K] is [C, K], [1, H] is [H].
Shape without_ones(const Shape& shape) {
  Shape out;
  for (const auto n : shape)
    if (n != 1) out.push_back(n);
  return out;
}

Shape stored_shape(const MatrixSource& m) {
  const int rows = m.stored_rows == 0 ? m.n_rows : m.stored_rows;
  const int cols = m.stored_cols == 0 ? m.n_cols : m.stored_cols;
  return m.transposed ? Shape{cols, rows} : Shape{rows, cols};
}

std::string file_of(const StoredTensor& stored) {
  return stored.file ? printable(stored.file->path()) : "checkpoint";
}

}  // namespace

struct WeightReader::Stored {
  const StoredTensor* tensor = nullptr;
  std::span<const std::byte> bytes = {};  // of the slice
  DType dtype() const { return tensor->view.dtype; }
};

struct WeightReader::Owned {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<StoredMatrix> matrices;
};

WeightReader::WeightReader(const Checkpoint& checkpoint, Ops& ops,
                           std::function<void(uint64_t, uint64_t)> progress)
    : checkpoint_(checkpoint),
      ops_(ops),
      progress_(std::move(progress)),
      quantised_(checkpoint) {
  for (const auto& [name, tensor] : checkpoint.tensors)
    total_ += tensor.view.bytes.size();
}

WeightReader::Stored WeightReader::find(const std::string& name, int slice, int n_slices,
                                        const Shape& wanted) {
  const StoredTensor& stored = checkpoint_.require(name);
  Shape whole = wanted;
  if (slice >= 0) whole.insert(whole.begin(), n_slices);
  if (without_ones(stored.view.shape) != without_ones(whole))
    fail("{}: tensor '{}' is {}, recipe wants {}", file_of(stored), name,
         to_string(stored.view.shape), to_string(whole));
  check_once(name, stored);
  const std::span<const std::byte> bytes = stored.view.bytes;
  if (slice < 0) return {&stored, bytes};
  const size_t size = bytes.size() / size_t(n_slices);
  return {&stored, bytes.subspan(size_t(slice) * size, size)};
}

// A tensor that many experts are read from is checked once.
void WeightReader::check_once(const std::string& name, const StoredTensor& stored) {
  if (read_.insert(name).second) check_values(name, stored);
}

void WeightReader::done(const Stored& stored) {
  done_ = std::min(total_, done_ + stored.bytes.size());
  if (const MappedFile* file = stored.tensor->file)
    file->drop(size_t(stored.bytes.data() - file->bytes().data()), stored.bytes.size());
  if (progress_) progress_(done_, total_);
}

// A quantised weight's tensors are many and stacked: told when they are first read.
void WeightReader::done(const MatrixSource& source) {
  if (!quantised_.find(source.name))
    return done(find(source.name, source.slice, source.n_slices, stored_shape(source)));
  for (const std::string& name : quantised_.tensors_of(source.name)) {
    const StoredTensor& stored = checkpoint_.require(name);
    if (!read_.insert(name).second) continue;
    done_ = std::min(total_, done_ + stored.view.bytes.size());
  }
  if (progress_) progress_(done_, total_);
}

std::unique_ptr<Weight> WeightReader::pack(const std::vector<MatrixSource>& sources) {
  throw_if_interrupted();
  std::vector<WeightRows> parts;
  Owned owned;
  owned.bytes.reserve(sources.size());
  owned.matrices.reserve(sources.size());
  for (const MatrixSource& source : sources) parts.push_back(rows_of(source, owned));
  std::unique_ptr<Weight> weight = ops_.pack(parts);
  weight_bytes_ += weight->bytes;
  for (const MatrixSource& source : sources) done(source);
  return weight;
}

WeightRows WeightReader::quantised_rows(const MatrixSource& source,
                                        const StoredWeight& weight, Owned& owned) {
  const Shape wanted = stored_shape(source);
  const int n_slices = source.slice < 0 ? 1 : source.n_slices;
  if (Shape{weight.n_rows, weight.n_cols} != wanted || weight.n_slices != n_slices)
    fail("{}: tensor '{}' is [{}, {}, {}] unpacked, recipe wants [{}, {}, {}]",
         file_of(checkpoint_.require(weight.tensors.front())), source.name,
         weight.n_slices, weight.n_rows, weight.n_cols, n_slices, wanted[0], wanted[1]);
  const int n_stored = source.transposed ? source.n_cols : source.n_rows;
  std::vector<int> numbers(static_cast<size_t>(n_stored));
  for (int i = 0; i < n_stored; ++i)
    numbers[size_t(i)] =
        source.transposed ? source.first_col + i : source.order.stored(i);
  StoredMatrix& stored = owned.matrices.emplace_back(
      quantised_.read(source.name, n_slices == 1 ? -1 : source.slice, numbers));
  WeightRows rows;
  rows.n_rows = source.n_rows;
  rows.n_cols = source.n_cols;
  if (!source.transposed) {
    rows.affine = stored.matrix;
    return rows;
  }
  // Columns become rows: as float32, since scales run along the stored rows.
  const auto n_rows = size_t(source.n_rows);
  const auto n_cols = size_t(source.n_cols);
  const size_t row_size = n_cols * sizeof(float);
  std::vector<std::byte>& out = owned.bytes.emplace_back(n_rows * row_size);
  std::vector<float> unpacked(static_cast<size_t>(wanted[1]));
  for (size_t c = 0; c < n_cols; ++c) {
    dequantize_affine_row(stored.matrix, int(c), unpacked);
    for (size_t r = 0; r < n_rows; ++r)
      std::memcpy(&out[r * row_size + c * sizeof(float)],
                  &unpacked[size_t(source.order.stored(int(r)))], sizeof(float));
  }
  rows.row = [data = out.data(), row_size](int row) {
    return data + size_t(row) * row_size;
  };
  return rows;
}

namespace {

// Now and then gives back the pages of the rows before `at`, the place of row `row`, so
// that a large matrix is not in memory twice.  Another thread that still reads them gets
// them again.
void drop_before(const MappedFile& file, const std::byte* at, int row, size_t bytes) {
  constexpr size_t kBytes = size_t(2) << 20;
  const size_t every = kBytes / bytes + 1;
  const auto offset = size_t(at - file.bytes().data());
  if (row > 0 && size_t(row) % every == 0 && offset >= every * bytes)
    file.drop(offset - every * bytes, every * bytes);
}

}  // namespace

WeightRows WeightReader::rows_of(const MatrixSource& source, Owned& owned) {
  if (const StoredWeight* weight = quantised_.find(source.name))
    return quantised_rows(source, *weight, owned);
  WeightRows rows;
  rows.n_rows = source.n_rows;
  rows.n_cols = source.n_cols;
  const Stored stored =
      find(source.name, source.slice, source.n_slices, stored_shape(source));
  rows.dtype = stored.dtype();
  if (!is_float(rows.dtype) && !is_quantised(rows.dtype))
    fail("{}: tensor '{}' is {}, wanted f32, f16, bf16 or a quantised ggml type",
         file_of(*stored.tensor), source.name, name(rows.dtype));
  if (source.transposed) {
    const std::byte* data = transpose(stored, source, owned);
    if (!is_float(rows.dtype)) rows.dtype = DType::f32;
    const size_t bytes = *row_bytes(rows.dtype, uint64_t(source.n_cols));
    rows.row = [data, bytes](int row) { return data + size_t(row) * bytes; };
    return rows;
  }
  CHECK(source.first_col == 0 && source.stored_cols == 0);
  const std::optional<size_t> bytes = row_bytes(rows.dtype, uint64_t(source.n_cols));
  if (!bytes)
    fail("{}: tensor '{}' has rows of {} values, wanted a multiple of {} for {}",
         file_of(*stored.tensor), source.name, source.n_cols,
         info(rows.dtype).group_elements, name(rows.dtype));
  // The source lives in the recipe, which outlives the packing.
  rows.row = [data = stored.bytes.data(), order = &source.order, bytes = *bytes,
              file = stored.tensor->file](int row) {
    const std::byte* at = data + size_t(order->stored(row)) * bytes;
    if (file != nullptr) drop_before(*file, at, row, bytes);
    return at;
  };
  return rows;
}

// Rows of the matrix whose columns are stored as rows; a quantised one as float32.
const std::byte* WeightReader::transpose(const Stored& stored, const MatrixSource& source,
                                         Owned& owned) {
  const Shape shape = stored_shape(source);
  const auto in_width = size_t(shape[1]);
  const bool plain = is_float(stored.dtype());
  const size_t width = plain ? size_t(info(stored.dtype()).group_bytes) : sizeof(float);
  const std::optional<size_t> in_bytes = row_bytes(stored.dtype(), in_width);
  CHECK(in_bytes.has_value());  // the container was checked for it
  const auto n_rows = size_t(source.n_rows);
  const auto n_cols = size_t(source.n_cols);
  std::vector<std::byte>& out = owned.bytes.emplace_back(n_rows * n_cols * width);
  std::vector<float> unpacked(plain ? 0 : in_width);
  for (size_t c = 0; c < n_cols; ++c) {
    const std::byte* in =
        stored.bytes.data() + (size_t(source.first_col) + c) * *in_bytes;
    if (!plain) {
      dequantize_row(stored.dtype(), in, unpacked);
      in = reinterpret_cast<const std::byte*>(unpacked.data());
    }
    for (size_t r = 0; r < n_rows; ++r)
      std::memcpy(&out[(r * n_cols + c) * width],
                  in + size_t(source.order.stored(int(r))) * width, width);
  }
  return out.data();
}

std::vector<float> WeightReader::matrix_values(const MatrixSource& source) {
  CHECK(!source.transposed);
  const Stored stored =
      find(source.name, source.slice, source.n_slices, stored_shape(source));
  if (!is_float(stored.dtype()))
    fail("{}: tensor '{}' is {}, wanted f32, f16 or bf16", file_of(*stored.tensor),
         source.name, name(stored.dtype()));
  const auto width = size_t(source.n_cols);
  const size_t bytes = *row_bytes(stored.dtype(), width);
  std::vector<float> out(size_t(source.n_rows) * width);
  for (int r = 0; r < source.n_rows; ++r)
    dequantize_row(stored.dtype(),
                   stored.bytes.data() + size_t(source.order.stored(r)) * bytes,
                   std::span(out).subspan(size_t(r) * width, width));
  done(stored);
  return out;
}

std::vector<float> WeightReader::values(const VectorSource& source) {
  const int stored_n = source.stored_n == 0 ? source.n : source.stored_n;
  const Stored stored = find(source.name, source.slice, source.n_slices, {stored_n});
  if (!is_float(stored.dtype()))
    fail("{}: tensor '{}' is {}, wanted f32, f16 or bf16", file_of(*stored.tensor),
         source.name, name(stored.dtype()));
  std::vector<float> raw(static_cast<size_t>(stored_n));
  dequantize_row(stored.dtype(), stored.bytes.data(), raw);
  std::vector<float> out(static_cast<size_t>(source.n));
  for (int i = 0; i < source.n; ++i) {
    const float value = raw[size_t(source.order.stored(i))];
    out[size_t(i)] =
        (source.map == VectorMap::minus_exp ? -std::exp(value) : value) + source.add;
  }
  done(stored);
  return out;
}

namespace {

// Leftovers of old exporters: mask buffers and rotary tables.
bool is_harmless(std::string_view tensor) {
  return tensor.ends_with(".rotary_emb.inv_freq") || tensor.ends_with(".attn.bias") ||
         tensor.ends_with(".attn.masked_bias") || tensor == "lm_head.weight";
}

}  // namespace

void WeightReader::check_unread() const {
  for (const auto& [tensor, stored] : checkpoint_.tensors) {
    if (read_.contains(tensor) || is_harmless(tensor)) continue;
    const size_t dot = tensor.rfind('.');
    const std::string stem = dot == std::string::npos ? tensor : tensor.substr(0, dot);
    // A bias, scale or norm beside a weight that was read belongs to the arithmetic.
    if (read_.contains(stem + ".weight") || tensor.starts_with("blk.") ||
        tensor.find(".layers.") != std::string::npos || tensor.starts_with("layers."))
      fail("{}: tensor '{}' {} has no place in the recipe; wanted a model without it",
           file_of(stored), tensor, to_string(stored.view.shape));
    log_warning("{}: tensor '{}' is not used", file_of(stored), tensor);
  }
}

}  // namespace ingot
