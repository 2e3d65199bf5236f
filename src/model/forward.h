// The forward pass: one batch of tokens through every layer.
#pragma once

#include <functional>
#include <vector>

#include "model/model.h"
#include "ops/ops.h"

namespace ingot {

// Sequence state on the device: for each layer, the pages of its mixer.
struct StatePages {
  std::vector<KvPages> layers;  // empty layout where a layer keeps none
  std::vector<Memory> memory;
  int n_pages = 0;
  size_t bytes = 0;
};
StatePages allocate_state(const Recipe& recipe, Ops& ops, KvType kv_type, int n_pages);
// Bytes that one page takes over all layers.
size_t state_page_bytes(const Recipe& recipe, KvType kv_type);

// Activations of a step of at most max_tokens rows.  Allocated once.
struct Workspace {
  Workspace(const Recipe& recipe, Ops& ops, int max_tokens, int max_logit_rows,
            int context);
  Ops::OwnedRows x;       // [max_tokens, hidden_size]  the residual stream
  Ops::OwnedRows h;       // [max_tokens, hidden_size]  what a sublayer reads and writes
  Ops::OwnedRows qkv;     // [max_tokens, widest mixer input]
  Ops::OwnedRows mixed;   // [max_tokens, widest mixer output]
  Ops::OwnedRows ffn;     // [max_tokens, widest MLP input]
  Ops::OwnedRows picked;  // [max_logit_rows, hidden_size]
  Ops::OwnedRows logits;  // [max_logit_rows, vocab_size]
  std::vector<Ops::OwnedRows> cos_sin;  // per rope [max_tokens, rotary_dims]
};

// Hears the residual stream: index 0 the embeddings, j after layer j, and as the last one
// (n_layers) the rows after the final norm instead of after the last layer.
using HiddenTap = std::function<void(int index, Rows rows)>;

// Runs `batch` through the model; appends to the pages.  Afterwards work.h holds the
// final normed rows.  status (one int32): set to the index of the first hidden state that
// is not finite (as HiddenTap counts).  `tap` may be empty.
void forward(const Model& model, const Batch& batch, const StatePages& state,
             Workspace& work, const Buffer& status, const HiddenTap& tap);

// Logits of chosen rows of the last forward: rows [count] int32 indices into the batch.
// Returns work.logits narrowed to count rows; a logit that is not finite sets status to
// n_layers + 1.
Rows compute_logits(const Model& model, const Buffer& rows, int count, int n_tokens,
                    Workspace& work, const Buffer& status);

}  // namespace ingot
