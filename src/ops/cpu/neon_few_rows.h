// NEON: a tile of quantised weights meets 1 to 4 rows, unpacked in registers on its way
// from memory: what decoding and short verify passes run.  The sums are those of
// neon_dot.h: whole numbers are exact in any order, floats are added in the same one.
#pragma once

#include "ops/cpu/neon_codes.h"
#include "ops/cpu/neon_dot.h"
#include "ops/cpu/packed.h"

namespace ingot::cpu {
namespace {  // each file that includes this is compiled for its own machine

constexpr int kMostRows = 4;  // that registers hold

template <int rows>
using GroupSums = int32x4_t[rows][2];  // [half]

// Chunks v, v + 1, v + 4 and v + 5 of 4 weight rows: both halves apart, or all in [0].
template <typename Add, typename Codes, bool halves, int v, int rows>
[[gnu::always_inline]] inline void add_four_chunks(const uint8_t* p, const ActGroup* y,
                                                   GroupSums<rows>& sums) {
  uint8x16_t low[2], high[2];
  Codes::template pair<v>(p, low[0], high[0]);
  Codes::template pair<v + 1>(p, low[1], high[1]);
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t) {
    sums[t][0] = Add::template two<Codes::kSmall, v>(
        sums[t][0], vreinterpretq_s8_u8(low[0]), vreinterpretq_s8_u8(low[1]),
        vld1q_s8(y[t].code));
    int32x4_t& second = sums[t][halves ? 1 : 0];
    second = Add::template two<Codes::kSmall, v>(second, vreinterpretq_s8_u8(high[0]),
                                                 vreinterpretq_s8_u8(high[1]),
                                                 vld1q_s8(y[t].code + kGroupCols / 2));
  }
  end_step();
}

// A layout that is worth a kernel of its own.
template <typename CodesOf, ScaleKind kind, int zero_of>
struct Layout {
  using Codes = CodesOf;
  using S = Scales<kind>;
  static constexpr float kZero = float(zero_of);
};

// One group meets weight rows 4 r .. 4 r + 3.
template <typename Add, typename L, int rows>
[[gnu::always_inline]] inline void meet_group(const uint8_t* own, size_t scale_bytes,
                                              const typename L::S::Header& header,
                                              const ActGroup* y, int r,
                                              float32x4_t (&acc)[rows][2]) {
  using S = typename L::S;
  using Codes = typename L::Codes;
  const uint8_t* codes = own + scale_bytes + r * kHalfTile;
  GroupSums<rows> sums;
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t) sums[t][0] = sums[t][1] = vdupq_n_s32(0);
  add_four_chunks<Add, Codes, S::kHalves, 0>(codes, y, sums);
  add_four_chunks<Add, Codes, S::kHalves, 2>(codes, y, sums);
  const GroupScales s = S::group(header, own, r);
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t) {
    const ActGroup& a = y[t];
    if constexpr (S::kHalves) {
      for (int h = 0; h < 2; ++h)
        acc[t][r] =
            add_scaled<S::kOffsets>(acc[t][r], sums[t][h], s.scale[h], s.offset[h],
                                    L::kZero, a.scale, a.sum[h], a.scaled_sum[h]);
    } else {
      acc[t][r] =
          add_scaled<S::kOffsets>(acc[t][r], sums[t][0], s.scale[0], s.offset[0],
                                  L::kZero, a.scale, a.sum_both, a.scaled_sum_both);
    }
  }
}

// Spans of a tile.
struct Spans {
  const uint8_t* p;
  int n_spans;
  int groups_in_span;
  size_t header_bytes, scale_bytes, group_bytes;
};

// acts + g * act_stride are group g's rows.
template <typename Add, typename L, int rows>
void meet(const Spans& s, const ActGroup* acts, size_t act_stride, float* acc) {
  float32x4_t sum[rows][2];
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) sum[t][r] = vld1q_f32(acc + t * kTileRows + 4 * r);
  const uint8_t* p = s.p;
  for (int span = 0; span < s.n_spans; ++span) {
    const typename L::S::Header headers[2] = {L::S::header(p, 0), L::S::header(p, 1)};
    p += s.header_bytes;
    for (int i = 0; i < s.groups_in_span; ++i, p += s.group_bytes, acts += act_stride) {
      meet_group<Add, L>(p, s.scale_bytes, headers[0], acts, 0, sum);
      meet_group<Add, L>(p, s.scale_bytes, headers[1], acts, 1, sum);
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) vst1q_f32(acc + t * kTileRows + 4 * r, sum[t][r]);
}

template <typename Add, typename L>
void meet_tile(const WeightSegment& s, int tile, const MatmulInput& in, float* acc) {
  const TileLayout& l = s.layout;
  const auto* bytes =
      reinterpret_cast<const uint8_t*>(s.data) + size_t(tile) * s.tile_bytes;
  const size_t span_bytes = l.span_bytes();
  Spans spans{.p = bytes,
              .n_spans = s.n_cols / l.span_cols,
              .groups_in_span = l.span_cols / kGroupCols,
              .header_bytes = l.header_bytes(),
              .scale_bytes = l.scale_bytes(),
              .group_bytes = l.group_bytes()};
  // More rows than registers hold meet the tile in turns, part by part, so that all but
  // the first find it in the first-level cache.
  constexpr int kPartCols = 1024;
  const int n_spans = spans.n_spans;
  const int part = in.n_rows <= kMostRows || l.span_cols > kPartCols
                       ? n_spans
                       : kPartCols / l.span_cols;
  for (int span = 0; span < n_spans; span += part) {
    spans.p = bytes + size_t(span) * span_bytes;
    spans.n_spans = n_spans - span < part ? n_spans - span : part;
    const ActGroup* acts = in.acts + size_t(span * spans.groups_in_span) * in.act_stride;
    for (int t = 0; t < in.n_rows; t += kMostRows) {
      const int left = in.n_rows - t;
      const auto run = left >= 4   ? meet<Add, L, 4>
                       : left == 3 ? meet<Add, L, 3>
                       : left == 2 ? meet<Add, L, 2>
                                   : meet<Add, L, 1>;
      run(spans, acts + t, in.act_stride, acc + t * kTileRows);
    }
  }
}

template <typename Add, typename L>
void few_rows(const WeightSegment& s, int tile, int n_tiles, const MatmulInput& in,
              float* acc) {
  for (int i = 0; i < n_tiles; ++i, acc += size_t(in.n_rows) * kTileRows) {
    for (int j = 0; j < in.n_rows * kTileRows; ++j) acc[j] = 0.0f;
    meet_tile<Add, L>(s, tile + i, in, acc);
  }
}

// ---- the table ----------------------------------------------------------------------

struct Choice {
  int bits;
  CodeTable table;
  ScaleKind scales;
  int zero;
  FewRows run;
};
template <typename Add, typename Codes, ScaleKind scales, int zero = 0>
constexpr Choice choice(int bits, CodeTable table = CodeTable::none) {
  return {bits, table, scales, zero, few_rows<Add, Layout<Codes, scales, zero>>};
}
using Iq4 = TableBits<CodeTable::iq4>;
using E2m1 = TableBits<CodeTable::e2m1>;

template <typename Add>
constexpr Choice kChoices[] = {
    choice<Add, FourBits, ScaleKind::f16, -8>(4),                   // q4_0
    choice<Add, FourBits, ScaleKind::f16_min>(4),                   // q4_1
    choice<Add, FourBits, ScaleKind::k_min>(4),                     // q4_k
    choice<Add, FiveBits, ScaleKind::f16, -16>(5),                  // q5_0
    choice<Add, FiveBits, ScaleKind::f16_min>(5),                   // q5_1
    choice<Add, FiveBits, ScaleKind::k_min>(5),                     // q5_k
    choice<Add, SixBits, ScaleKind::f16_times_16, -32>(6),          // q6_k
    choice<Add, EightBits, ScaleKind::f16>(8),                      // q8_0
    choice<Add, TwoBits, ScaleKind::k_min_16>(2),                   // q2_k
    choice<Add, ThreeBits, ScaleKind::f16_times_16, -4>(3),         // q3_k
    choice<Add, Iq4, ScaleKind::f16>(4, CodeTable::iq4),            // iq4_nl
    choice<Add, Iq4, ScaleKind::f16_times_32>(4, CodeTable::iq4),   // iq4_xs
    choice<Add, E2m1, ScaleKind::e8m0_halved>(4, CodeTable::e2m1),  // mxfp4
    choice<Add, FourBits, ScaleKind::affine_f16>(4),                // MLX
    choice<Add, FourBits, ScaleKind::affine_bf16>(4),               // MLX
    choice<Add, EightBits, ScaleKind::affine_f16, 128>(8),          // MLX
    choice<Add, EightBits, ScaleKind::affine_bf16, 128>(8),         // MLX
};

template <typename Add>
FewRows choose_few_rows(const WeightSegment& s) {
  if (s.kind != SegmentKind::tiles) return neon_few_floats(s);
  for (const Choice& c : kChoices<Add>)
    if (c.bits == s.layout.bits && c.table == s.layout.table &&
        c.scales == s.layout.scales && c.zero == s.layout.format.zero)
      return c.run;
  return nullptr;
}

}  // namespace
}  // namespace ingot::cpu
