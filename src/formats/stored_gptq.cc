// GPTQ and AWQ: integer codes packed in 32-bit words, a float16 scale and a zero point
// per output and group of inputs (formats.md 5.2, 5.3).  Both store inputs as rows; here
// a row is an output.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "formats/quote.h"
#include "formats/stored_bits.h"
#include "formats/stored_schemes.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

// The tensors of module P and what their shapes tell.
struct Module {
  std::string path;
  bool awq = false;
  int bits = 0;
  int n_rows = 0;    // outputs
  int n_cols = 0;    // inputs
  int n_groups = 0;  // of inputs
  int group_size = 0;
  int zero_add = 0;  // 1: stored zeros are one less
  bool has_index = false;

  std::string name(const char* suffix) const { return path + suffix; }
};

// AWQ: column j of a word's eight lies in this nibble.
constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// ---- Shapes -------------------------------------------------------------------------

Shape matrix_shape(const Checkpoint& checkpoint, const std::string& tensor) {
  const Shape& shape = checkpoint.require(tensor).view.shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] > INT32_MAX / 32 ||
      shape[1] > INT32_MAX / 32)
    fail("{} is {}, wanted a matrix (QC-2)", tensor_place(checkpoint, tensor),
         to_string(shape));
  return shape;
}

void check_tensors(const Checkpoint& checkpoint, const Module& m) {
  const std::string of = m.name(".qweight");
  check_type(checkpoint, of, {DType::i32});
  for (const char* suffix : {".qzeros", ".scales"})
    require_companion(checkpoint, m.name(suffix), of);
  check_type(checkpoint, m.name(".qzeros"), {DType::i32});
  check_type(checkpoint, m.name(".scales"), {DType::f16, DType::bf16, DType::f32});
  if (checkpoint.find(m.name(".weight")) != nullptr)
    fail("{}: {} is there too, wanted one of them (QC-1)", tensor_place(checkpoint, of),
         in_quotes(m.name(".weight")));
}

// The width for which zeros [groups, outputs * bits / 32] and codes fit; 0: none.
int bits_told(const Shape& qweight, const Shape& qzeros, const Shape& scales) {
  for (const int bits : {2, 3, 4, 8})
    if (qzeros[1] * 32 == scales[1] * bits && qweight[0] * 32 % bits == 0) return bits;
  return 0;
}

// Codes and zeros of a module must have the shapes that its width, inputs and outputs
// say.
void measure(const Checkpoint& checkpoint, Module& m) {
  const std::string qweight = m.name(".qweight");
  const Shape codes = matrix_shape(checkpoint, qweight);
  const Shape zeros = matrix_shape(checkpoint, m.name(".qzeros"));
  const Shape scales = matrix_shape(checkpoint, m.name(".scales"));
  m.awq = codes[1] != scales[1];  // packed along the outputs
  m.n_rows = int(scales[1]);
  m.n_groups = int(scales[0]);
  if (m.awq) {
    m.bits = 4;
    m.n_cols = int(codes[0]);
    if (codes[1] * 8 != scales[1])
      fail(
          "{} is {} beside scales {}, wanted as many columns as they, or an eighth "
          "(QC-2)",
          tensor_place(checkpoint, qweight), to_string(codes), to_string(scales));
  } else {
    m.bits = bits_told(codes, zeros, scales);
    if (m.bits == 0)
      fail(
          "{} is {} beside qweight {} and scales {}, wanted [groups, out * bits / 32] "
          "with 2, 3, 4 or 8 bits (QC-2)",
          tensor_place(checkpoint, m.name(".qzeros")), to_string(zeros), to_string(codes),
          to_string(scales));
    m.n_cols = int(codes[0] * 32 / m.bits);
  }
  check_shape(checkpoint, m.name(".qzeros"), {scales[0], scales[1] * m.bits / 32},
              "for the scales' groups and outputs");
}

// ---- Groups -------------------------------------------------------------------------

// Which group each input belongs to; empty when they are runs of group_size.
std::vector<int32_t> read_groups(const Checkpoint& checkpoint, const Module& m) {
  if (!m.has_index) return {};
  const TensorView& view = checkpoint.require(m.name(".g_idx")).view;
  std::vector<int32_t> groups(size_t(m.n_cols));
  std::memcpy(groups.data(), view.bytes.data(), view.bytes.size());
  bool plain = m.n_cols % m.n_groups == 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] < 0 || groups[i] >= m.n_groups)
      fail("{}: value {} is {}, wanted a group in [0, {}) (QC-2)",
           tensor_place(checkpoint, m.name(".g_idx")), i, groups[i], m.n_groups);
    plain = plain && groups[i] == int32_t(i) / (m.n_cols / m.n_groups);
  }
  if (plain) groups.clear();
  return groups;
}

// Without g_idx the inputs divide evenly, into groups of what the config says (QC-5).
void choose_group_size(const Checkpoint& checkpoint, const QuantConfig& config,
                       Module& m) {
  m.has_index = checkpoint.find(m.name(".g_idx")) != nullptr;
  m.group_size = m.n_cols / std::max(m.n_groups, 1);
  if (m.has_index) {
    check_type(checkpoint, m.name(".g_idx"), {DType::i32});
    check_shape(checkpoint, m.name(".g_idx"), {m.n_cols}, "for the inputs");
    m.group_size = std::max(m.group_size, 1);
    return;
  }
  const bool even = m.n_groups <= m.n_cols && m.n_cols % m.n_groups == 0;
  const int stated = config.group_size.value_or(m.group_size);
  const bool as_stated = stated == -1 ? m.n_groups == 1 : stated == m.group_size;
  if (!even || (!as_stated && !config.has_overrides))
    fail("{} has {} groups for {} inputs, wanted {} (QC-5)",
         tensor_place(checkpoint, m.name(".scales")), m.n_groups, m.n_cols,
         stated == -1 ? "one group of the whole row"
                      : fmt::format("groups of {}", stated));
}

// ---- Values -------------------------------------------------------------------------

void put_scales(const Checkpoint& checkpoint, const Module& m, std::span<const int> rows,
                StoredMatrix& out) {
  const TensorView& scales = checkpoint.require(m.name(".scales")).view;
  const auto width = size_t(info(scales.dtype).group_bytes);
  const auto n_groups = size_t(m.n_groups);
  out.scales.resize(rows.size() * n_groups * width);
  for (size_t g = 0; g < n_groups; ++g)
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t at = g * size_t(m.n_rows) + size_t(rows[r]);
      const std::byte* from = scales.bytes.data() + at * width;
      float value = 0.0f;
      dequantize_row(scales.dtype, from, {&value, 1});
      check_scale(checkpoint, m.name(".scales"), at, value);
      std::memcpy(out.scales.data() + (r * n_groups + g) * width, from, width);
    }
}

uint32_t stored_zero(const Module& m, std::span<const std::byte> zeros, size_t group,
                     size_t row) {
  const size_t first = group * size_t(m.n_rows * m.bits / 32);
  if (!m.awq) return code_at(zeros, first, row, m.bits);
  return (word_at(zeros, first + row / 8) >> (4 * kAwqNibble[row % 8])) & 15u;
}

void put_zeros(const Checkpoint& checkpoint, const Module& m, std::span<const int> rows,
               StoredMatrix& out) {
  const auto zeros = checkpoint.require(m.name(".qzeros")).view.bytes;
  const auto n_groups = size_t(m.n_groups);
  const uint32_t mask = (1u << m.bits) - 1;
  out.biases.resize(rows.size() * n_groups);
  for (size_t g = 0; g < n_groups; ++g)
    for (size_t r = 0; r < rows.size(); ++r)
      out.biases[r * n_groups + g] = std::byte(
          (stored_zero(m, zeros, g, size_t(rows[r])) + uint32_t(m.zero_add)) & mask);
}

// A GPTQ row is the bit stream down a column of words.  Sixteen rows at a time share
// their cache lines.
void put_gptq_codes(const Module& m, std::span<const std::byte> words,
                    std::span<const int> rows, StoredMatrix& out) {
  constexpr size_t kRun = 16;
  const size_t n_words = size_t(m.n_cols) * size_t(m.bits) / 32;
  out.codes.resize(rows.size() * n_words * 4);
  for (size_t r0 = 0; r0 < rows.size(); r0 += kRun)
    for (size_t w = 0; w < n_words; ++w)
      for (size_t r = r0; r < std::min(r0 + kRun, rows.size()); ++r) {
        const uint32_t word = word_at(words, w * size_t(m.n_rows) + size_t(rows[r]));
        std::memcpy(out.codes.data() + (r * n_words + w) * 4, &word, sizeof word);
      }
}

void put_awq_codes(const Module& m, std::span<const std::byte> words,
                   std::span<const int> rows, StoredMatrix& out) {
  constexpr size_t kRun = 8;
  const auto n_cols = size_t(m.n_cols);
  const size_t row_bytes = (n_cols + 1) / 2;
  out.codes.resize(rows.size() * row_bytes);
  for (size_t r0 = 0; r0 < rows.size(); r0 += kRun)
    for (size_t c = 0; c < n_cols; ++c)
      for (size_t r = r0; r < std::min(r0 + kRun, rows.size()); ++r) {
        const auto row = size_t(rows[r]);
        const uint32_t word = word_at(words, c * size_t(m.n_rows / 8) + row / 8);
        const uint32_t code = (word >> (4 * kAwqNibble[row % 8])) & 15u;
        out.codes[r * row_bytes + c / 2] |= std::byte(code << (4 * (c % 2)));
      }
}

StoredMatrix read_rows(const Checkpoint& checkpoint, const Module& m,
                       std::span<const int> rows) {
  StoredMatrix out;
  const auto words = checkpoint.require(m.name(".qweight")).view.bytes;
  if (m.awq)
    put_awq_codes(m, words, rows, out);
  else
    put_gptq_codes(m, words, rows, out);
  put_scales(checkpoint, m, rows, out);
  put_zeros(checkpoint, m, rows, out);
  out.group_of_column = read_groups(checkpoint, m);
  out.matrix = {.mode = AffineMode::zero_point,
                .bits = m.bits,
                .group_size = m.group_size,
                .n_rows = int(rows.size()),
                .n_cols = m.n_cols,
                .scale_dtype = checkpoint.require(m.name(".scales")).view.dtype,
                .codes = out.codes,
                .scales = out.scales,
                .biases = out.biases,
                .group_of_column = out.group_of_column,
                .n_groups = m.n_groups};
  return out;
}

// ---- The modules --------------------------------------------------------------------

// Whether every stored zero of the modules is half of the codes (v2 of symmetric files).
bool all_zeros_are_middle(const Checkpoint& checkpoint,
                          const std::vector<Module>& modules) {
  bool any = false;
  for (const Module& m : modules) {
    if (m.awq) continue;
    const auto zeros = checkpoint.require(m.name(".qzeros")).view.bytes;
    for (size_t g = 0; g < size_t(m.n_groups); ++g)
      for (size_t row = 0; row < size_t(m.n_rows); ++row, any = true)
        if (stored_zero(m, zeros, g, row) != 1u << (m.bits - 1)) return false;
  }
  return any;
}

// Where the config does not record it, version 2 shows in symmetric files, whose zeros
// are all 2^(bits - 1); older exporters wrote version 1 and no field.
int gptq_version(const Checkpoint& checkpoint, const QuantConfig& config,
                 const std::vector<Module>& modules) {
  if (config.gptq_version) return *config.gptq_version;
  return all_zeros_are_middle(checkpoint, modules) ? 2 : 1;
}

void warn_of_contradictions(const Checkpoint& checkpoint, const QuantConfig& config,
                            const Module& m) {
  const bool named =
      config.method == QuantMethod::gptq || config.method == QuantMethod::awq;
  const bool as_named = (config.method == QuantMethod::awq) == m.awq;
  const bool as_wide = !config.bits || *config.bits == m.bits || config.has_overrides;
  if ((named && !as_named) || !as_wide)
    log_warning("{}: read as {} of {} bits, which its shapes tell; {}' says otherwise",
                tensor_place(checkpoint, m.name(".qweight")), m.awq ? "awq" : "gptq",
                m.bits, config.where);
}

StoredWeight weight_of(const Checkpoint& checkpoint, const Module& m) {
  StoredWeight out;
  out.scheme = fmt::format("{} {} bits", m.awq ? "awq" : "gptq", m.bits);
  for (const char* suffix : {".qweight", ".qzeros", ".scales"})
    out.tensors.push_back(m.name(suffix));
  if (m.has_index) out.tensors.push_back(m.name(".g_idx"));
  out.n_rows = m.n_rows;
  out.n_cols = m.n_cols;
  out.read = [&checkpoint, m](std::span<const int> rows) {
    return read_rows(checkpoint, m, rows);
  };
  return out;
}

}  // namespace

void find_gptq_and_awq(const Checkpoint& checkpoint, const QuantConfig& config,
                       StoredWeights& out) {
  std::vector<Module> modules;
  for (const auto& [tensor, stored] : checkpoint.tensors) {
    const auto stem = stem_of(tensor, ".qweight");
    if (const auto zeros = stem_of(tensor, ".qzeros"))
      require_companion(checkpoint, *zeros + ".qweight", tensor);
    if (!stem) continue;
    Module m;
    m.path = *stem;
    check_tensors(checkpoint, m);
    measure(checkpoint, m);
    choose_group_size(checkpoint, config, m);
    warn_of_contradictions(checkpoint, config, m);
    modules.push_back(m);
  }
  const int version = gptq_version(checkpoint, config, modules);
  for (Module& m : modules) {
    m.zero_add = !m.awq && version == 1 ? 1 : 0;
    out.emplace(m.path + ".weight", weight_of(checkpoint, m));
  }
}

}  // namespace ingot
