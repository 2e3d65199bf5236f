#include "ops/weights_testing.h"

#include "base/check.h"
#include "base/half.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

// Where a group's float16 scales lie, so that random bytes become finite weights.
std::vector<int> half_offsets(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q8_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    case DType::tq1_0:
      return {52};
    case DType::tq2_0:
      return {64};
    case DType::q8_k:
    case DType::mxfp4:
    case DType::nvfp4:
    case DType::iq1_m:
      return {};
    default:
      return {0};
  }
}

void put(std::byte* p, uint16_t bits) { std::memcpy(p, &bits, sizeof bits); }

uint16_t random_scale(Random& random) {
  return f32_to_f16(random.uniform(0.001f, 0.05f) *
                    (random.below(4) == 0 ? -1.0f : 1.0f));
}

void make_finite(DType type, std::byte* group, Random& random) {
  for (int offset : half_offsets(type)) put(group + offset, random_scale(random));
  if (type == DType::q8_k) {
    const float scale = random.uniform(0.001f, 0.05f);
    std::memcpy(group, &scale, sizeof scale);
  }
  if (type == DType::mxfp4) group[0] = std::byte(118 + random.below(6));
  if (type == DType::nvfp4)  // bit 7 is ignored, but 0xff is no scale at all
    for (int i = 0; i < 4; ++i)
      if (group[i] == std::byte(0xff)) group[i] = std::byte(0x7f);
  if (type == DType::iq1_m) {  // the float16 is spread over the top nibbles of four u16
    const uint16_t scale = random_scale(random);
    for (int i = 0; i < 4; ++i) {
      std::byte& top = group[48 + 2 * i + 1];
      top =
          std::byte((unsigned(top) & 15u) | (((unsigned(scale) >> (4 * i)) & 15u) << 4));
    }
  }
}

void put_float(DType type, float value, std::byte* p) {
  if (type == DType::f32) std::memcpy(p, &value, sizeof value);
  if (type == DType::f16) put(p, f32_to_f16(value));
  if (type == DType::bf16) put(p, f32_to_bf16(value));
}

}  // namespace

int WeightKind::column_step() const {
  if (affine && mode == AffineMode::e4m3) return 1;
  if (affine) return std::max(group_size, 32);
  return is_quantised(dtype) ? std::max(info(dtype).group_elements, 32) : 1;
}

namespace {

// As GPTQ, AWQ and FP8 files are read.
void add_stored_kinds(std::vector<WeightKind>& kinds) {
  const auto zero_point = [&](std::string name, int bits, int group, DType scales,
                              bool act_order = false) {
    kinds.push_back({.name = "zero_point" + name,
                     .affine = true,
                     .mode = AffineMode::zero_point,
                     .bits = bits,
                     .group_size = group,
                     .scale_dtype = scales,
                     .act_order = act_order});
  };
  zero_point("2", 2, 64, DType::f16);
  zero_point("3", 3, 32, DType::bf16);
  zero_point("4", 4, 128, DType::f16);
  zero_point("5", 5, 32, DType::f16);
  zero_point("6", 6, 96, DType::bf16);
  zero_point("8", 8, 128, DType::f16);
  zero_point("4_group_of_16", 4, 16, DType::f16);
  zero_point("8_f32", 8, 64, DType::f32);
  zero_point("3_act_order", 3, 32, DType::f16, true);
  zero_point("8_act_order", 8, 128, DType::f16, true);
  for (const int group : {37, 128})
    kinds.push_back({.name = "e4m3_" + std::to_string(group),
                     .affine = true,
                     .mode = AffineMode::e4m3,
                     .bits = 8,
                     .group_size = group,
                     .scale_dtype = DType::f32});
}

}  // namespace

std::vector<WeightKind> weight_kinds() {
  std::vector<WeightKind> kinds;
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    kinds.push_back({.name = std::string(name(type)), .dtype = type});
  for (int i = 0; i < int(DType::count_); ++i)
    if (is_quantised(DType(i)))
      kinds.push_back({.name = std::string(name(DType(i))), .dtype = DType(i)});
  const DType scale_types[] = {DType::f16, DType::bf16, DType::f32};
  int n = 0;
  for (int bits : {2, 3, 4, 5, 6, 8})
    for (int group : {32, 64, 128})
      kinds.push_back(
          {.name = "affine" + std::to_string(bits) + "_" + std::to_string(group),
           .affine = true,
           .bits = bits,
           .group_size = group,
           .scale_dtype = scale_types[n++ % 3]});
  kinds.push_back({.name = "mlx_mxfp4",
                   .affine = true,
                   .mode = AffineMode::mxfp4,
                   .bits = 4,
                   .group_size = 32,
                   .scale_dtype = DType::u8});
  kinds.push_back({.name = "mlx_mxfp8",
                   .affine = true,
                   .mode = AffineMode::mxfp8,
                   .bits = 8,
                   .group_size = 32,
                   .scale_dtype = DType::u8});
  kinds.push_back({.name = "mlx_nvfp4",
                   .affine = true,
                   .mode = AffineMode::nvfp4,
                   .bits = 4,
                   .group_size = 16,
                   .scale_dtype = DType::u8});
  add_stored_kinds(kinds);
  return kinds;
}

TestWeight::TestWeight(const WeightKind& kind, int n_rows, int n_cols, Random& random)
    : kind_(kind), n_rows_(n_rows), n_cols_(n_cols) {
  values_.resize(size_t(n_rows) * size_t(n_cols));
  sizes_ = values_;
  if (kind.affine) {
    fill_affine(random);
    return;
  }
  row_size_ = row_bytes(kind.dtype, uint64_t(n_cols)).value();
  bytes_.resize(1 + size_t(n_rows) * row_size_);
  for (int r = 0; r < n_rows; ++r) fill_row(r, random);
}

bool TestWeight::quantised() const {
  if (!kind_.affine) return is_quantised(kind_.dtype);
  if (kind_.mode == AffineMode::zero_point)
    return !kind_.act_order && kind_.group_size % 32 == 0 &&
           kind_.scale_dtype != DType::f32;
  return kind_.mode != AffineMode::mxfp8 && kind_.mode != AffineMode::e4m3;
}

void TestWeight::fill_row(int row, Random& random) {
  std::byte* p = bytes_.data() + 1 + size_t(row) * row_size_;
  if (!is_quantised(kind_.dtype)) {
    const size_t step = size_t(info(kind_.dtype).group_bytes);
    for (int c = 0; c < n_cols_; ++c)
      put_float(kind_.dtype, random.uniform(-1.0f, 1.0f), p + size_t(c) * step);
  } else {
    const size_t step = size_t(info(kind_.dtype).group_bytes);
    for (size_t i = 0; i < row_size_; ++i) p[i] = std::byte(random.bits() & 255u);
    for (size_t g = 0; g < row_size_; g += step) make_finite(kind_.dtype, p + g, random);
  }
  std::vector<float> values(static_cast<size_t>(n_cols_));
  dequantize_row(kind_.dtype, p, values);
  std::vector<QuantGroup32> groups(size_t(n_cols_ + 31) / 32);
  if (is_quantised(kind_.dtype)) unpack_groups(kind_.dtype, p, n_cols_, groups.data());
  for (int c = 0; c < n_cols_; ++c) {
    const double value = double(values[size_t(c)]);
    CHECK(std::isfinite(value));
    values_[index(row, c)] = value;
    const double offset = double(groups[size_t(c / 32)].offset[c % 32 / 16]);
    sizes_[index(row, c)] = std::fabs(value) + 2.0 * std::fabs(offset);
  }
}

AffineMatrix TestWeight::matrix() const {
  const auto skip = [](const std::vector<std::byte>& bytes) {
    return std::span(bytes).subspan(bytes.empty() ? 0 : 1);
  };
  return {.mode = kind_.mode,
          .bits = kind_.bits,
          .group_size = kind_.group_size,
          .n_rows = n_rows_,
          .n_cols = n_cols_,
          .scale_dtype = kind_.scale_dtype,
          .codes = skip(bytes_),
          .scales = skip(scales_),
          .biases = skip(biases_),
          .group_of_column = group_of_column_,
          .n_groups = n_cols_ / kind_.group_size};
}

void TestWeight::fill_affine(Random& random) {
  const AffineMode mode = kind_.mode;
  const bool wide = mode == AffineMode::affine || mode == AffineMode::zero_point ||
                    mode == AffineMode::e4m3;
  bytes_.resize(1 + size_t(n_rows_) * size_t(n_cols_) * size_t(kind_.bits) / 8);
  for (std::byte& b : bytes_) b = std::byte(random.bits() & 255u);
  if (mode == AffineMode::mxfp8 || mode == AffineMode::e4m3)  // no NaN codes
    for (std::byte& b : bytes_) b &= std::byte(0xbf);
  for (int c = 0; kind_.act_order && c < n_cols_; ++c)
    group_of_column_.push_back(random.below(n_cols_ / kind_.group_size));
  const size_t n_scales = size_t(n_rows_) * size_t(matrix().groups_per_row());
  const size_t step = wide ? size_t(info(kind_.scale_dtype).group_bytes) : 1;
  const bool zeros = mode == AffineMode::zero_point;
  scales_.resize(1 + n_scales * step);
  if (mode == AffineMode::affine) biases_.resize(scales_.size());
  if (zeros) biases_.resize(1 + n_scales);
  for (size_t i = 0; i < n_scales; ++i) {
    std::byte* scale = scales_.data() + 1 + i * step;
    if (wide) put_float(kind_.scale_dtype, random.uniform(-0.05f, 0.05f), scale);
    if (mode == AffineMode::affine)
      put_float(kind_.scale_dtype, random.uniform(-1.0f, 1.0f),
                biases_.data() + 1 + i * step);
    if (zeros) biases_[1 + i] = std::byte(random.below(1 << kind_.bits));
    if (!wide)
      *scale = std::byte(mode == AffineMode::nvfp4 ? random.between(1, 60)
                                                   : random.between(118, 123));
  }
  for (int r = 0; r < n_rows_; ++r) measure_affine_row(r);
}

void TestWeight::measure_affine_row(int row) {
  const AffineMatrix m = matrix();
  std::vector<float> values(static_cast<size_t>(n_cols_));
  std::vector<int32_t> groups(values.size());
  std::vector<float> scales(size_t(m.groups_per_row()));
  std::vector<float> biases(m.biases.empty() ? 0 : scales.size());
  affine_groups(m, groups);
  dequantize_affine_row(m, row, values);
  unpack_affine_scales(m, row, scales, biases);
  for (int c = 0; c < n_cols_; ++c) {
    const double value = double(values[size_t(c)]);
    const double bias = biases.empty() ? 0.0 : double(biases[size_t(groups[size_t(c)])]);
    values_[index(row, c)] = value;
    sizes_[index(row, c)] = std::fabs(value) + 2.0 * std::fabs(bias);
  }
}

WeightRows TestWeight::source() const {
  WeightRows rows;
  rows.dtype = kind_.dtype;
  rows.n_rows = n_rows_;
  rows.n_cols = n_cols_;
  if (kind_.affine)
    rows.affine = matrix();
  else
    rows.row = [this](int r) { return bytes_.data() + 1 + size_t(r) * row_size_; };
  return rows;
}

}  // namespace ingot
