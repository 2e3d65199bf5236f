// NEON: a tile of float weights meets 1 to 4 rows, widened in registers.  Sums as
// neon_matmul.cc forms them.
#include "ops/cpu/neon.h"
#include "ops/cpu/packed.h"

namespace ingot::cpu {
namespace {

constexpr int kMostRows = 4;  // that registers hold

struct F32 {
  using Element = float;
  static float32x4_t load(const float* p) { return vld1q_f32(p); }
};
struct F16 {
  using Element = uint16_t;
  static float32x4_t load(const uint16_t* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
  }
};
struct Bf16 {
  using Element = uint16_t;
  static float32x4_t load(const uint16_t* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
  }
};

template <int rows>
using Sums = float32x4_t[rows][2];  // weight rows 0-3 and 4-7

template <typename Type, int rows>
inline void meet_column(const typename Type::Element* w, const float* x, size_t x_stride,
                        Sums<rows>& sums) {
  const float32x4_t low = Type::load(w), high = Type::load(w + 4);
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t) {
    const float value = x[size_t(t) * x_stride];
    sums[t][0] = vfmaq_n_f32(sums[t][0], low, value);
    sums[t][1] = vfmaq_n_f32(sums[t][1], high, value);
  }
}

// n columns, at most 32; even and odd ones are summed apart.
template <typename Type, int rows>
inline void meet_columns(const typename Type::Element* w, int n, const float* x,
                         size_t x_stride, Sums<rows>& sum) {
  Sums<rows> even, odd;
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
    even[t][0] = even[t][1] = odd[t][0] = odd[t][1] = vdupq_n_f32(0.0f);
  int c = 0;
  for (; c + 2 <= n; c += 2) {
    meet_column<Type>(w + c * kTileRows, x + c, x_stride, even);
    meet_column<Type>(w + (c + 1) * kTileRows, x + c + 1, x_stride, odd);
  }
  if (c < n) meet_column<Type>(w + c * kTileRows, x + c, x_stride, even);
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
    for (int r = 0; r < 2; ++r)
      sum[t][r] = vaddq_f32(sum[t][r], vaddq_f32(even[t][r], odd[t][r]));
}

template <typename Type, int rows>
void meet(const typename Type::Element* w, int n_cols, const float* x, size_t x_stride,
          float* acc) {
  Sums<rows> sum;
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) sum[t][r] = vld1q_f32(acc + t * kTileRows + 4 * r);
  for (int c = 0; c < n_cols; c += kGroupCols)
    if (n_cols - c >= kGroupCols)
      meet_columns<Type>(w + c * kTileRows, kGroupCols, x + c, x_stride, sum);
    else
      meet_columns<Type>(w + c * kTileRows, n_cols - c, x + c, x_stride, sum);
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) vst1q_f32(acc + t * kTileRows + 4 * r, sum[t][r]);
}

template <typename Type>
void meet_tile(const WeightSegment& s, int tile, const MatmulInput& in, float* acc) {
  constexpr int kPartCols = 256;  // that stay in the first-level cache for the next rows
  const auto* w = reinterpret_cast<const typename Type::Element*>(
      s.data + size_t(tile) * s.tile_bytes);
  const int part = in.n_rows <= kMostRows ? s.n_cols : kPartCols;
  for (int c = 0; c < s.n_cols; c += part) {
    const int n = s.n_cols - c < part ? s.n_cols - c : part;
    for (int t = 0; t < in.n_rows; t += kMostRows) {
      const int left = in.n_rows - t;
      const auto run = left >= 4   ? meet<Type, 4>
                       : left == 3 ? meet<Type, 3>
                       : left == 2 ? meet<Type, 2>
                                   : meet<Type, 1>;
      run(w + size_t(c) * kTileRows, n, in.x + size_t(t) * in.x_stride + c, in.x_stride,
          acc + t * kTileRows);
    }
  }
}

template <typename Type>
void few_rows(const WeightSegment& s, int tile, int n_tiles, const MatmulInput& in,
              float* acc) {
  for (int i = 0; i < n_tiles; ++i, acc += size_t(in.n_rows) * kTileRows) {
    for (int j = 0; j < in.n_rows * kTileRows; ++j) acc[j] = 0.0f;
    meet_tile<Type>(s, tile + i, in, acc);
  }
}

}  // namespace

FewRows neon_few_floats(const WeightSegment& s) {
  if (s.kind == SegmentKind::f32) return few_rows<F32>;
  if (s.kind == SegmentKind::f16) return few_rows<F16>;
  if (s.kind == SegmentKind::bf16) return few_rows<Bf16>;
  return nullptr;
}

}  // namespace ingot::cpu
