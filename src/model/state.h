// Sequence state in a backend's memory: for each layer what its mixer keeps.
#pragma once

#include <vector>

#include "model/recipe.h"
#include "ops/ops.h"

namespace ingot {

struct LayerState {
  KvPages kv;                // attention; the layout is empty where a layer keeps none
  KvPages index_keys;        // sparse attention with its own indexer
  RecurrentState recurrent;  // gated delta rule
};

struct SequenceState {
  std::vector<LayerState> layers;  // then one for each MTP head
  std::vector<Memory> memory;
  int n_pages = 0;
  int n_slots = 0;
  size_t bytes = 0;
};

SequenceState allocate_state(const Recipe& recipe, Ops& ops, KvType kv_type, int n_pages,
                             int n_slots);
// Bytes that one page takes over all layers, and one slot of recurrent state.
size_t state_page_bytes(const Recipe& recipe, KvType kv_type);
size_t state_slot_bytes(const Recipe& recipe);
// Whether a sequence can only be cut back as far as its recurrent slot allows.
bool has_recurrent_state(const Recipe& recipe);

}  // namespace ingot
