#include "model/forward.h"

#include <algorithm>

#include "model/parts.h"

namespace ingot {

void forward(const Model& model, const Batch& batch, const StatePages& state,
             Workspace& work, const Buffer& status, const HiddenTap& tap) {
  Ops& ops = *model.ops;
  const int n = batch.n_tokens;
  const Rows x = work.x.rows.first_rows(n);  // [n, hidden_size]
  const Rows h = work.h.rows.first_rows(n);  // [n, hidden_size]
  const int n_layers = int(model.layers.size());

  ops.embed(x, *model.embed, batch, model.recipe.embed_scale);
  if (model.position_embed) ops.add_position_embed(x, *model.position_embed, batch);
  for (size_t i = 0; i < model.ropes.size(); ++i)
    ops.rope_table(work.cos_sin[i].rows.first_rows(n), model.ropes[i].inv_freq.buffer(),
                   1.0f, batch);
  ops.check_finite(x, status, 0);
  if (tap) tap(0, x);

  for (int i = 0; i < n_layers; ++i) {
    const Layer& layer = model.layers[size_t(i)];
    normalise(ops, h, x, layer.input_norm);
    attend(ops, model, std::get<Attention>(layer.mixer), state.layers[size_t(i)], batch,
           h, work);
    normalise(ops, h, h, layer.post_mixer_norm);
    ops.add(x, h);
    normalise(ops, h, x, layer.ffn_norm);
    feed_forward(ops, std::get<Mlp>(layer.ffn), h, work);
    normalise(ops, h, h, layer.post_ffn_norm);
    ops.add(x, h);
    ops.check_finite(x, status, i + 1);
    if (tap && i + 1 < n_layers) tap(i + 1, x);
  }
  normalise(ops, h, x, model.final_norm);
  if (tap) tap(n_layers, h);
}

Rows compute_logits(const Model& model, const Buffer& rows, int count, int n_tokens,
                    Workspace& work, const Buffer& status) {
  Ops& ops = *model.ops;
  const Rows picked = work.picked.rows.first_rows(count);  // [count, hidden_size]
  const Rows logits = work.logits.rows.first_rows(count);  // [count, vocab_size]
  ops.gather_rows(picked, work.h.rows.first_rows(n_tokens), rows);
  ops.matmul(logits, picked, model.head_weight(),
             model.head ? model.head->bias.buffer() : Buffer{});
  if (model.recipe.logit_softcap > 0) ops.soft_cap(logits, model.recipe.logit_softcap);
  ops.check_finite(logits, status, int(model.layers.size()) + 1);
  return logits;
}

Workspace::Workspace(const Recipe& recipe, Ops& ops, int max_tokens, int max_logit_rows,
                     int context) {
  int qkv_width = 0;
  int mixed_width = 0;
  int ffn_width = 0;
  for (const LayerRecipe& layer : recipe.layers) {
    const auto& a = std::get<AttentionRecipe>(layer.mixer);
    qkv_width = std::max(qkv_width, (a.n_heads + 2 * a.n_kv_heads) * a.head_dim);
    mixed_width = std::max(mixed_width, a.n_heads * a.head_dim);
    const auto& m = std::get<MlpRecipe>(layer.ffn);
    ffn_width = std::max(ffn_width, m.intermediate_size * (m.gated ? 2 : 1));
  }
  x = ops.allocate_rows(max_tokens, recipe.hidden_size);
  h = ops.allocate_rows(max_tokens, recipe.hidden_size);
  qkv = ops.allocate_rows(max_tokens, qkv_width);
  mixed = ops.allocate_rows(max_tokens, mixed_width);
  ffn = ops.allocate_rows(max_tokens, ffn_width);
  picked = ops.allocate_rows(max_logit_rows, recipe.hidden_size);
  logits = ops.allocate_rows(max_logit_rows, recipe.vocab_size);
  for (const RopeRecipe& rope : recipe.ropes)
    cos_sin.push_back(ops.allocate_rows(max_tokens, rope.rotary_dims));
  const int widest = std::max({qkv_width, mixed_width, ffn_width, recipe.hidden_size});
  ops.reserve(std::max(max_tokens, max_logit_rows), widest, context);
}

namespace {

KvLayout layout_of(const LayerRecipe& layer, KvType type) {
  const auto& a = std::get<AttentionRecipe>(layer.mixer);
  return {a.n_kv_heads, a.head_dim, a.head_dim, type};
}

}  // namespace

size_t state_page_bytes(const Recipe& recipe, KvType kv_type) {
  size_t bytes = 0;
  for (const LayerRecipe& layer : recipe.layers)
    bytes += kv_page_bytes(layout_of(layer, kv_type));
  return bytes;
}

StatePages allocate_state(const Recipe& recipe, Ops& ops, KvType kv_type, int n_pages) {
  StatePages state;
  state.n_pages = n_pages;
  for (const LayerRecipe& layer : recipe.layers) {
    const KvLayout layout = layout_of(layer, kv_type);
    Memory& memory =
        state.memory.emplace_back(ops.allocate(kv_page_bytes(layout) * size_t(n_pages)));
    state.layers.push_back({layout, memory.buffer()});
    state.bytes += memory.buffer().bytes;
  }
  return state;
}

}  // namespace ingot
