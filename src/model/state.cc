#include "model/state.h"

namespace ingot {
namespace {

KvLayout kv_layout(const AttentionRecipe& r, KvType type) {
  return {r.n_kv_heads, r.head_dim, r.head_dim, type};
}
KvLayout kv_layout(const LatentAttentionRecipe& r, KvType type) {
  return {1, r.kv_lora_rank + r.rope_dims, r.kv_lora_rank, type, true};
}
KvLayout kv_layout(const GatedDeltaRecipe&, KvType) { return {}; }

LayerState layout_of(const LayerRecipe& layer, KvType type) {
  LayerState out;
  out.kv.layout =
      std::visit([&](const auto& mixer) { return kv_layout(mixer, type); }, layer.mixer);
  if (const auto* latent = std::get_if<LatentAttentionRecipe>(&layer.mixer))
    if (latent->indexer) out.index_keys.layout = {1, latent->indexer->head_dim, 0, type};
  if (const auto* delta = std::get_if<GatedDeltaRecipe>(&layer.mixer))
    out.recurrent.layout = {delta->n_key_heads, delta->n_value_heads, delta->key_dim,
                            delta->value_dim, delta->conv_kernel};
  return out;
}

// Of every layer and MTP head, without memory.
std::vector<LayerState> layouts(const Recipe& recipe, KvType type) {
  std::vector<LayerState> out;
  for (const LayerRecipe& layer : recipe.layers) out.push_back(layout_of(layer, type));
  for (const MtpRecipe& mtp : recipe.mtp) out.push_back(layout_of(mtp.layer, type));
  return out;
}

size_t page_bytes(const KvPages& pages) {
  return pages.layout.n_kv_heads == 0 ? 0 : kv_page_bytes(pages.layout);
}
size_t slot_bytes(const RecurrentState& state) {
  return state.layout.n_value_heads == 0 ? 0 : recurrent_slot_bytes(state.layout);
}

}  // namespace

size_t state_page_bytes(const Recipe& recipe, KvType kv_type) {
  size_t bytes = 0;
  for (const LayerState& layer : layouts(recipe, kv_type))
    bytes += page_bytes(layer.kv) + page_bytes(layer.index_keys);
  return bytes;
}

size_t state_slot_bytes(const Recipe& recipe) {
  size_t bytes = 0;
  for (const LayerState& layer : layouts(recipe, KvType::f32))
    bytes += slot_bytes(layer.recurrent);
  return bytes;
}

bool has_recurrent_state(const Recipe& recipe) { return state_slot_bytes(recipe) > 0; }

SequenceState allocate_state(const Recipe& recipe, Ops& ops, KvType kv_type, int n_pages,
                             int n_slots) {
  SequenceState state;
  state.n_pages = n_pages;
  state.n_slots = n_slots;
  state.layers = layouts(recipe, kv_type);
  const auto allocate = [&](size_t bytes) {
    state.bytes += bytes;
    return state.memory.emplace_back(ops.allocate(bytes)).buffer();
  };
  for (LayerState& layer : state.layers) {
    layer.kv.pages = allocate(page_bytes(layer.kv) * size_t(n_pages));
    layer.index_keys.pages = allocate(page_bytes(layer.index_keys) * size_t(n_pages));
    layer.recurrent.slots = allocate(slot_bytes(layer.recurrent) * size_t(n_slots));
  }
  return state;
}

}  // namespace ingot
