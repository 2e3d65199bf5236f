// The kernels in portable C++: always there, and what the others are compared beside.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/tile_layout.h"

namespace ingot::cpu {
namespace {

// ---- matmul -------------------------------------------------------------------------

// The largest magnitude, or NaN when a value is not finite: then the scale is NaN and
// carries it into every result.
float largest_magnitude(const float* x, int n) {
  float largest = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<float>::quiet_NaN();
    largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  }
  return largest;
}

// 1 / scale, 0 where every code shall be 0.
float inverse_scale(float largest) {
  return largest >= kSmallestActivation ? 127.0f / largest : 0.0f;
}
float scale_of(float largest) {
  return largest < kSmallestActivation ? 0.0f : largest / 127.0f;
}

// Rounds to nearest even.  Within -127 .. 127, since |x * inverse| < 127.5.
int8_t code_of(float x, float inverse) {
  return inverse == 0.0f ? int8_t(0) : int8_t(std::nearbyint(x * inverse));
}

void quantise_group(const float* x, ActGroup& out) {
  const float largest = largest_magnitude(x, kGroupCols);
  const float inverse = inverse_scale(largest);
  int sum[2] = {0, 0};
  for (int i = 0; i < kGroupCols; ++i) {
    out.code[i] = code_of(x[i], inverse);
    sum[i / 16] += out.code[i];
  }
  out.scale = scale_of(largest);
  for (int h = 0; h < 2; ++h) {
    out.sum[h] = float(sum[h]);
    out.scaled_sum[h] = out.scale * out.sum[h];
  }
  out.sum_both = out.sum[0] + out.sum[1];
  out.scaled_sum_both = out.scale * out.sum_both;
  out.unused = 0.0f;
}

void quantise(const float* x, int n_groups, ActGroup* out, size_t out_stride) {
  for (int g = 0; g < n_groups; ++g)
    quantise_group(x + g * kGroupCols, out[size_t(g) * out_stride]);
}

int code_at(const TileGroup& w, CodeRange range, int row, int col) {
  const uint8_t byte = w.code[col / 4][row][col % 4];
  return range == CodeRange::s8 ? int(int8_t(byte)) : int(byte);
}

// One row of one group, one token.
float dot_group(const TileGroup& w, const TileFormat& f, int row, const ActGroup& y,
                float acc) {
  int32_t sums[2] = {0, 0};
  for (int c = 0; c < kGroupCols; ++c)
    sums[c / 16] += code_at(w, f.range, row, c) * y.code[c];
  if (f.halves) {
    for (int h = 0; h < 2; ++h) {
      acc += (w.scale[h][row] * y.scale) * (float(sums[h]) + float(f.zero) * y.sum[h]);
      if (f.offsets) acc += w.offset[h][row] * y.scaled_sum[h];
    }
  } else {
    acc += (w.scale[0][row] * y.scale) *
           (float(sums[0] + sums[1]) + float(f.zero) * y.sum_both);
    if (f.offsets) acc += w.offset[0][row] * y.scaled_sum_both;
  }
  return acc;
}

// Tables whose tiles_together is 1 are given one tile.
void dot_int8(const TileGroup* w, int /*n_tiles*/, const TileFormat& format, int n_groups,
              const ActGroup* acts, size_t act_stride, int n_tokens, float* acc) {
  for (int t = 0; t < n_tokens; ++t)
    for (int r = 0; r < kTileRows; ++r) {
      float& sum = acc[t * kTileRows + r];
      for (int g = 0; g < n_groups; ++g)
        sum = dot_group(w[g], format, r, acts[size_t(g) * act_stride + size_t(t)], sum);
    }
}

void tile_to_f32(const TileGroup* w, const TileFormat& f, int n_groups, float* out) {
  for (int i = 0; i < n_groups * kGroupCols; ++i) {
    const TileGroup& group = w[i / kGroupCols];
    const int c = i % kGroupCols;
    const int h = f.halves ? c / 16 : 0;
    for (int r = 0; r < kTileRows; ++r) {
      const float value =
          group.scale[h][r] * float(code_at(group, f.range, r, c) + f.zero);
      out[i * kTileRows + r] = f.offsets ? value + group.offset[h][r] : value;
    }
  }
}

FewRows few_rows(const WeightSegment& /*segment*/) { return nullptr; }

void dot_f32(const float* w, int /*n_tiles*/, size_t /*w_stride*/, int n_cols,
             const float* x, size_t x_stride, int n_tokens, float* acc) {
  for (int t = 0; t < n_tokens; ++t) {
    const float* row = x + size_t(t) * x_stride;
    for (int c0 = 0; c0 < n_cols; c0 += kGroupCols) {
      const int end = c0 + kGroupCols < n_cols ? c0 + kGroupCols : n_cols;
      float sums[2][kTileRows] = {};  // even and odd columns of this group
      for (int c = c0; c < end; ++c)
        for (int r = 0; r < kTileRows; ++r)
          sums[c % 2][r] += w[c * kTileRows + r] * row[c];
      for (int r = 0; r < kTileRows; ++r)
        acc[t * kTileRows + r] += sums[0][r] + sums[1][r];
    }
  }
}

void widen_f16(const uint16_t* source, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = f16_to_f32(source[i]);
}

void widen_bf16(const uint16_t* source, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = bf16_to_f32(source[i]);
}

// ---- rows ---------------------------------------------------------------------------

double sum(const float* x, int n) {
  double total = 0.0;
  for (int i = 0; i < n; ++i) total += double(x[i]);
  return total;
}

double sum_squares(const float* x, int n, double mean) {
  double total = 0.0;
  for (int i = 0; i < n; ++i) {
    const double d = double(x[i]) - mean;
    total += d * d;
  }
  return total;
}

void scale_rows(float* out, const float* x, float scale, const float* weight, int n) {
  for (int i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void normalise(float* out, const float* x, float mean, float scale, const float* weight,
               const float* bias, int n) {
  for (int i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

void add(float* x, const float* h, int n) {
  for (int i = 0; i < n; ++i) x[i] += h[i];
}

// Through double: rounded once, no intermediate overflows.
float act(float x, Activation kind) {
  const double v = double(x);
  switch (kind) {
    case Activation::silu:
      return float(v / (1.0 + std::exp(-v)));
    case Activation::sigmoid:
      return float(1.0 / (1.0 + std::exp(-v)));
    case Activation::gelu_erf:
      return float(0.5 * v * std::erfc(-v * 0.70710678118654752440));
    case Activation::gelu_tanh: {
      // 0.5 v (1 + tanh(u)) = v / (1 + exp(-2u)), which does not cancel for u < 0.
      const double u = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
      return float(v / (1.0 + std::exp(-2.0 * u)));
    }
  }
  return x;
}

void activate(float* x, int n, Activation kind) {
  for (int i = 0; i < n; ++i) x[i] = act(x[i], kind);
}

void gate_rows(float* out, const float* gate, const float* up, int n, Activation kind) {
  for (int i = 0; i < n; ++i) out[i] = act(gate[i], kind) * up[i];
}

// Comparisons that leave a NaN as it is.
void gate_limited(float* out, const float* gate, const float* up, int n, float limit,
                  float alpha) {
  for (int i = 0; i < n; ++i) {
    const double g = double(gate[i] > limit ? limit : gate[i]);
    const float high = up[i] > limit ? limit : up[i];
    const double u = double(high < -limit ? -limit : high);
    out[i] = float((u + 1.0) * (g / (1.0 + std::exp(-double(alpha) * g))));
  }
}

void soft_cap(float* x, int n, float cap) {
  for (int i = 0; i < n; ++i) x[i] = float(double(cap) * std::tanh(double(x[i] / cap)));
}

bool all_finite(const float* x, int n) {
  bool finite = true;
  for (int i = 0; i < n; ++i) finite = finite && std::isfinite(x[i]);
  return finite;
}

int argmax(const float* x, int n) {
  int best = -1;
  for (int i = 0; i < n; ++i)
    if (best < 0 ? !std::isnan(x[i]) : x[i] > x[best]) best = i;
  return best;
}

// ---- attention ----------------------------------------------------------------------

void widen_kv(const KvRun& run, int n, float* out) {
  const int count = n * run.dim;
  switch (run.type) {
    case KvType::f32:
      std::memcpy(out, run.data, size_t(count) * sizeof(float));
      return;
    case KvType::f16:
      return widen_f16(reinterpret_cast<const uint16_t*>(run.data), count, out);
    case KvType::bf16:
      return widen_bf16(reinterpret_cast<const uint16_t*>(run.data), count, out);
    case KvType::q8:
      for (int i = 0; i < count; ++i)
        out[i] = run.scales[i / run.dim] * float(int8_t(run.data[i]));
  }
}

void scores(const float* queries, int n_queries, const KvRun& run, int n_keys,
            float scale, float* out) {
  const auto* keys = reinterpret_cast<const float*>(run.data);
  const int dim = run.dim;
  for (int q = 0; q < n_queries; ++q)
    for (int j = 0; j < n_keys; ++j) {
      float dot = 0.0f;
      for (int i = 0; i < dim; ++i) dot += queries[q * dim + i] * keys[j * dim + i];
      out[q * kPageTokens + j] = dot * scale;
    }
}

float max(const float* x, int n) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

float exp_sum(float* x, int n, float shift) {
  float total = 0.0f;
  for (int i = 0; i < n; ++i) {
    x[i] = float(std::exp(double(x[i] - shift)));
    total += x[i];
  }
  return total;
}

void accumulate(const float* weights, int n, const float* values, int dim, float rescale,
                float* acc) {
  for (int i = 0; i < dim; ++i) acc[i] *= rescale;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < dim; ++i) acc[i] += weights[j] * values[j * dim + i];
}

void accumulate_run(const float* weights, int n_queries, const KvRun& run, int n,
                    const float* rescale, float* acc) {
  for (int q = 0; q < n_queries; ++q)
    accumulate(weights + q * kPageTokens, n, reinterpret_cast<const float*>(run.data),
               run.dim, rescale[q], acc + q * run.dim);
}

float store_q8(const float* x, int n, std::byte* out) {
  const float largest = largest_magnitude(x, n);
  const float inverse = inverse_scale(largest);
  for (int i = 0; i < n; ++i) out[i] = std::byte(uint8_t(code_of(x[i], inverse)));
  return scale_of(largest);
}

float store(const float* x, int n, KvType type, std::byte* out) {
  if (type == KvType::q8) return store_q8(x, n, out);
  if (type == KvType::f32) {
    std::memcpy(out, x, size_t(n) * sizeof(float));
    return 0.0f;
  }
  auto* halves = reinterpret_cast<uint16_t*>(out);
  for (int i = 0; i < n; ++i)
    halves[i] = type == KvType::f16 ? f32_to_f16(x[i]) : f32_to_bf16(x[i]);
  return 0.0f;
}

// ---- recurrent layers ---------------------------------------------------------------

void add_weighted(const WeightedSums& s) {
  for (int r = 0; r < s.n_rows; ++r) {
    float* out = s.out + r * s.out_step;
    for (int j = 0; j < s.n_terms; ++j) {
      const float weight = s.weights[r * s.row_step + j * s.term_step];
      const float* value = s.values + j * s.value_step;
      for (int c = 0; c < s.dim; ++c) out[c] += weight * value[c];
    }
  }
}

void short_conv(const float* x, size_t x_step, const float* weight, int kernel, int n,
                float* out) {
  for (int c = 0; c < n; ++c) {
    float sum = weight[c] * x[c];
    for (int j = 1; j < kernel; ++j)
      sum += weight[j * n + c] * x[size_t(j) * x_step + size_t(c)];
    out[c] = sum;
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static constexpr Kernels kTable = {
      .isa = "scalar",
      .quantise = quantise,
      .unpack = unpack_layout,
      .tiles_together = 1,
      .dot_int8 = dot_int8,
      .few_rows = few_rows,
      .tile_to_f32 = tile_to_f32,
      .dot_f32 = dot_f32,
      .f16_to_f32 = widen_f16,
      .bf16_to_f32 = widen_bf16,
      .sum = sum,
      .sum_squares = sum_squares,
      .scale_rows = scale_rows,
      .normalise = normalise,
      .add = add,
      .activate = activate,
      .gate = gate_rows,
      .gate_limited = gate_limited,
      .soft_cap = soft_cap,
      .all_finite = all_finite,
      .argmax = argmax,
      .widen_kv = widen_kv,
      .reads_f16_runs = false,
      .scores = scores,
      .accumulate_run = accumulate_run,
      .max = max,
      .exp_sum = exp_sum,
      .accumulate = accumulate,
      .store = store,
      .add_weighted = add_weighted,
      .short_conv = short_conv,
  };
  return kTable;
}

}  // namespace ingot::cpu
