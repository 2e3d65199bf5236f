#include "model/parts.h"

namespace ingot {

void attend(Ops& ops, const Model& model, const Attention& attention, const KvPages& kv,
            const Batch& batch, Rows h, Workspace& work) {
  const AttentionRecipe& r = *attention.recipe;
  const int n = batch.n_tokens;
  const int q_width = r.n_heads * r.head_dim;
  const int kv_width = r.n_kv_heads * r.head_dim;
  const Rows qkv = work.qkv.rows.columns(0, q_width + 2 * kv_width).first_rows(n);
  const Rows q = qkv.columns(0, q_width);                    // [n, n_heads * head_dim]
  const Rows k = qkv.columns(q_width, kv_width);             // [n, n_kv_heads * head_dim]
  const Rows v = qkv.columns(q_width + kv_width, kv_width);  // [n, n_kv_heads * head_dim]
  const Rows mixed = work.mixed.rows.columns(0, q_width).first_rows(n);

  ops.matmul(qkv, h, *attention.qkv.weight, attention.qkv.bias.buffer());
  if (attention.q_norm)
    ops.head_rms_norm(q, r.n_heads, r.head_dim, attention.q_norm->weight.buffer(),
                      attention.q_norm->eps);
  if (attention.k_norm)
    ops.head_rms_norm(k, r.n_kv_heads, r.head_dim, attention.k_norm->weight.buffer(),
                      attention.k_norm->eps);
  if (r.rope >= 0) {
    const Rope& rope = model.ropes[size_t(r.rope)];
    const Rows cos_sin = work.cos_sin[size_t(r.rope)].rows.first_rows(n);
    ops.rope(q, cos_sin, {r.n_heads, r.head_dim, rope.rotary_dims, rope.pairing});
    ops.rope(k, cos_sin, {r.n_kv_heads, r.head_dim, rope.rotary_dims, rope.pairing});
  }
  ops.kv_append(kv, k, v, batch);
  ops.attention(mixed, q, kv, batch,
                {.n_heads = r.n_heads,
                 .head_dim = r.head_dim,
                 .scale = r.scale,
                 .window = r.window,
                 .softcap = 0.0f,
                 .sinks = {}});
  ops.matmul(h, mixed, *attention.output.weight, attention.output.bias.buffer());
}

}  // namespace ingot
