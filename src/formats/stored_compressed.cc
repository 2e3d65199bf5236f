// compressed-tensors' integer formats: pack-quantized and int-quantized (formats.md 5.4).
// Its float formats are read by stored_fp8.cc.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/quote.h"
#include "formats/stored_bits.h"
#include "formats/stored_schemes.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

// The tensors of module P: [n_slices, n_rows, n_cols].
struct Module {
  std::string path;
  bool packed = false;  // codes in words; else int8
  int bits = 8;
  bool padded = false;  // no code crosses a word
  Shape lead;
  int n_slices = 1, n_rows = 0, n_cols = 0;
  int group_size = 0;
  bool one_scale = false;  // for the whole tensor
  bool has_zeros = false, has_index = false;

  std::string name(const char* suffix) const { return path + suffix; }
  std::string codes() const { return name(packed ? ".weight_packed" : ".weight"); }
  int n_groups() const { return n_cols / group_size; }
  int64_t words(int64_t n) const {
    return padded ? (n + 32 / bits - 1) / (32 / bits) : (n * bits + 31) / 32;
  }
};

Shape with(Shape shape, std::initializer_list<int64_t> more) {
  shape.insert(shape.end(), more);
  return shape;
}

// ---- What the shapes tell -----------------------------------------------------------

// weight_shape [.., out, in] for packed codes, the codes' own shape otherwise.
Shape logical_shape(const Checkpoint& checkpoint, const Module& m) {
  const Shape& stored = checkpoint.require(m.codes()).view.shape;
  if (!m.packed) return stored;
  const std::string name = m.name(".weight_shape");
  const TensorView& view = require_companion(checkpoint, name, m.codes());
  check_type(checkpoint, name, {DType::i64});
  check_shape(checkpoint, name, {int64_t(stored.size())}, "as many as codes have");
  Shape shape(stored.size());
  std::memcpy(shape.data(), view.bytes.data(), view.bytes.size());
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] < 1 || shape[i] > INT32_MAX ||
        (i + 1 < shape.size() && shape[i] != stored[i]))
      fail("{} says {}, wanted the rows of {} {} (QC-2)", tensor_place(checkpoint, name),
           to_string(shape), in_quotes(m.codes()), to_string(stored));
  return shape;
}

void measure(const Checkpoint& checkpoint, Module& m) {
  if (checkpoint.require(m.codes()).view.shape.size() < 2)
    fail("{} is {}, wanted a matrix (QC-2)", tensor_place(checkpoint, m.codes()),
         to_string(checkpoint.require(m.codes()).view.shape));
  const Shape shape = logical_shape(checkpoint, m);
  m.lead = Shape(shape.begin(), shape.end() - 2);
  int64_t n_slices = 1;
  for (const int64_t n : m.lead) n_slices = std::min(n_slices * n, int64_t{1} << 31);
  m.n_slices = checked_dimension(checkpoint, m.codes(), n_slices);
  m.n_rows = checked_dimension(checkpoint, m.codes(), shape[shape.size() - 2]);
  m.n_cols = checked_dimension(checkpoint, m.codes(), shape.back());
  checked_dimension(checkpoint, m.codes(), n_slices * m.n_rows);
}

// Whether the codes of `bits` have this many words a row; sets `padded`.
bool words_fit(Module& m, int64_t n_words, bool* ambiguous) {
  m.padded = false;
  const bool dense = m.words(m.n_cols) == n_words;
  m.padded = true;
  const bool padded = 32 % m.bits != 0 && m.words(m.n_cols) == n_words;
  m.padded = !dense;
  *ambiguous = dense && padded && n_words > 1;
  return dense || padded;
}

// The scheme of the config that the module's tensors agree with.
const CompressedScheme& choose_scheme(const Checkpoint& checkpoint,
                                      const QuantConfig& config, Module& m) {
  const Shape& stored = checkpoint.require(m.codes()).view.shape;
  for (const CompressedScheme& scheme : config.schemes) {
    const bool packs = scheme.format == "pack-quantized";
    if (packs != m.packed || scheme.symmetric == m.has_zeros) continue;
    m.bits = packs ? scheme.bits : 8;
    bool ambiguous = false;
    if (packs && !words_fit(m, stored.back(), &ambiguous)) continue;
    if (ambiguous)
      fail(
          "{} has {} words for {} codes of {} bits, which both ways of packing give, "
          "wanted a width that tells them apart (QC-2)",
          tensor_place(checkpoint, m.codes()), stored.back(), m.n_cols, m.bits);
    return scheme;
  }
  fail(
      "{} is {} for {} inputs, {} zero points; wanted what {}.config_groups' says "
      "(QC-2)",
      tensor_place(checkpoint, m.codes()), to_string(stored), m.n_cols,
      m.has_zeros ? "with" : "without", config.where);
}

void check_scales(const Checkpoint& checkpoint, const CompressedScheme& scheme,
                  Module& m) {
  const std::string scales = m.name(".weight_scale");
  const Shape& shape = require_companion(checkpoint, scales, m.codes()).shape;
  check_type(checkpoint, scales, {DType::f16, DType::bf16, DType::f32});
  const int stated = scheme.group_size.value_or(-1);
  m.group_size = stated < 0 ? m.n_cols : std::min(stated, m.n_cols);
  if (m.n_cols % m.group_size != 0)
    fail("{} has {} inputs, wanted a multiple of the group of {} (QC-5)",
         tensor_place(checkpoint, m.codes()), m.n_cols, stated);
  m.one_scale = stated < 0 &&
                std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n == 1; });
  if (!m.one_scale && !(stated < 0 && shape == with(m.lead, {m.n_rows})))
    check_shape(checkpoint, scales, with(m.lead, {m.n_rows, m.n_groups()}),
                "for the outputs and groups");
}

void check_zeros(const Checkpoint& checkpoint, Module& m) {
  const std::string zeros = m.name(".weight_zero_point");
  if (m.packed && !m.one_scale) {
    check_type(checkpoint, zeros, {DType::i32});
    check_shape(checkpoint, zeros, with(m.lead, {m.words(m.n_rows), m.n_groups()}),
                "for the outputs, packed, and groups");
  } else {
    check_type(checkpoint, zeros, {DType::i8});
    check_shape(checkpoint, zeros, checkpoint.require(m.name(".weight_scale")).view.shape,
                "as the scales");
  }
}

// ---- Values -------------------------------------------------------------------------

std::vector<int32_t> read_groups(const Checkpoint& checkpoint, const Module& m) {
  if (!m.has_index) return {};
  const std::string name = m.name(".weight_g_idx");
  std::vector<int32_t> groups(size_t(m.n_cols));
  std::memcpy(groups.data(), checkpoint.require(name).view.bytes.data(),
              groups.size() * sizeof(int32_t));
  // All -1: written, but never set.
  if (std::all_of(groups.begin(), groups.end(), [](int32_t g) { return g == -1; }))
    return {};
  bool plain = true;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] < 0 || groups[i] >= m.n_groups())
      fail("{}: value {} is {}, wanted a group in [0, {}) (QC-2)",
           tensor_place(checkpoint, name), i, groups[i], m.n_groups());
    plain = plain && groups[i] == int32_t(i) / m.group_size;
  }
  if (plain) groups.clear();
  return groups;
}

void put_codes(const Checkpoint& checkpoint, const Module& m, std::span<const int> rows,
               StoredMatrix& out) {
  const auto stored = checkpoint.require(m.codes()).view.bytes;
  const auto n_cols = size_t(m.n_cols);
  const size_t row_bytes = (n_cols * size_t(m.bits) + 7) / 8;
  const auto n_words = size_t(m.words(m.n_cols));
  out.codes.resize(rows.size() * row_bytes);
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto row = size_t(rows[r]);
    std::byte* to = out.codes.data() + r * row_bytes;
    if (!m.packed) {
      for (size_t c = 0; c < n_cols; ++c)
        to[c] = stored[row * n_cols + c] ^ std::byte(128);
    } else if (!m.padded) {
      std::memcpy(to, stored.data() + row * n_words * 4, row_bytes);
    } else {
      for (size_t c = 0; c < n_cols; ++c)
        put_code(to, c, m.bits, padded_code_at(stored, row * n_words, c, m.bits));
    }
  }
}

void put_scales(const Checkpoint& checkpoint, const Module& m, std::span<const int> rows,
                StoredMatrix& out) {
  const TensorView& scales = checkpoint.require(m.name(".weight_scale")).view;
  const auto width = size_t(info(scales.dtype).group_bytes);
  const auto n_groups = size_t(m.n_groups());
  out.scales.resize(rows.size() * n_groups * width);
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t at = m.one_scale ? 0 : size_t(rows[r]) * n_groups + g;
      float value = 0.0f;
      dequantize_row(scales.dtype, scales.bytes.data() + at * width, {&value, 1});
      check_scale(checkpoint, m.name(".weight_scale"), at, value);
      std::memcpy(out.scales.data() + (r * n_groups + g) * width,
                  scales.bytes.data() + at * width, width);
    }
}

// Zeros carry the same offset of 2^(bits - 1) as the codes: packed ones in the file,
// int8 ones not.
uint32_t zero_at(const Module& m, std::span<const std::byte> zeros, int row, int group) {
  const uint32_t middle = 1u << (m.bits - 1);
  if (!m.has_zeros) return middle;
  const auto n_groups = size_t(m.n_groups());
  if (!m.packed || m.one_scale) {
    const size_t at = m.one_scale ? 0 : size_t(row) * n_groups + size_t(group);
    return (uint32_t(uint8_t(zeros[at])) + middle) & ((middle << 1) - 1);
  }
  const auto in_slice = size_t(row % m.n_rows);
  const size_t first =
      size_t(row / m.n_rows) * size_t(m.words(m.n_rows)) * n_groups + size_t(group);
  return m.padded ? padded_code_at(zeros, first, in_slice, m.bits, n_groups)
                  : code_at(zeros, first, in_slice, m.bits, n_groups);
}

StoredMatrix read_rows(const Checkpoint& checkpoint, const Module& m,
                       std::span<const int> rows) {
  StoredMatrix out;
  const auto n_groups = size_t(m.n_groups());
  put_codes(checkpoint, m, rows, out);
  put_scales(checkpoint, m, rows, out);
  const TensorView* zeros = view_of(checkpoint, m.name(".weight_zero_point"));
  const auto zero_bytes = zeros == nullptr ? std::span<const std::byte>() : zeros->bytes;
  out.biases.resize(rows.size() * n_groups);
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t g = 0; g < n_groups; ++g)
      out.biases[r * n_groups + g] = std::byte(zero_at(m, zero_bytes, rows[r], int(g)));
  out.group_of_column = read_groups(checkpoint, m);
  out.matrix = {.mode = AffineMode::zero_point,
                .bits = m.bits,
                .group_size = m.group_size,
                .n_rows = int(rows.size()),
                .n_cols = m.n_cols,
                .scale_dtype = checkpoint.require(m.name(".weight_scale")).view.dtype,
                .codes = out.codes,
                .scales = out.scales,
                .biases = out.biases,
                .group_of_column = out.group_of_column,
                .n_groups = m.n_groups()};
  return out;
}

// ---- The modules --------------------------------------------------------------------

StoredWeight weight_of(const Checkpoint& checkpoint, const QuantConfig& config,
                       Module m) {
  m.has_zeros = checkpoint.find(m.name(".weight_zero_point")) != nullptr;
  m.has_index = checkpoint.find(m.name(".weight_g_idx")) != nullptr;
  measure(checkpoint, m);
  check_scales(checkpoint, choose_scheme(checkpoint, config, m), m);
  if (m.has_zeros) check_zeros(checkpoint, m);
  if (m.has_index) {
    check_type(checkpoint, m.name(".weight_g_idx"), {DType::i32});
    check_shape(checkpoint, m.name(".weight_g_idx"), {m.n_cols}, "for the inputs");
  }
  StoredWeight out;
  out.scheme = fmt::format("compressed-tensors {} bits", m.bits);
  out.tensors = {m.codes(), m.name(".weight_scale")};
  if (m.packed) out.tensors.push_back(m.name(".weight_shape"));
  if (m.has_zeros) out.tensors.push_back(m.name(".weight_zero_point"));
  if (m.has_index) out.tensors.push_back(m.name(".weight_g_idx"));
  add_unused_scales(checkpoint, m.path, out.tensors);
  out.n_slices = m.n_slices;
  out.n_rows = m.n_rows;
  out.n_cols = m.n_cols;
  out.read = [&checkpoint, m](std::span<const int> rows) {
    return read_rows(checkpoint, m, rows);
  };
  return out;
}

}  // namespace

void find_compressed_tensors(const Checkpoint& checkpoint, const QuantConfig& config,
                             StoredWeights& out) {
  for (const auto& [tensor, stored] : checkpoint.tensors) {
    Module m;
    if (const auto stem = stem_of(tensor, ".weight_packed")) {
      m.path = *stem;
      m.packed = true;
      check_type(checkpoint, tensor, {DType::i32});
    } else if (const auto plain = stem_of(tensor, ".weight");
               plain && stored.view.dtype == DType::i8 &&
               config.method == QuantMethod::compressed_tensors) {
      m.path = *plain;
    } else {
      continue;
    }
    out.emplace(m.path + ".weight", weight_of(checkpoint, config, m));
  }
}

}  // namespace ingot
