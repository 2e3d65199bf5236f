// The gated delta rule and what stands around it: projections, short convolution, norm of
// each head times a gate, output (architectures.md 11.5).
#include <algorithm>

#include "model/parts.h"

namespace ingot {
namespace {

int channels(const GatedDeltaRecipe& r) {
  return 2 * r.n_key_heads * r.key_dim + r.n_value_heads * r.value_dim;
}
int value_width(const GatedDeltaRecipe& r) { return r.n_value_heads * r.value_dim; }
int input_width(const GatedDeltaRecipe& r) {
  return channels(r) + value_width(r) + 2 * r.n_value_heads;
}

}  // namespace

void mix(const Step& step, const GatedDelta& delta, const LayerState& state, Rows in,
         Rows out) {
  Ops& ops = step.ops;
  const GatedDeltaRecipe& r = *delta.recipe;
  const int n = step.batch.n_tokens;
  const int qkv_cols = channels(r);
  const int value_cols = value_width(r);
  const int heads = r.n_value_heads;
  const Rows input = step.work.inputs.rows.columns(0, input_width(r)).first_rows(n);
  const Rows qkv = input.columns(0, qkv_cols);                 // [n, channels]
  const Rows z = input.columns(qkv_cols, value_cols);          // [n, heads * value_dim]
  const Rows b = input.columns(qkv_cols + value_cols, heads);  // [n, heads]
  const Rows a = input.columns(qkv_cols + value_cols + heads, heads);  // [n, heads]
  const Rows convolved = step.work.middle.rows.columns(0, qkv_cols).first_rows(n);
  const Rows mixed = step.work.mixed.rows.columns(0, value_cols).first_rows(n);

  ops.matmul(input, in, *delta.input.weight, delta.input.bias.buffer());
  ops.short_conv(convolved, qkv, delta.conv.buffer(), state.recurrent, step.batch);
  ops.gated_delta(mixed, convolved, b, a,
                  {.tiled_value_heads = r.tiled_value_heads,
                   .decay = delta.decay.buffer(),
                   .dt_bias = delta.dt_bias.buffer()},
                  state.recurrent, step.batch);
  ops.head_rms_norm(mixed, heads, r.value_dim, delta.norm.weight.buffer(),
                    delta.norm.eps);
  ops.multiply_activation(mixed, z, Activation::silu);
  ops.matmul(out, mixed, *delta.output.weight, delta.output.bias.buffer());
}

void widen(Widths& widths, const GatedDeltaRecipe& r) {
  widths.inputs = std::max(widths.inputs, input_width(r));
  widths.middle = std::max(widths.middle, channels(r));
  widths.mixed = std::max(widths.mixed, value_width(r));
}

}  // namespace ingot
