// AVX-512 with VNNI: a tile of quantised weights meets 1 to 8 rows on its way from
// memory, as in avx2_few_rows.cc and with its bits: whole numbers are exact, floats are
// added in the same order.  Registers are 256 bits wide, a tile's 8 rows; vpdpbusd makes
// of three instructions one, and 32 registers hold twice the rows.
#include "ops/cpu/avx2_codes.h"
#include "ops/cpu/avx512.h"
#include "ops/cpu/packed.h"

namespace ingot::cpu {
namespace {

constexpr int kPrefetchBytes = 4096;  // ahead of the group at hand
constexpr int kMostRows = 8;          // that registers hold

// A layout that is worth a kernel of its own.  vpdpbusd wants unsigned codes: signed ones
// become code + 128, and 128 less goes into the zero.
template <typename CodesOf, ScaleKind kind, int zero_of>
struct Layout {
  using Codes = CodesOf;
  using S = Scales<kind>;
  static constexpr bool kSigned = Codes::kRange == CodeRange::s8;
  static constexpr int kZero = kSigned ? zero_of - 128 : zero_of;
  static constexpr size_t kHeaderBytes = S::kHeaderBytes;
  static constexpr size_t kScaleBytes = S::kGroupBytes;
  static constexpr size_t kGroupBytes = kScaleBytes + size_t(Codes::kBits) * 32;
};

// Whole sums of one group for each row, the first and the second half apart.
template <typename L, int rows>
inline void sum_group(const uint8_t* p, const ActGroup* y, __m256i (&total)[rows][2]) {
#pragma GCC unroll 8
  for (int t = 0; t < rows; ++t) total[t][0] = total[t][1] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    __m256i low, high;
    L::Codes::pair(p, v, low, high);
    if constexpr (L::kSigned) {
      low = _mm256_xor_si256(low, _mm256_set1_epi8(char(0x80)));
      high = _mm256_xor_si256(high, _mm256_set1_epi8(char(0x80)));
    }
#pragma GCC unroll 8
    for (int t = 0; t < rows; ++t) {
      constexpr bool kOneSum = !L::S::kHalves && rows > 2;  // enough chains without two
      total[t][0] = _mm256_dpbusd_epi32(total[t][0], low, broadcast4(y[t].code + 4 * v));
      __m256i& second = total[t][kOneSum ? 0 : 1];
      second = _mm256_dpbusd_epi32(second, high, broadcast4(y[t].code + 4 * (v + 4)));
    }
  }
}

template <typename L>
inline __m256 add_scaled(__m256 acc, __m256i sum, __m256 scale, __m256 offset,
                         float y_scale, float y_sum, float y_scaled_sum) {
  __m256 whole = _mm256_cvtepi32_ps(sum);
  if constexpr (L::kZero != 0)
    whole =
        _mm256_fmadd_ps(_mm256_set1_ps(float(L::kZero)), _mm256_set1_ps(y_sum), whole);
  acc = _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(y_scale)), whole, acc);
  if constexpr (L::S::kOffsets)
    acc = _mm256_fmadd_ps(offset, _mm256_set1_ps(y_scaled_sum), acc);
  return acc;
}

// Spans [0, n_spans) of a tile; acts + g * act_stride are group g's rows.
template <typename L, int rows>
void meet(const uint8_t* p, int n_spans, int groups_in_span, const ActGroup* acts,
          size_t act_stride, bool from_zero, float* acc) {
  using S = typename L::S;
  __m256 sum[rows];
#pragma GCC unroll 8
  for (int t = 0; t < rows; ++t)
    sum[t] = from_zero ? _mm256_setzero_ps() : _mm256_loadu_ps(acc + t * kTileRows);
  for (int span = 0; span < n_spans; ++span) {
    const typename S::Header header = S::header(p);
    p += L::kHeaderBytes;
    for (int i = 0; i < groups_in_span; ++i, p += L::kGroupBytes, acts += act_stride) {
#pragma GCC unroll 5
      for (size_t line = 0; line < L::kGroupBytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(p) + kPrefetchBytes + line,
                     _MM_HINT_T0);
      __m256i total[rows][2];
      sum_group<L>(p + L::kScaleBytes, acts, total);
      const GroupScales s = S::group(header, p);
#pragma GCC unroll 8
      for (int t = 0; t < rows; ++t) {
        const ActGroup& y = acts[t];
        if constexpr (S::kHalves) {
          for (int h = 0; h < 2; ++h)
            sum[t] = add_scaled<L>(sum[t], total[t][h], s.scale[h], s.offset[h], y.scale,
                                   y.sum[h], y.scaled_sum[h]);
        } else {
          sum[t] = add_scaled<L>(sum[t], _mm256_add_epi32(total[t][0], total[t][1]),
                                 s.scale[0], s.offset[0], y.scale, y.sum_both,
                                 y.scaled_sum_both);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < rows; ++t) _mm256_storeu_ps(acc + t * kTileRows, sum[t]);
}

template <typename L>
void few_rows(const WeightSegment& s, int tile, int n_tiles, const MatmulInput& in,
              float* acc) {
  const int span_cols = s.layout.span_cols;
  const int groups_in_span = span_cols / kGroupCols;
  const size_t span_bytes = L::kHeaderBytes + size_t(groups_in_span) * L::kGroupBytes;
  const int n_spans = s.n_cols / span_cols;
  const auto* bytes =
      reinterpret_cast<const uint8_t*>(s.data) + size_t(tile) * s.tile_bytes;
  // More rows than registers hold meet the tile in turns, part by part, so that all but
  // the first find it in the first-level cache.
  constexpr int kPartCols = 1024;
  const bool whole = in.n_rows <= 4 || in.n_rows == kMostRows || span_cols > kPartCols;
  const int part = whole ? n_spans : kPartCols / span_cols;
  for (int i = 0; i < n_tiles; ++i) {
    for (int span = 0; span < n_spans; span += part) {
      const int n = n_spans - span < part ? n_spans - span : part;
      const ActGroup* acts = in.acts + size_t(span * groups_in_span) * in.act_stride;
      const uint8_t* p = bytes + size_t(span) * span_bytes;
      for (int t = 0; t < in.n_rows;) {
        const int left = in.n_rows - t;
        const int rows = left >= kMostRows ? kMostRows : left >= 4 ? 4 : left;
        const auto run = rows == kMostRows ? meet<L, kMostRows>
                         : rows == 4       ? meet<L, 4>
                         : rows == 3       ? meet<L, 3>
                         : rows == 2       ? meet<L, 2>
                                           : meet<L, 1>;
        run(p, n, groups_in_span, acts + t, in.act_stride, span == 0,
            acc + t * kTileRows);
        t += rows;
      }
    }
    bytes += s.tile_bytes;
    acc += size_t(in.n_rows) * kTileRows;
  }
}

struct Choice {
  int bits;
  CodeTable table;
  ScaleKind scales;
  int zero;
  FewRows run;
};
template <typename Codes, ScaleKind scales, int zero = 0>
constexpr Choice choice(int bits, CodeTable table = CodeTable::none) {
  return {bits, table, scales, zero, few_rows<Layout<Codes, scales, zero>>};
}
using Iq4 = TableBits<CodeTable::iq4>;
using E2m1 = TableBits<CodeTable::e2m1>;

constexpr Choice kChoices[] = {
    choice<FourBits, ScaleKind::f16, -8>(4),                   // q4_0
    choice<FourBits, ScaleKind::f16_min>(4),                   // q4_1
    choice<FourBits, ScaleKind::k_min>(4),                     // q4_k
    choice<FiveBits, ScaleKind::f16, -16>(5),                  // q5_0
    choice<FiveBits, ScaleKind::f16_min>(5),                   // q5_1
    choice<FiveBits, ScaleKind::k_min>(5),                     // q5_k
    choice<SixBits, ScaleKind::f16_times_16, -32>(6),          // q6_k
    choice<EightBits, ScaleKind::f16>(8),                      // q8_0
    choice<Iq4, ScaleKind::f16>(4, CodeTable::iq4),            // iq4_nl
    choice<Iq4, ScaleKind::f16_times_32>(4, CodeTable::iq4),   // iq4_xs
    choice<E2m1, ScaleKind::e8m0_halved>(4, CodeTable::e2m1),  // mxfp4
    choice<FourBits, ScaleKind::affine_f16>(4),                // MLX
    choice<FourBits, ScaleKind::affine_bf16>(4),               // MLX
    choice<EightBits, ScaleKind::affine_f16, 128>(8),          // MLX
    choice<EightBits, ScaleKind::affine_bf16, 128>(8),         // MLX
};

// The other layouts, and float weights, keep AVX2's kernels.
FewRows choose(const WeightSegment& s) {
  if (s.kind == SegmentKind::tiles)
    for (const Choice& c : kChoices)
      if (c.bits == s.layout.bits && c.table == s.layout.table &&
          c.scales == s.layout.scales && c.zero == s.layout.format.zero)
        return c.run;
  return avx2_kernels().few_rows(s);
}

}  // namespace

void add_avx512_few_rows(Kernels& table) { table.few_rows = choose; }

}  // namespace ingot::cpu
