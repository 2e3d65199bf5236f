// Pieces of a recipe that the builders of mixers, MLPs and experts share.
#pragma once

#include "model/derive/decoder.h"

namespace ingot {

// What every builder looks at.
struct Build {
  const Checkpoint& checkpoint;
  const Decoder& d;
  const DecoderNames& names;
};

NormRecipe norm_recipe(const Decoder& d, const std::string& name, int width);
// An RMS norm whose weights are stored as they are.
NormRecipe plain_norm(const std::string& name, int width, double eps);
// name.weight [n_rows, n_cols], and name.bias if asked for.
void add_part(LinearRecipe& linear, const Decoder& d, const std::string& name, int n_rows,
              int n_cols, bool bias, const RowOrder& order = {}, int stored_rows = 0);
LinearRecipe plain_linear(const std::string& name, int n_rows, int n_cols,
                          bool bias = false);
// name + ".weight" or name, whichever the checkpoint has; empty: neither.
std::string stored_name(const Checkpoint& checkpoint, const std::string& name);

MlpRecipe build_mlp(const Build& b, const std::string& layer);
ExpertsRecipe build_experts(const Build& b, const std::string& layer);
GatedDeltaRecipe build_gated_delta(const Build& b, const std::string& layer);
LatentAttentionRecipe build_latent(const Build& b, const std::string& layer,
                                   const LayerPlan& plan);
LayerRecipe build_layer(const Build& b, const std::string& layer, const LayerPlan& plan);
// The heads whose tensors the checkpoint has.
std::vector<MtpRecipe> build_mtp(const Build& b);

}  // namespace ingot
