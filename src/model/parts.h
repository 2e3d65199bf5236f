// The parts of a layer, as the forward pass calls them: rows `in` to rows `out`, which
// may be the same rows.
#pragma once

#include "model/forward.h"

namespace ingot {

// What every part of a layer is given.
struct Step {
  Ops& ops;
  const Model& model;
  const Batch& batch;
  Workspace& work;
};

// out = norm(x)
void normalise(Ops& ops, Rows out, Rows x, const Norm& norm);
// The same; without a norm x itself is returned and out left alone.
Rows normalised(Ops& ops, Rows out, Rows x, const std::optional<Norm>& norm);
// Turns n_heads heads of x by rope number `rope`; nothing where that is -1.
void rotate(const Step& step, Rows x, int rope, int n_heads, int head_dim, int first = 0);

// Mixers: append to the layer's state, then read it.
void mix(const Step& step, const Attention& attention, const LayerState& state, Rows in,
         Rows out);
void mix(const Step& step, const LatentAttention& attention, const LayerState& state,
         Rows in, Rows out);
void mix(const Step& step, const GatedDelta& delta, const LayerState& state, Rows in,
         Rows out);

void feed_forward(const Step& step, const Mlp& mlp, Rows in, Rows out);
void feed_forward(const Step& step, const Experts& experts, Rows in, Rows out);

// Columns of work.inputs and the like that each part needs.
struct Widths {
  int inputs = 0;
  int middle = 0;
  int latent = 0;
  int mixed = 0;
  int ffn = 0;
  int n_experts = 0;
  int n_used = 0;
  int expert_input = 0;
  bool shared = false;
  bool selection = false;
};
void widen(Widths& widths, const AttentionRecipe& r);
void widen(Widths& widths, const LatentAttentionRecipe& r);
void widen(Widths& widths, const GatedDeltaRecipe& r);
void widen(Widths& widths, const MlpRecipe& r);
void widen(Widths& widths, const ExpertsRecipe& r);

}  // namespace ingot
