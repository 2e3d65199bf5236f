// The forward pass: one batch of tokens through every layer.
#pragma once

#include <functional>
#include <vector>

#include "model/model.h"
#include "model/state.h"
#include "ops/ops.h"

namespace ingot {

// Activations of a step of at most max_tokens rows.  Allocated once.
struct Workspace {
  Workspace(const Recipe& recipe, Ops& ops, int max_tokens, int max_logit_rows,
            int context);
  Ops::OwnedRows x;       // [max_tokens, hidden_size]  the residual stream
  Ops::OwnedRows h;       // [max_tokens, hidden_size]  what a sublayer reads and writes
  Ops::OwnedRows inputs;  // [max_tokens, widest projections of a mixer]
  Ops::OwnedRows middle;  // [max_tokens, widest of what a mixer makes of them]
  Ops::OwnedRows latent;  // [max_tokens, widest attention over latents]
  Ops::OwnedRows mixed;   // [max_tokens, widest mixer output]
  Ops::OwnedRows ffn;     // [max_tokens, widest MLP input]
  Ops::OwnedRows router_logits;   // [max_tokens, most experts]
  Ops::OwnedRows expert_inputs;   // [max_tokens * n_used, widest expert input]
  Ops::OwnedRows expert_outputs;  // [max_tokens * n_used, hidden_size]
  Ops::OwnedRows shared;          // [max_tokens, hidden_size]
  Ops::OwnedRows shared_gate;     // [max_tokens, 1]
  Memory routed_experts;          // [max_tokens, n_used] int32
  Memory routed_weights;          // [max_tokens, n_used] float32
  Memory selection_bits;          // [max_tokens, context / 64] uint64
  KeySelection selection;         // of the last layer with an indexer
  Ops::OwnedRows picked;          // [max_logit_rows, hidden_size]
  Ops::OwnedRows logits;          // [max_logit_rows, vocab_size]
  Ops::OwnedRows drafts;          // [max_tokens, 2 * hidden_size], what an MTP head reads
  Ops::OwnedRows hidden;          // [max_tokens, hidden_size], the same
  std::vector<Ops::OwnedRows> cos_sin;  // per rope [max_tokens, rotary_dims]

  size_t bytes() const;
};

// Hears the residual stream: index 0 the embeddings, j after layer j, and as the last one
// (n_layers) the rows after the final norm instead of after the last layer.
using HiddenTap = std::function<void(int index, Rows rows)>;

// Runs `batch` through the model; appends to the pages.  Afterwards work.h holds the
// final normed rows.  status (one int32): set to the index of the first hidden state that
// is not finite (as HiddenTap counts).  `tap` may be empty.
void forward(const Model& model, const Batch& batch, const SequenceState& state,
             Workspace& work, const Buffer& status, const HiddenTap& tap);

// Runs MTP head `head` on row t's token (the one after its position) and hidden[t], the
// model's final normed row at that position or the head's own row of the draft before.
// Appends to the head's pages.  Afterwards work.h holds the head's final normed rows and
// work.x what stood before that norm.  hidden must not be work.h or work.x.
void forward_mtp(const Model& model, int head, Rows hidden, const Batch& batch,
                 const SequenceState& state, Workspace& work, const Buffer& status);

// Logits of chosen rows of the last forward: rows [count] int32 indices into the batch.
// Returns work.logits narrowed to count rows; a logit that is not finite sets status to
// n_layers + 1.  head: -1 the model's, else that MTP head's.
Rows compute_logits(const Model& model, const Buffer& rows, int count, int n_tokens,
                    Workspace& work, const Buffer& status, int head = -1);

}  // namespace ingot
