// Attention over keys and values: projections, head norms, rotation, append, softmax,
// gate, output.
#include <algorithm>

#include "model/parts.h"

namespace ingot {
namespace {

int q_width(const AttentionRecipe& r) { return r.n_heads * r.head_dim; }
int kv_width(const AttentionRecipe& r) { return r.n_kv_heads * r.head_dim; }
int input_width(const AttentionRecipe& r) {
  return q_width(r) * (r.gated ? 2 : 1) + 2 * kv_width(r);
}

void normalise_heads(Ops& ops, Rows x, int n_heads, const AttentionRecipe& r,
                     const std::optional<Norm>& norm) {
  if (!norm) return;
  if (r.norm_span == HeadNormSpan::projection)
    ops.rms_norm(x, x, norm->weight.buffer(), norm->eps);
  else
    ops.head_rms_norm(x, n_heads, r.head_dim, norm->weight.buffer(), norm->eps);
}

}  // namespace

void rotate(const Step& step, Rows x, int rope, int n_heads, int head_dim, int first) {
  if (rope < 0) return;
  const Rope& table = step.model.ropes[size_t(rope)];
  step.ops.rope(x, step.work.cos_sin[size_t(rope)].rows.first_rows(x.n_rows),
                {n_heads, head_dim, table.rotary_dims, table.pairing, first});
}

void mix(const Step& step, const Attention& attention, const LayerState& state, Rows in,
         Rows out) {
  Ops& ops = step.ops;
  const AttentionRecipe& r = *attention.recipe;
  const int n = step.batch.n_tokens;
  const int q_cols = q_width(r);
  const int kv_cols = kv_width(r);
  const Rows qkv = step.work.inputs.rows.columns(0, input_width(r)).first_rows(n);
  const Rows q = qkv.columns(0, q_cols);                  // [n, n_heads * head_dim]
  const Rows k = qkv.columns(q_cols, kv_cols);            // [n, n_kv_heads * head_dim]
  const Rows v = qkv.columns(q_cols + kv_cols, kv_cols);  // [n, n_kv_heads * head_dim]
  const Rows mixed = step.work.mixed.rows.columns(0, q_cols).first_rows(n);

  ops.matmul(qkv, in, *attention.qkv.weight, attention.qkv.bias.buffer());
  normalise_heads(ops, q, r.n_heads, r, attention.q_norm);
  normalise_heads(ops, k, r.n_kv_heads, r, attention.k_norm);
  rotate(step, q, r.rope, r.n_heads, r.head_dim);
  rotate(step, k, r.rope, r.n_kv_heads, r.head_dim);
  ops.kv_append(state.kv, k, v, step.batch);
  ops.attention(mixed, q, state.kv, step.batch,
                {.n_heads = r.n_heads,
                 .head_dim = r.head_dim,
                 .scale = r.scale,
                 .window = r.window,
                 .softcap = 0.0f,
                 .sinks = attention.sinks.buffer()});
  if (r.gated)
    ops.multiply_activation(mixed, qkv.columns(q_cols + 2 * kv_cols, q_cols),
                            Activation::sigmoid);
  ops.matmul(out, mixed, *attention.output.weight, attention.output.bias.buffer());
}

void widen(Widths& widths, const AttentionRecipe& r) {
  widths.inputs = std::max(widths.inputs, input_width(r));
  widths.mixed = std::max(widths.mixed, q_width(r));
}

}  // namespace ingot
