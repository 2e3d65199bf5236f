// AVX2: a tile of quantised weights meets 1 to 4 rows, unpacked in registers on its way
// from memory: what decoding and short verify passes run.  The sums are those of
// avx2_matmul.cc: whole numbers are exact in any order, floats are added in the same one.
#include "ops/cpu/avx2_codes.h"
#include "ops/cpu/packed.h"
#include "ops/testing_faults.h"

namespace ingot::cpu {
namespace {

// Memory is asked for so far ahead of the group at hand.
inline size_t prefetch_bytes() { return switched("no_prefetch") ? 0 : 4096; }
constexpr int kMostRows = 4;  // that registers hold

// How many pairs of products of unsigned codes fit an int16: 2 * 127 * code * n <= 32767.
constexpr int sums_in_int16(CodeRange range) {
  return range == CodeRange::u4 ? 8 : range == CodeRange::u5 ? 4 : 2;
}

template <CodeRange range>
inline __m256i product(__m256i w, __m256i y) {
  if constexpr (range == CodeRange::s8)  // |w| * (sign of w) y: at most 2 * 128 * 127
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(y, w));
  else
    return _mm256_maddubs_epi16(w, y);
}

inline __m256i widened(__m256i pairs) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// Whole sums of one group for each row: of both halves apart, or of all in [0].
template <typename Codes, bool halves, int rows>
inline void sum_group(const uint8_t* p, const ActGroup* y, __m256i (&total)[rows][2]) {
  constexpr int kMost = Codes::kRange == CodeRange::s8 ? 1 : sums_in_int16(Codes::kRange);
  __m256i run[rows][2];  // int16, of products not yet in total
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    __m256i low, high;
    Codes::pair(p, v, low, high);
#pragma GCC unroll 4
    for (int t = 0; t < rows; ++t) {
      __m256i a = product<Codes::kRange>(low, broadcast4(y[t].code + 4 * v));
      __m256i b = product<Codes::kRange>(high, broadcast4(y[t].code + 4 * (v + 4)));
      if constexpr (halves) {
        constexpr int kPeriod = kMost < 4 ? kMost : 4;  // products of one half a run
        if (v % kPeriod != 0) {
          a = _mm256_add_epi16(a, run[t][0]);
          b = _mm256_add_epi16(b, run[t][1]);
        }
        if (v % kPeriod == kPeriod - 1) {
          const bool first = v == kPeriod - 1;
          total[t][0] = first ? widened(a) : _mm256_add_epi32(total[t][0], widened(a));
          total[t][1] = first ? widened(b) : _mm256_add_epi32(total[t][1], widened(b));
        }
        run[t][0] = a;
        run[t][1] = b;
      } else if constexpr (kMost == 1) {
        const __m256i both = _mm256_add_epi32(widened(a), widened(b));
        total[t][0] = v == 0 ? both : _mm256_add_epi32(total[t][0], both);
      } else {
        constexpr int kPeriod = kMost / 2;  // each v adds two products
        a = _mm256_add_epi16(a, b);
        if (v % kPeriod != 0) a = _mm256_add_epi16(a, run[t][0]);
        if (v % kPeriod == kPeriod - 1) {
          const bool first = v == kPeriod - 1;
          total[t][0] = first ? widened(a) : _mm256_add_epi32(total[t][0], widened(a));
        }
        run[t][0] = a;
      }
    }
  }
}

template <bool zeros, bool offsets>
inline __m256 add_scaled(__m256 acc, __m256i sum, __m256 scale, __m256 offset, float zero,
                         float y_scale, float y_sum, float y_scaled_sum) {
  __m256 whole = _mm256_cvtepi32_ps(sum);
  if constexpr (zeros)
    whole = _mm256_fmadd_ps(_mm256_set1_ps(zero), _mm256_set1_ps(y_sum), whole);
  acc = _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(y_scale)), whole, acc);
  if constexpr (offsets) acc = _mm256_fmadd_ps(offset, _mm256_set1_ps(y_scaled_sum), acc);
  return acc;
}

// A layout that is worth a kernel of its own; sizes as TileLayout says.
template <typename CodesOf, ScaleKind kind, int zero_of>
struct Layout {
  using Codes = CodesOf;
  using S = Scales<kind>;
  static constexpr int kZero = zero_of;
  static constexpr size_t kHeaderBytes = S::kHeaderBytes;
  static constexpr size_t kScaleBytes = S::kGroupBytes;
  static constexpr size_t kGroupBytes = kScaleBytes + size_t(Codes::kBits) * 32;
};

// Spans [0, n_spans) of a tile; acts + g * act_stride are group g's rows.
template <typename L, int rows>
void meet(const uint8_t* p, int n_spans, int groups_in_span, const ActGroup* acts,
          size_t act_stride, bool from_zero, float* acc) {
  using S = typename L::S;
  constexpr bool kZeros = L::kZero != 0;
  const size_t ahead = prefetch_bytes();
  __m256 sum[rows];
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
    sum[t] = from_zero ? _mm256_setzero_ps() : _mm256_loadu_ps(acc + t * kTileRows);
  for (int span = 0; span < n_spans; ++span) {
    const typename S::Header header = S::header(p);
    p += L::kHeaderBytes;
    for (int i = 0; i < groups_in_span; ++i, p += L::kGroupBytes, acts += act_stride) {
#pragma GCC unroll 5
      for (size_t line = 0; line < L::kGroupBytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(p) + ahead + line, _MM_HINT_T0);
      __m256i total[rows][2];
      sum_group<typename L::Codes, S::kHalves>(p + L::kScaleBytes, acts, total);
      const GroupScales s = S::group(header, p);
#pragma GCC unroll 4
      for (int t = 0; t < rows; ++t) {
        const ActGroup& y = acts[t];
        if constexpr (S::kHalves) {
          for (int h = 0; h < 2; ++h)
            sum[t] = add_scaled<kZeros, S::kOffsets>(sum[t], total[t][h], s.scale[h],
                                                     s.offset[h], float(L::kZero),
                                                     y.scale, y.sum[h], y.scaled_sum[h]);
        } else {
          sum[t] = add_scaled<kZeros, S::kOffsets>(sum[t], total[t][0], s.scale[0],
                                                   s.offset[0], float(L::kZero), y.scale,
                                                   y.sum_both, y.scaled_sum_both);
        }
      }
    }
  }
#pragma GCC unroll 4
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
  const int part =
      in.n_rows <= kMostRows || span_cols > kPartCols ? n_spans : kPartCols / span_cols;
  for (int i = 0; i < n_tiles; ++i) {
    for (int span = 0; span < n_spans; span += part) {
      const int n = n_spans - span < part ? n_spans - span : part;
      const ActGroup* acts = in.acts + size_t(span * groups_in_span) * in.act_stride;
      const uint8_t* p = bytes + size_t(span) * span_bytes;
      for (int t = 0; t < in.n_rows; t += kMostRows) {
        const int left = in.n_rows - t;
        const auto run = left >= 4   ? meet<L, 4>
                         : left == 3 ? meet<L, 3>
                         : left == 2 ? meet<L, 2>
                                     : meet<L, 1>;
        run(p, n, groups_in_span, acts + t, in.act_stride, span == 0,
            acc + t * kTileRows);
      }
    }
    bytes += s.tile_bytes;
    acc += size_t(in.n_rows) * kTileRows;
  }
}

// ---- float weights ------------------------------------------------------------------

struct F32 {
  using Element = float;
  static __m256 load(const float* p) { return _mm256_loadu_ps(p); }
};
struct F16 {
  using Element = uint16_t;
  static __m256 load(const uint16_t* p) {
    return f16s(reinterpret_cast<const uint8_t*>(p));
  }
};
struct Bf16 {
  using Element = uint16_t;
  static __m256 load(const uint16_t* p) {
    return bf16s(reinterpret_cast<const uint8_t*>(p));
  }
};

// n columns, at most 32; even and odd ones are summed apart (avx2_matmul.cc).
template <typename Type, int rows>
inline void meet_columns(const typename Type::Element* w, int n, const float* x,
                         size_t x_stride, __m256 (&sum)[rows]) {
  __m256 even[rows], odd[rows];
  for (int t = 0; t < rows; ++t) even[t] = odd[t] = _mm256_setzero_ps();
  int c = 0;
  for (; c + 2 <= n; c += 2) {
    const __m256 w0 = Type::load(w + c * kTileRows);
    const __m256 w1 = Type::load(w + (c + 1) * kTileRows);
    for (int t = 0; t < rows; ++t) {
      const float* row = x + size_t(t) * x_stride + c;
      even[t] = _mm256_fmadd_ps(w0, _mm256_broadcast_ss(row), even[t]);
      odd[t] = _mm256_fmadd_ps(w1, _mm256_broadcast_ss(row + 1), odd[t]);
    }
  }
  if (c < n)
    for (int t = 0; t < rows; ++t)
      even[t] =
          _mm256_fmadd_ps(Type::load(w + c * kTileRows),
                          _mm256_broadcast_ss(x + size_t(t) * x_stride + c), even[t]);
  for (int t = 0; t < rows; ++t)
    sum[t] = _mm256_add_ps(sum[t], _mm256_add_ps(even[t], odd[t]));
}

template <typename Type, int rows>
void meet_floats(const typename Type::Element* w, int n_cols, const float* x,
                 size_t x_stride, bool from_zero, float* acc) {
  const size_t ahead = prefetch_bytes();
  __m256 sum[rows];
#pragma GCC unroll 4
  for (int t = 0; t < rows; ++t)
    sum[t] = from_zero ? _mm256_setzero_ps() : _mm256_loadu_ps(acc + t * kTileRows);
  for (int c = 0; c < n_cols; c += kGroupCols) {
    const auto* at = w + c * kTileRows;
    for (size_t line = 0; line < sizeof(*w) * kGroupCols * kTileRows; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at) + ahead + line, _MM_HINT_T0);
    if (n_cols - c >= kGroupCols)
      meet_columns<Type>(at, kGroupCols, x + c, x_stride, sum);
    else
      meet_columns<Type>(at, n_cols - c, x + c, x_stride, sum);
  }
  for (int t = 0; t < rows; ++t) _mm256_storeu_ps(acc + t * kTileRows, sum[t]);
}

template <typename Type>
void few_float_rows(const WeightSegment& s, int tile, int n_tiles, const MatmulInput& in,
                    float* acc) {
  constexpr int kPartCols = 256;
  const int part = in.n_rows <= kMostRows ? s.n_cols : kPartCols;
  for (int i = tile; i < tile + n_tiles; ++i) {
    const auto* w = reinterpret_cast<const typename Type::Element*>(
        s.data + size_t(i) * s.tile_bytes);
    for (int c = 0; c < s.n_cols; c += part) {
      const int n = s.n_cols - c < part ? s.n_cols - c : part;
      for (int t = 0; t < in.n_rows; t += kMostRows) {
        const int left = in.n_rows - t;
        const auto run = left >= 4   ? meet_floats<Type, 4>
                         : left == 3 ? meet_floats<Type, 3>
                         : left == 2 ? meet_floats<Type, 2>
                                     : meet_floats<Type, 1>;
        run(w + size_t(c) * kTileRows, n, in.x + size_t(t) * in.x_stride + c, in.x_stride,
            c == 0, acc + t * kTileRows);
      }
    }
    acc += size_t(in.n_rows) * kTileRows;
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
    choice<TwoBits, ScaleKind::k_min_16>(2),                   // q2_k
    choice<ThreeBits, ScaleKind::f16_times_16, -4>(3),         // q3_k
    choice<Iq4, ScaleKind::f16>(4, CodeTable::iq4),            // iq4_nl
    choice<Iq4, ScaleKind::f16_times_32>(4, CodeTable::iq4),   // iq4_xs
    choice<E2m1, ScaleKind::e8m0_halved>(4, CodeTable::e2m1),  // mxfp4
    choice<FourBits, ScaleKind::affine_f16>(4),                // MLX
    choice<FourBits, ScaleKind::affine_bf16>(4),               // MLX
    choice<EightBits, ScaleKind::affine_f16, 128>(8),          // MLX
    choice<EightBits, ScaleKind::affine_bf16, 128>(8),         // MLX
};

FewRows choose(const WeightSegment& s) {
  if (s.kind == SegmentKind::f32) return few_float_rows<F32>;
  if (s.kind == SegmentKind::f16) return few_float_rows<F16>;
  if (s.kind == SegmentKind::bf16) return few_float_rows<Bf16>;
  if (s.kind != SegmentKind::tiles) return nullptr;
  for (const Choice& c : kChoices)
    if (c.bits == s.layout.bits && c.table == s.layout.table &&
        c.scales == s.layout.scales && c.zero == s.layout.format.zero)
      return c.run;
  return nullptr;
}

}  // namespace

void add_avx2_few_rows(Kernels& table) { table.few_rows = choose; }

}  // namespace ingot::cpu
