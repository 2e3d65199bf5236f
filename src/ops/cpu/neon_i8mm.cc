// Matrix instructions: 2 weight rows times 2 tokens over 8 columns at once; compiled with
// -march=armv8.2-a+dotprod+i8mm.
#include "ops/cpu/neon_dot.h"

namespace ingot::cpu {
namespace {

struct Squares {
  static constexpr int kTokens = 8;

  // Sum (row 2 i + lane / 2, token 2 p + lane % 2) is in squares[p][i].
  template <int pairs>
  using Matrix = int32x4_t[pairs][4];

  // Columns 8 k .. 8 k + 7.  An odd last token stands in for its neighbour.
  template <int tokens, int pairs>
  [[gnu::always_inline]] static void add_columns(const TileGroup& w, int k,
                                                 const ActGroup* y,
                                                 Matrix<pairs>& squares) {
    const auto* a = reinterpret_cast<const int32_t*>(w.code[2 * k]);
    const auto* b = reinterpret_cast<const int32_t*>(w.code[2 * k + 1]);
    int8x16_t rows[4];  // 2 rows of 8 columns
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      const int32x4_t first = vld1q_s32(a + 4 * r), second = vld1q_s32(b + 4 * r);
      rows[2 * r] = vreinterpretq_s8_s32(vzip1q_s32(first, second));
      rows[2 * r + 1] = vreinterpretq_s8_s32(vzip2q_s32(first, second));
    }
#pragma GCC unroll 4
    for (int p = 0; p < pairs; ++p) {
      const ActGroup& even = y[2 * p];
      const ActGroup& odd = y[2 * p + (2 * p + 1 < tokens ? 1 : 0)];
      const int8x16_t acts =
          vcombine_s8(vld1_s8(even.code + 8 * k), vld1_s8(odd.code + 8 * k));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        squares[p][i] = vmmlaq_s32(squares[p][i], rows[i], acts);
    }
    end_step();
  }

  // Halves [first, first + n) of a group.
  template <bool small, int n, int tokens>
  static void sum(const TileGroup& w, int first, const ActGroup* y, Sums<tokens>& sums) {
    constexpr int kPairs = (tokens + 1) / 2;
    Matrix<kPairs> squares;
#pragma GCC unroll 16
    for (int i = 0; i < kPairs * 4; ++i) squares[i / 4][i % 4] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int k = 2 * first; k < 2 * (first + n); ++k)
      add_columns<tokens>(w, k, y, squares);
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t)
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        const int32x4_t low = squares[t / 2][2 * r], high = squares[t / 2][2 * r + 1];
        sums[t][r] = t % 2 == 0 ? vuzp1q_s32(low, high) : vuzp2q_s32(low, high);
      }
  }
};

}  // namespace

NeonProducts neon_i8mm() { return {dot_int8_by<Squares>, neon_dotprod().few_rows}; }

}  // namespace ingot::cpu
