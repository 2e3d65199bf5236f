// out = w x (+ bias): tiles of 8 weight rows, spread over the pool; each tile's weights
// are unpacked chunk by chunk into the first-level cache and meet all tokens of a pass.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"
#include "ops/cpu/variants.h"
#include "ops/testing_faults.h"

namespace ingot::cpu {

void CpuOps::grow_scratch(int max_tokens, int max_width) {
  for (ThreadScratch& s : scratch_) {
    s.logits.resize(std::max(s.logits.size(), size_t(max_width)));
    s.candidates.resize(std::max(s.candidates.size(), size_t(max_width)));
    s.tiles.resize(size_t(kMostTilesTogether) * kChunkGroups);
    s.values.resize(size_t(kMostTilesTogether) * kChunkCols * kTileRows);
    s.acc.resize(size_t(kMostTilesTogether) * kPassTokens * kTileRows);
  }
  const size_t groups = size_t(max_width / kGroupCols) * size_t(max_tokens);
  if (groups * sizeof(ActGroup) <= act_memory_.buffer().bytes) return;
  act_memory_ = allocate(groups * sizeof(ActGroup));  // untouched pages cost nothing
  acts_ = host<ActGroup>(act_memory_.buffer());
}

namespace {

// Kernels::dot_f32 with the groups in the wrong order, for the fault of that name.
void dot_backwards(const Kernels& kernels, const float* w, int n_tiles, size_t w_stride,
                   int n_cols, const float* x, size_t x_stride, int n_tokens,
                   float* acc) {
  for (int c = (n_cols - 1) / kGroupCols * kGroupCols; c >= 0; c -= kGroupCols)
    kernels.dot_f32(w + c * kTileRows, n_tiles, w_stride,
                    std::min(kGroupCols, n_cols - c), x + c, x_stride, n_tokens, acc);
}

void store_tile(const WeightSegment& s, int tile, int first_token, int n_tokens, Rows out,
                const int32_t* out_rows, const float* bias, const float* acc) {
  const int n_rows = s.rows_in_tile(tile);
  const int first_row = s.first_row + tile * kTileRows;
  for (int t = 0; t < n_tokens; ++t) {
    const int token = first_token + t;
    float* row = host_row(out, out_rows == nullptr ? token : out_rows[token]) + first_row;
    if (bias == nullptr && n_rows == kTileRows) {
      std::memcpy(row, acc + t * kTileRows, kTileRows * sizeof(float));
      continue;
    }
    for (int r = 0; r < n_rows; ++r) {
      const float value = acc[t * kTileRows + r];
      row[r] = bias == nullptr ? value : value + bias[first_row + r];
    }
  }
}

}  // namespace

void CpuOps::many_rows_tiles(const WeightSegment& s, int tile, int n_tiles,
                             const MatmulInput& in, int first, int n_tokens,
                             ThreadScratch& scratch) {
  const bool int8 = s.has_codes() && act_ == ActMode::automatic;
  float* acc = scratch.acc.data();
  std::fill_n(acc, n_tiles * n_tokens * kTileRows, 0.0f);
  for (int c0 = 0; c0 < s.n_cols; c0 += kChunkCols) {
    const int n_cols = std::min(kChunkCols, s.n_cols - c0);
    const int n_groups = n_cols / kGroupCols;
    const float* values = scratch.values.data();
    size_t values_stride = size_t(kChunkCols) * kTileRows;
    if (s.kind == SegmentKind::f32) {
      values = reinterpret_cast<const float*>(s.tile(tile)) + c0 * kTileRows;
      values_stride = s.tile_bytes / sizeof(float);
    }
    for (int i = 0; i < n_tiles; ++i) {
      TileGroup* groups = scratch.tiles.data() + i * kChunkGroups;
      float* unpacked = scratch.values.data() + size_t(i) * values_stride;
      if (s.has_codes()) s.unpack(s, tile + i, c0 / kGroupCols, n_groups, groups);
      if (s.has_codes() && !int8)
        kernels_.tile_to_f32(groups, s.format, n_groups, unpacked);
      if (!s.has_codes() && s.kind != SegmentKind::f32)
        tile_values(kernels_, s, tile + i, c0, n_cols, unpacked);
    }
    if (int8) {
      kernels_.dot_int8(scratch.tiles.data(), n_tiles, s.format, n_groups,
                        in.acts + size_t(c0 / kGroupCols) * in.act_stride + first,
                        in.act_stride, n_tokens, acc);
      continue;
    }
    const float* row = in.x + size_t(first) * in.x_stride + c0;
    if (fault("summation_order") && in.n_rows > 1)
      dot_backwards(kernels_, values, n_tiles, values_stride, n_cols, row, in.x_stride,
                    n_tokens, acc);
    else
      kernels_.dot_f32(values, n_tiles, values_stride, n_cols, row, in.x_stride, n_tokens,
                       acc);
  }
}

void CpuOps::matmul_segment(const WeightSegment& s, int begin, int end, Rows out,
                            const MatmulInput& in, const float* bias,
                            ThreadScratch& scratch) {
  const float* acc = scratch.acc.data();
  const bool backwards = fault("summation_order") && in.n_rows > 1;
  if (variant_of(s, in.n_rows, act_) == MatmulVariant::few_rows && !backwards &&
      !switched("no_few_rows")) {
    for (int tile = begin; tile < end; tile += kFewRowsTiles) {
      const int n_tiles = std::min(kFewRowsTiles, end - tile);
      s.few_rows(s, tile, n_tiles, in, scratch.acc.data());
      for (int i = 0; i < n_tiles; ++i)
        store_tile(s, tile + i, 0, in.n_rows, out, in.out_rows, bias,
                   acc + i * in.n_rows * kTileRows);
    }
    return;
  }
  const int together = switched("no_tile_pairs") ? 1 : kernels_.tiles_together;
  for (int tile = begin; tile < end; tile += together) {
    const int n_tiles = std::min(together, end - tile);
    for (int t0 = 0; t0 < in.n_rows; t0 += kPassTokens) {
      const int n_tokens = std::min(kPassTokens, in.n_rows - t0);
      many_rows_tiles(s, tile, n_tiles, in, t0, n_tokens, scratch);
      for (int i = 0; i < n_tiles; ++i)
        store_tile(s, tile + i, t0, n_tokens, out, in.out_rows, bias,
                   acc + i * n_tokens * kTileRows);
    }
  }
}

void CpuOps::matmul_tiles(const PackedWeight& weight, Rows out, const MatmulInput& in,
                          const float* bias, int begin, int end, ThreadScratch& scratch) {
  int first = 0;  // tile of the segment's first
  for (const WeightSegment& s : weight.segments) {
    matmul_segment(s, std::max(begin - first, 0), std::min(end - first, s.n_tiles), out,
                   in, bias, scratch);
    first += s.n_tiles;
  }
}

bool CpuOps::wants_int8(const PackedWeight& weight) const {
  if (act_ != ActMode::automatic) return false;
  return std::any_of(weight.segments.begin(), weight.segments.end(),
                     [](const WeightSegment& s) { return s.has_codes(); });
}

bool CpuOps::wants_floats(const PackedWeight& weight) const {
  if (act_ != ActMode::automatic) return true;
  return std::any_of(weight.segments.begin(), weight.segments.end(),
                     [](const WeightSegment& s) { return !s.has_codes(); });
}

void CpuOps::matmul(Rows out, Rows x, const Weight& w, const Buffer& bias) {
  const auto& weight = static_cast<const PackedWeight&>(w);
  CHECK(out.n_rows == x.n_rows && x.width == weight.n_cols && out.width == weight.n_rows);
  if (x.n_rows == 0) return;
  grow_scratch(x.n_rows, x.width);
  if (wants_int8(weight))
    for_rows(x.n_rows, x.width, [&](int t) {
      kernels_.quantise(host_row(x, t), x.width / kGroupCols, acts_ + t,
                        size_t(x.n_rows));
    });
  const MatmulInput in{.n_rows = x.n_rows,
                       .x = host_row(x, 0),
                       .x_stride = size_t(x.stride),
                       .acts = acts_,
                       .act_stride = size_t(x.n_rows)};
  const float* biases = bias.data == nullptr ? nullptr : host<const float>(bias);
  const int grain = grain_of(int64_t{kTileRows} * weight.n_cols * x.n_rows);
  pool_.parallel_for(weight.n_tiles, grain, [&](WorkRange range) {
    matmul_tiles(weight, out, in, biases, range.begin, range.end,
                 scratch_[size_t(range.thread)]);
  });
  counters_.weight_bytes += weight.bytes * passes_of(x.n_rows);
}

}  // namespace ingot::cpu
