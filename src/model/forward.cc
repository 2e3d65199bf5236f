#include "model/forward.h"

#include <algorithm>

#include "base/check.h"
#include "model/parts.h"

namespace ingot {
namespace {

void rope_tables(const Step& step) {
  const int n = step.batch.n_tokens;
  for (size_t i = 0; i < step.model.ropes.size(); ++i) {
    const Rope& rope = step.model.ropes[i];
    step.ops.rope_table(step.work.cos_sin[i].rows.first_rows(n), rope.inv_freq.buffer(),
                        rope.attention_factor, step.batch);
  }
}

// x += norm(mixer(norm(x))); x += norm(ffn(norm(x)))
void run_layer(const Step& step, const Layer& layer, const LayerState& state, Rows x) {
  Ops& ops = step.ops;
  const Rows h = step.work.h.rows.first_rows(step.batch.n_tokens);  // [n, hidden_size]

  const Rows mixer_in = normalised(ops, h, x, layer.input_norm);
  std::visit([&](const auto& mixer) { mix(step, mixer, state, mixer_in, h); },
             layer.mixer);
  ops.add(x, normalised(ops, h, h, layer.post_mixer_norm));

  const Rows ffn_in = normalised(ops, h, x, layer.ffn_norm);
  std::visit([&](const auto& ffn) { feed_forward(step, ffn, ffn_in, h); }, layer.ffn);
  ops.add(x, normalised(ops, h, h, layer.post_ffn_norm));
}

}  // namespace

void forward(const Model& model, const Batch& batch, const SequenceState& state,
             Workspace& work, const Buffer& status, const HiddenTap& tap) {
  Ops& ops = *model.ops;
  const Step step{ops, model, batch, work};
  const Rows x = work.x.rows.first_rows(batch.n_tokens);  // [n, hidden_size]
  const Rows h = work.h.rows.first_rows(batch.n_tokens);  // [n, hidden_size]
  const int n_layers = int(model.layers.size());

  ops.embed(x, *model.embed, batch, model.recipe.embed_scale);
  if (model.position_embed) ops.add_position_embed(x, *model.position_embed, batch);
  rope_tables(step);
  ops.check_finite(x, status, 0);
  if (tap) tap(0, x);

  for (int i = 0; i < n_layers; ++i) {
    run_layer(step, model.layers[size_t(i)], state.layers[size_t(i)], x);
    ops.check_finite(x, status, i + 1);
    if (tap && i + 1 < n_layers) tap(i + 1, x);
  }
  normalise(ops, h, x, model.final_norm);
  if (tap) tap(n_layers, h);
}

void forward_mtp(const Model& model, int head, Rows hidden, const Batch& batch,
                 const SequenceState& state, Workspace& work, const Buffer& status) {
  Ops& ops = *model.ops;
  const Step step{ops, model, batch, work};
  const int n = batch.n_tokens;
  const int width = model.recipe.hidden_size;
  const MtpHead& mtp = model.mtp[size_t(head)];
  const Rows x = work.x.rows.first_rows(n);          // [n, hidden_size]
  const Rows h = work.h.rows.first_rows(n);          // [n, hidden_size]
  const Rows pair = work.drafts.rows.first_rows(n);  // [n, 2 * hidden_size]
  const size_t n_layers = model.layers.size();

  ops.embed(x, mtp.embed ? *mtp.embed : *model.embed, batch, model.recipe.embed_scale);
  rope_tables(step);
  normalise(ops, pair.columns(0, width), x, mtp.embed_norm);
  normalise(ops, pair.columns(width, width), hidden, mtp.hidden_norm);
  ops.matmul(x, pair, *mtp.project.weight, mtp.project.bias.buffer());
  run_layer(step, mtp.layer, state.layers[n_layers + size_t(head)], x);
  ops.check_finite(x, status, int(n_layers));
  normalise(ops, h, x, mtp.final_norm);
}

Rows compute_logits(const Model& model, const Buffer& rows, int count, int n_tokens,
                    Workspace& work, const Buffer& status, int head) {
  Ops& ops = *model.ops;
  const Rows picked = work.picked.rows.first_rows(count);  // [count, hidden_size]
  const Rows logits = work.logits.rows.first_rows(count);  // [count, vocab_size]
  const std::optional<Linear>& own = head >= 0 && model.mtp[size_t(head)].head
                                         ? model.mtp[size_t(head)].head
                                         : model.head;
  ops.gather_rows(picked, work.h.rows.first_rows(n_tokens), rows);
  ops.matmul(logits, picked, own ? *own->weight : *model.embed,
             own ? own->bias.buffer() : Buffer{});
  if (model.recipe.logit_softcap > 0) ops.soft_cap(logits, model.recipe.logit_softcap);
  ops.check_finite(logits, status, int(model.layers.size()) + 1);
  return logits;
}

}  // namespace ingot
