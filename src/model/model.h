// A loaded model: its recipe and its weights, placed in one backend's memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "formats/checkpoint.h"
#include "model/recipe.h"
#include "ops/ops.h"

namespace ingot {

struct Linear {
  std::unique_ptr<Weight> weight;
  Memory bias;  // [n_rows] float32, or empty
};

struct Norm {
  NormKind kind = NormKind::rms;
  float eps = 0.0f;
  Memory weight;  // [width] float32
  Memory bias;    // layer norms only
};

struct Attention {
  const AttentionRecipe* recipe = nullptr;
  Linear qkv;
  Linear output;
  std::optional<Norm> q_norm;
  std::optional<Norm> k_norm;
};

struct Mlp {
  const MlpRecipe* recipe = nullptr;
  Linear input;
  Linear down;
};

struct Layer {
  std::optional<Norm> input_norm;
  std::variant<Attention> mixer;
  std::optional<Norm> post_mixer_norm;
  std::optional<Norm> ffn_norm;
  std::variant<Mlp> ffn;
  std::optional<Norm> post_ffn_norm;
};

struct Rope {
  Memory inv_freq;  // [rotary_dims / 2] float32
  RopePairing pairing = RopePairing::half_split;
  int rotary_dims = 0;
};

// Immutable after load_model.  `ops` must outlive it.  Not movable: layers point into
// `recipe`.
struct Model {
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::string source;  // the checkpoint's path, for messages
  Recipe recipe;
  Ops* ops = nullptr;
  std::unique_ptr<Weight> embed;
  std::unique_ptr<Weight> position_embed;
  std::vector<Rope> ropes;
  std::vector<Layer> layers;
  Norm final_norm;
  std::optional<Linear> head;  // absent: the embedding
  size_t weight_bytes = 0;     // packed, in memory

  const Weight& head_weight() const { return head ? *head->weight : *embed; }
};

// Reads every tensor that the recipe names, checks its shape against the recipe, packs
// it. `progress` (may be empty) hears stored bytes done and in all.  Throws Error naming
// file and tensor for a missing or misshapen one, one that is not finite where it must
// be, one that belongs to no layer of the recipe, and when memory runs out; kind
// interrupted on Ctrl-C.
std::unique_ptr<Model> load_model(
    const Checkpoint& checkpoint, Recipe recipe, Ops& ops,
    const std::function<void(uint64_t, uint64_t)>& progress);

}  // namespace ingot
