// out = w x (+ bias): tiles of 8 weight rows, spread over the pool; each tile's weights
// are unpacked chunk by chunk into the first-level cache and meet all tokens of a pass.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/for_rows.h"
#include "ops/testing_faults.h"

namespace ingot::cpu {

void CpuOps::grow_scratch(int max_tokens, int max_width) {
  for (ThreadScratch& s : scratch_) {
    s.logits.resize(std::max(s.logits.size(), size_t(max_width)));
    s.candidates.resize(std::max(s.candidates.size(), size_t(max_width)));
    s.tiles.resize(kChunkGroups);
    s.values.resize(size_t(kChunkCols) * kTileRows);
    s.acc.resize(size_t(kPassTokens) * kTileRows);
  }
  const size_t groups = size_t(max_width / kGroupCols) * size_t(max_tokens);
  if (groups * sizeof(ActGroup) <= act_memory_.buffer().bytes) return;
  act_memory_ = allocate(groups * sizeof(ActGroup));  // untouched pages cost nothing
  acts_ = host<ActGroup>(act_memory_.buffer());
}

namespace {

// Kernels::dot_f32 with the groups in the wrong order, for the fault of that name.
void dot_backwards(const Kernels& kernels, const float* w, int n_cols, const float* x,
                   size_t x_stride, int n_tokens, float* acc) {
  for (int c = (n_cols - 1) / kGroupCols * kGroupCols; c >= 0; c -= kGroupCols)
    kernels.dot_f32(w + c * kTileRows, std::min(kGroupCols, n_cols - c), x + c, x_stride,
                    n_tokens, acc);
}

void store_tile(const WeightSegment& s, int tile, int first_token, int n_tokens, Rows out,
                const int32_t* out_rows, const float* bias, const float* acc) {
  const int n_rows = s.rows_in_tile(tile);
  const int first_row = s.first_row + tile * kTileRows;
  for (int t = 0; t < n_tokens; ++t) {
    const int token = first_token + t;
    float* row = host_row(out, out_rows == nullptr ? token : out_rows[token]) + first_row;
    for (int r = 0; r < n_rows; ++r) {
      const float value = acc[t * kTileRows + r];
      row[r] = bias == nullptr ? value : value + bias[first_row + r];
    }
  }
}

}  // namespace

void CpuOps::matmul_tile(const WeightSegment& s, int tile, Rows out,
                         const MatmulInput& in, const float* bias,
                         ThreadScratch& scratch) {
  const bool int8 = s.has_codes() && act_ == ActMode::automatic;
  for (int t0 = 0; t0 < in.n_rows; t0 += kPassTokens) {
    const int n_tokens = std::min(kPassTokens, in.n_rows - t0);
    float* acc = scratch.acc.data();
    std::fill_n(acc, n_tokens * kTileRows, 0.0f);
    for (int c0 = 0; c0 < s.n_cols; c0 += kChunkCols) {
      const int n_cols = std::min(kChunkCols, s.n_cols - c0);
      const int n_groups = n_cols / kGroupCols;
      const float* values = scratch.values.data();
      if (s.has_codes())
        s.unpack(s, tile, c0 / kGroupCols, n_groups, scratch.tiles.data());
      if (int8) {
        kernels_.dot_int8(scratch.tiles.data(), s.format, n_groups,
                          in.acts + size_t(c0 / kGroupCols) * in.act_stride + t0,
                          in.act_stride, n_tokens, acc);
        continue;
      }
      if (s.has_codes())
        kernels_.tile_to_f32(scratch.tiles.data(), s.format, n_groups,
                             scratch.values.data());
      else if (s.kind == SegmentKind::f32)
        values = reinterpret_cast<const float*>(s.tile(tile)) + c0 * kTileRows;
      else
        tile_values(kernels_, s, tile, c0, n_cols, scratch.values.data());
      const float* row = in.x + size_t(t0) * in.x_stride + c0;
      if (fault("summation_order") && in.n_rows > 1)
        dot_backwards(kernels_, values, n_cols, row, in.x_stride, n_tokens, acc);
      else
        kernels_.dot_f32(values, n_cols, row, in.x_stride, n_tokens, acc);
    }
    store_tile(s, tile, t0, n_tokens, out, in.out_rows, bias, acc);
  }
}

void CpuOps::matmul_tiles(const PackedWeight& weight, Rows out, const MatmulInput& in,
                          const float* bias, int begin, int end, ThreadScratch& scratch) {
  int first = 0;  // tile of the segment's first
  for (const WeightSegment& s : weight.segments) {
    const int last = std::min(end - first, s.n_tiles);
    for (int tile = std::max(begin - first, 0); tile < last; ++tile)
      matmul_tile(s, tile, out, in, bias, scratch);
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
