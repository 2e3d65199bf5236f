// The table of kernels that one instruction set provides, and the data they pass around.
// cpu/NUMERICS.md says which sums they form in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/ops.h"

namespace ingot::cpu {

constexpr int kTileRows = 8;     // weight rows that a kernel computes together
constexpr int kGroupCols = 32;   // columns that share an activation scale
constexpr int kChunkCols = 256;  // columns unpacked at once: the largest quant group
constexpr int kChunkGroups = kChunkCols / kGroupCols;
constexpr int kMostTilesTogether = 4;

// 32 activations as int8: x[i] is about scale * code[i].  One cache line.  The sums are
// whole numbers below 2^24: exact as float32.
struct alignas(64) ActGroup {
  int8_t code[kGroupCols];
  float scale;
  float sum[2];         // of the codes of each half
  float scaled_sum[2];  // scale * sum[h]
  float sum_both;
  float scaled_sum_both;
  float unused;
};
// Smaller groups become zero: the scale's inverse must stay finite.
constexpr float kSmallestActivation = 0x1p-100f;
static_assert(sizeof(ActGroup) == 64);

// 8 weight rows x 32 columns, unpacked: value = scale * (code + zero) + offset, with one
// scale and offset a row and half of the columns.  Codes lie as [chunk of 4 columns][row]
// [column], so that 4 activations broadcast meet all rows in one multiplication.
struct alignas(64) TileGroup {
  uint8_t code[kGroupCols / 4][kTileRows][4];
  float scale[2][kTileRows];
  float offset[2][kTileRows];
};

// What is known about the codes in a TileGroup; chooses the integer kernel.
enum class CodeRange : uint8_t { s8, u4, u5, u6 };  // s8: two's complement, -128 .. 127
struct TileFormat {
  CodeRange range = CodeRange::s8;
  int zero = 0;         // added to every code
  bool halves = true;   // scales differ between the halves, else only [0] is set
  bool offsets = true;  // else offset is not set
};

struct WeightSegment;  // packed.h

// Fills out[0 .. n_groups) from columns first_group * 32 and on of tile `tile`.
using UnpackTile = void (*)(const WeightSegment& segment, int tile, int first_group,
                            int n_groups, TileGroup* out);

// Rows that meet one weight, as float32 and, where a segment wants them, as int8.
struct MatmulInput {
  int n_rows = 0;
  const float* x = nullptr;  // row i is x + i * x_stride
  size_t x_stride = 0;
  const ActGroup* acts = nullptr;  // group g of row i is acts[g * act_stride + i]
  size_t act_stride = 0;
  const int32_t* out_rows = nullptr;  // row i of the result goes there; null: to row i
};

// acc[tile][i][row] = the products of n_tiles whole tiles, from `tile` on, with row i of
// the input, i < n_rows.
using FewRows = void (*)(const WeightSegment& segment, int tile, int n_tiles,
                         const MatmulInput& in, float* acc);
constexpr int kFewRowsTiles = 16;  // the largest n_tiles

// How keys or values of one page and head lie: rows of `dim` elements.
struct KvRun {
  const std::byte* data = nullptr;
  const float* scales = nullptr;  // q8: one a row
  KvType type = KvType::f16;
  int dim = 0;
};

inline KvRun float_run(const float* rows, int dim) {
  return {reinterpret_cast<const std::byte*>(rows), nullptr, KvType::f32, dim};
}

// Rows of sums over terms: out[r] += weight(r, j) * value[j], j = 0 .. n_terms - 1 in
// this order, where value[j] has `dim` columns.  A step leads from one to the next, in
// floats.
struct WeightedSums {
  const float* weights = nullptr;
  ptrdiff_t row_step = 0;   // of weights
  ptrdiff_t term_step = 0;  // of weights
  const float* values = nullptr;
  ptrdiff_t value_step = 0;
  int n_terms = 0;
  int n_rows = 0;
  int dim = 0;
  float* out = nullptr;
  ptrdiff_t out_step = 0;
};

struct Kernels {
  std::string_view isa;

  // ---- matmul
  // n_groups * 32 activations of a row; group g goes to out[g * out_stride].
  void (*quantise)(const float* x, int n_groups, ActGroup* out, size_t out_stride);
  // Unpacks segments that have a layout.
  UnpackTile unpack;
  // Many rows, from unpacked tiles, n_tiles side by side: groups of tile i begin at w + i
  // * kChunkGroups, its sums at acc + i * n_tokens * 8.
  int tiles_together;  // the largest n_tiles
  // acc[t][row] += the products of tokens t with n_groups groups.  acts + t + g *
  // act_stride is token t's group g.
  void (*dot_int8)(const TileGroup* w, int n_tiles, const TileFormat& format,
                   int n_groups, const ActGroup* acts, size_t act_stride, int n_tokens,
                   float* acc);
  // The kernel that takes few rows straight from the packed tile, or null.
  FewRows (*few_rows)(const WeightSegment& segment);
  // out[column][row] = exact values of n_groups groups.
  void (*tile_to_f32)(const TileGroup* w, const TileFormat& format, int n_groups,
                      float* out);
  // acc[t][row] += sum over columns of w[column][row] * x[t][column]; columns of tile i
  // begin at w + i * w_stride, its sums at acc + i * n_tokens * 8.
  void (*dot_f32)(const float* w, int n_tiles, size_t w_stride, int n_cols,
                  const float* x, size_t x_stride, int n_tokens, float* acc);
  // n float16 or bfloat16 values as float32.
  void (*f16_to_f32)(const uint16_t* source, int n, float* out);
  void (*bf16_to_f32)(const uint16_t* source, int n, float* out);

  // ---- rows of floats
  double (*sum)(const float* x, int n);
  double (*sum_squares)(const float* x, int n, double mean);  // of x - mean
  // out = x * scale * weight
  void (*scale_rows)(float* out, const float* x, float scale, const float* weight, int n);
  // out = (x - mean) * scale * weight + bias
  void (*normalise)(float* out, const float* x, float mean, float scale,
                    const float* weight, const float* bias, int n);
  void (*add)(float* x, const float* h, int n);
  void (*activate)(float* x, int n, Activation kind);  // x = act(x)
  void (*gate)(float* out, const float* gate, const float* up, int n, Activation kind);
  // out = (up + 1) g sigmoid(alpha g), g = min(gate, limit), up held within +-limit
  void (*gate_limited)(float* out, const float* gate, const float* up, int n, float limit,
                       float alpha);
  void (*soft_cap)(float* x, int n, float cap);  // cap tanh(x / cap)
  bool (*all_finite)(const float* x, int n);
  int (*argmax)(const float* x, int n);  // lowest index of the largest; -1: only NaN

  // ---- attention
  // n rows as float32, exactly (q8: scale * code).
  void (*widen_kv)(const KvRun& run, int n, float* out);
  // Runs are float32; where this is set, those of the next two may also be float16.
  bool reads_f16_runs;
  // scores[q][j] = scale * (query q . key j), rows of scores kPageTokens apart.
  void (*scores)(const float* queries, int n_queries, const KvRun& keys, int n_keys,
                 float scale, float* scores);
  // acc[q] = acc[q] * rescale[q] + sum over j of weights[q][j] * values[j], rows of
  // weights kPageTokens apart, acc: [n_queries, dim]
  void (*accumulate_run)(const float* weights, int n_queries, const KvRun& values, int n,
                         const float* rescale, float* acc);
  float (*max)(const float* x, int n);  // passes over NaN; n >= 1
  // x = exp(x - shift); returns their sum.
  float (*exp_sum)(float* x, int n, float shift);
  // acc = acc * rescale + sum over j of weights[j] * values[j]       values: [n, dim]
  void (*accumulate)(const float* weights, int n, const float* values, int dim,
                     float rescale, float* acc);
  // Stores one key or value; returns the q8 scale, 0 for other types.
  float (*store)(const float* x, int n, KvType type, std::byte* out);

  // ---- recurrent layers
  // A column of a row is one chain, the same whatever rows and columns stand beside it.
  void (*add_weighted)(const WeightedSums& sums);
  // out[c] = sum over j of weight[j][c] * x[j][c], j ascending.  Rows of x are x_step
  // apart, weight: [kernel, n].
  void (*short_conv)(const float* x, size_t x_step, const float* weight, int kernel,
                     int n, float* out);
};

const Kernels& scalar_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();  // with VNNI
const Kernels& amx_kernels();     // AMX-INT8, beside AVX-512
#elif defined(__aarch64__)
const Kernels& neon_kernels();
// "neon-plain", "neon-dotprod" or "neon-i8mm": the same bits by other instructions.  Null
// when this CPU lacks them.
const Kernels* neon_variant(std::string_view isa);
#endif

// The tables that this machine can run, each better than the one before it.
std::vector<const Kernels*> kernel_tables();
// isa: "auto" (the last of those) or a name of theirs.  Throws Error when this CPU or
// build lacks it.
const Kernels& choose_kernels(std::string_view isa);

}  // namespace ingot::cpu
