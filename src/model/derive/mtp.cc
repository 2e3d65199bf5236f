// MTP heads: found by their tensors, since configs count them though files lack them, and
// the other way round (architectures.md 13, 15; -more.md 3.1).
#include "model/derive/parts.h"

namespace ingot {

std::vector<MtpRecipe> build_mtp(const Build& b) {
  constexpr int kMaxHeads = 16;
  const MtpNames& names = b.names.mtp;
  const int hidden = b.d.hidden_size;
  std::vector<MtpRecipe> out;
  for (int i = 0; i < kMaxHeads; ++i) {
    const std::string layer = names.prefix.empty()
                                  ? b.names.layer + std::to_string(b.d.n_layers + i) + "."
                                  : names.prefix + "layers." + std::to_string(i) + ".";
    const std::string own = names.prefix.empty() ? layer : names.prefix;
    // Heads under one prefix share all but their layer.
    const std::string probe =
        names.prefix.empty() ? own + names.embed_norm : layer + b.names.input_norm;
    if (!b.checkpoint.find(probe + ".weight")) break;
    LayerPlan plan = b.d.mtp_layer;
    if (plan.indexer == LayerIndexer::full &&
        !b.checkpoint.find(layer + b.names.latent.indexer_k + ".weight"))
      plan.indexer = LayerIndexer::none;  // its drafts see every key
    MtpRecipe head;
    head.embed_norm = norm_recipe(b.d, own + names.embed_norm, hidden);
    head.hidden_norm = norm_recipe(b.d, own + names.hidden_norm, hidden);
    head.project = plain_linear(own + names.project, hidden, 2 * hidden);
    head.layer = build_layer(b, layer, plan);
    const bool own_norm = b.checkpoint.find(own + names.final_norm + ".weight");
    head.final_norm =
        norm_recipe(b.d, own_norm ? own + names.final_norm : b.names.final_norm, hidden);
    if (!names.embed.empty() && b.checkpoint.find(own + names.embed))
      head.embed = MatrixSource{
          .name = own + names.embed, .n_rows = b.d.vocab_size, .n_cols = hidden};
    if (!names.head.empty() && b.checkpoint.find(own + names.head))
      head.head = LinearRecipe{
          {{.name = own + names.head, .n_rows = b.d.vocab_size, .n_cols = hidden}}, {}};
    head.chains_normed = b.d.mtp_chains_normed;
    out.push_back(std::move(head));
  }
  return out;
}

}  // namespace ingot
