// Multi-head latent attention in the latent space, dense or over the keys that an indexer
// selects (architectures.md 15, 16).  A query head is carried into the space of the
// latents, q' = W_k^T q_nope, and meets the latent and the shared rotated key as stored;
// the weighted latent is carried back, o = W_v sum(p c).
#include <algorithm>

#include "model/parts.h"

namespace ingot {
namespace {

// Columns of work.inputs: query latent, query, latent and rotated key, then the indexer's
// key and weights.
struct Columns {
  explicit Columns(const LatentAttentionRecipe& r)
      : q_a(r.q_a ? r.q_a_norm->weight.n : 0),
        q(r.n_heads * (r.nope_dims + r.rope_dims)),
        kv(r.kv_lora_rank + r.rope_dims),
        index_key(r.indexer ? r.indexer->head_dim : 0),
        index_weights(r.indexer ? r.indexer->n_heads : 0) {}
  int q_a, q, kv, index_key, index_weights;
  int total() const { return q_a + q + kv + index_key + index_weights; }
};

// The keys that each row sees: work.selection.
void select(const Step& step, const Indexer& indexer, const LayerState& state, Rows in,
            Rows q_latent, Rows key, Rows weights) {
  Ops& ops = step.ops;
  const IndexerRecipe& r = *indexer.recipe;
  const int n = step.batch.n_tokens;
  const Rows q = step.work.middle.rows.columns(0, r.n_heads * r.head_dim).first_rows(n);
  ops.matmul(q, q_latent, *indexer.q.weight, indexer.q.bias.buffer());
  ops.matmul(key, in, *indexer.k.weight, indexer.k.bias.buffer());
  normalise(ops, key, key, indexer.k_norm);
  rotate(step, q, r.rope, r.n_heads, r.head_dim);
  rotate(step, key, r.rope, 1, r.head_dim);
  ops.matmul(weights, in, *indexer.weights.weight, indexer.weights.bias.buffer());
  ops.kv_append(state.index_keys, key, key.columns(0, 0), step.batch);
  ops.select_keys(step.work.selection, q, weights, state.index_keys, step.batch,
                  {r.n_heads, r.head_dim, r.top_k, r.score_scale});
}

}  // namespace

void mix(const Step& step, const LatentAttention& attention, const LayerState& state,
         Rows in, Rows out) {
  Ops& ops = step.ops;
  const LatentAttentionRecipe& r = *attention.recipe;
  const int n = step.batch.n_tokens;
  const int lora = r.kv_lora_rank;
  const int head_dim = r.nope_dims + r.rope_dims;
  const Columns cols(r);
  Workspace& work = step.work;
  const Rows inputs = work.inputs.rows.columns(0, cols.total()).first_rows(n);
  const Rows q_latent = inputs.columns(0, cols.q_a);           // [n, q_lora_rank]
  const Rows q = inputs.columns(cols.q_a, cols.q);             // [n, n_heads * head_dim]
  const Rows kv = inputs.columns(cols.q_a + cols.q, cols.kv);  // [n, lora + rope_dims]
  const Rows c = kv.columns(0, lora);                          // [n, lora]

  if (attention.q_a) {
    ops.matmul(q_latent, in, *attention.q_a->weight, attention.q_a->bias.buffer());
    normalise(ops, q_latent, q_latent, *attention.q_a_norm);
  }
  ops.matmul(q, attention.q_a ? q_latent : in, *attention.q_b.weight,
             attention.q_b.bias.buffer());
  ops.matmul(kv, in, *attention.kv_a.weight, attention.kv_a.bias.buffer());
  normalise(ops, c, c, attention.kv_a_norm);
  rotate(step, q, r.rope, r.n_heads, head_dim, r.nope_dims);
  rotate(step, kv.columns(lora, r.rope_dims), r.rope, 1, r.rope_dims);
  if (attention.indexer) {
    const int at = cols.q_a + cols.q + cols.kv;
    select(step, *attention.indexer, state, in, q_latent,
           inputs.columns(at, cols.index_key),
           inputs.columns(at + cols.index_key, cols.index_weights));
  }
  ops.kv_append(state.kv, kv, kv.columns(0, 0), step.batch);

  const int latent_dim = lora + r.rope_dims;
  const Rows q_in_latents =  // [n, n_heads * latent_dim]
      work.middle.rows.columns(0, r.n_heads * latent_dim).first_rows(n);
  const Rows context = work.latent.rows.columns(0, r.n_heads * lora).first_rows(n);
  const Rows mixed = work.mixed.rows.columns(0, r.n_heads * r.value_dim).first_rows(n);
  ops.matmul_heads(q_in_latents, latent_dim, q, head_dim, attention.key_up);
  ops.copy_columns(q_in_latents, q,
                   {.n_heads = r.n_heads,
                    .count = r.rope_dims,
                    .from_first = r.nope_dims,
                    .from_step = head_dim,
                    .to_first = lora,
                    .to_step = latent_dim});
  const bool sparse = attention.indexer || r.shares_selection;
  ops.attention(context, q_in_latents, state.kv, step.batch,
                {.n_heads = r.n_heads,
                 .head_dim = latent_dim,
                 .scale = r.scale,
                 .window = 0,
                 .softcap = 0.0f,
                 .sinks = {},
                 .selection = sparse ? work.selection : KeySelection{}});
  ops.matmul_heads(mixed, r.value_dim, context, lora, attention.value_up);
  ops.matmul(out, mixed, *attention.output.weight, attention.output.bias.buffer());
}

void widen(Widths& widths, const LatentAttentionRecipe& r) {
  const int index_queries = r.indexer ? r.indexer->n_heads * r.indexer->head_dim : 0;
  widths.inputs = std::max(widths.inputs, Columns(r).total());
  widths.middle = std::max(
      {widths.middle, r.n_heads * (r.kv_lora_rank + r.rope_dims), index_queries});
  widths.latent = std::max(widths.latent, r.n_heads * r.kv_lora_rank);
  widths.mixed = std::max(widths.mixed, r.n_heads * r.value_dim);
  widths.selection = widths.selection || r.indexer.has_value();
}

}  // namespace ingot
