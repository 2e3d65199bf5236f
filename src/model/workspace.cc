// How much room a step's activations need.
#include <algorithm>

#include "model/parts.h"

namespace ingot {
namespace {

void widen(Widths& widths, const LayerRecipe& layer) {
  std::visit([&](const auto& mixer) { ingot::widen(widths, mixer); }, layer.mixer);
  std::visit([&](const auto& ffn) { ingot::widen(widths, ffn); }, layer.ffn);
}

}  // namespace

Workspace::Workspace(const Recipe& recipe, Ops& ops, int max_tokens, int max_logit_rows,
                     int context) {
  const int hidden_size = recipe.hidden_size;
  Widths w;
  for (const LayerRecipe& layer : recipe.layers) widen(w, layer);
  for (const MtpRecipe& mtp : recipe.mtp) widen(w, mtp.layer);
  const auto rows = [&](int width) { return ops.allocate_rows(max_tokens, width); };
  x = rows(hidden_size);
  h = rows(hidden_size);
  inputs = rows(w.inputs);
  middle = rows(w.middle);
  latent = rows(w.latent);
  mixed = rows(w.mixed);
  ffn = rows(w.ffn);
  const int routed = max_tokens * w.n_used;
  router_logits = rows(w.n_experts);
  expert_inputs = ops.allocate_rows(routed, w.expert_input);
  expert_outputs = ops.allocate_rows(routed, w.n_used > 0 ? hidden_size : 0);
  routed_experts = ops.allocate(size_t(routed) * sizeof(int32_t));
  routed_weights = ops.allocate(size_t(routed) * sizeof(float));
  if (w.shared) shared = rows(hidden_size);
  if (w.shared) shared_gate = rows(1);
  if (w.selection) {
    selection.n_words = (context + 63) / 64;
    selection_bits = ops.allocate(size_t(max_tokens) * size_t(selection.n_words) * 8);
    selection.bits = selection_bits.buffer();
  }
  if (!recipe.mtp.empty()) drafts = rows(2 * hidden_size);
  if (!recipe.mtp.empty()) hidden = rows(hidden_size);
  picked = ops.allocate_rows(max_logit_rows, hidden_size);
  logits = ops.allocate_rows(max_logit_rows, recipe.vocab_size);
  for (const RopeRecipe& rope : recipe.ropes) cos_sin.push_back(rows(rope.rotary_dims));
  const int widest = std::max({w.inputs, w.middle, w.latent, w.mixed, w.ffn,
                               w.expert_input, drafts.rows.width, hidden_size});
  ops.reserve(std::max({max_tokens, max_logit_rows, routed}), widest, context);
}

size_t Workspace::bytes() const {
  size_t total = 0;
  for (const Ops::OwnedRows* part :
       {&x, &h, &inputs, &middle, &latent, &mixed, &ffn, &router_logits, &expert_inputs,
        &expert_outputs, &shared, &shared_gate, &picked, &logits, &drafts, &hidden})
    total += part->memory.buffer().bytes;
  for (const Memory* part : {&routed_experts, &routed_weights, &selection_bits})
    total += part->buffer().bytes;
  for (const Ops::OwnedRows& table : cos_sin) total += table.memory.buffer().bytes;
  return total;
}

}  // namespace ingot
