// A loaded model: its recipe and its weights, placed in one backend's memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>
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
  Memory sinks;  // [n_heads] float32, or empty
};

struct Indexer {
  const IndexerRecipe* recipe = nullptr;
  Linear q;
  Linear k;
  Norm k_norm;
  Linear weights;
};

struct LatentAttention {
  const LatentAttentionRecipe* recipe = nullptr;
  std::optional<Linear> q_a;
  std::optional<Norm> q_a_norm;
  Linear q_b;
  Linear kv_a;
  Norm kv_a_norm;
  std::vector<std::unique_ptr<Weight>> key_up;    // a head each
  std::vector<std::unique_ptr<Weight>> value_up;  // a head each
  Linear output;
  std::optional<Indexer> indexer;
};

struct GatedDelta {
  const GatedDeltaRecipe* recipe = nullptr;
  Linear input;
  Memory conv;     // [channels, conv_kernel] float32
  Memory decay;    // [n_value_heads] float32
  Memory dt_bias;  // [n_value_heads] float32
  Norm norm;
  Linear output;
};

struct Mlp {
  const MlpRecipe* recipe = nullptr;
  Linear input;
  Linear down;
};

struct Experts {
  const ExpertsRecipe* recipe = nullptr;
  RouterArgs routing;  // with the selection bias in place
  Linear router;
  Memory selection_bias;  // [n_experts] float32, or empty
  ExpertWeights input;
  ExpertWeights down;
  std::optional<Mlp> shared;
  std::optional<Linear> shared_gate;
};

struct Layer {
  std::optional<Norm> input_norm;
  std::variant<Attention, LatentAttention, GatedDelta> mixer;
  std::optional<Norm> post_mixer_norm;
  std::optional<Norm> ffn_norm;
  std::variant<Mlp, Experts> ffn;
  std::optional<Norm> post_ffn_norm;
};

struct MtpHead {
  const MtpRecipe* recipe = nullptr;
  Norm embed_norm;
  Norm hidden_norm;
  Linear project;
  Layer layer;
  Norm final_norm;
  std::unique_ptr<Weight> embed;  // absent: the model's
  std::optional<Linear> head;     // absent: the model's
};

struct Rope {
  Memory inv_freq;  // [rotary_dims / 2] float32
  RopePairing pairing = RopePairing::half_split;
  int rotary_dims = 0;
  float attention_factor = 1.0f;
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
  std::vector<MtpHead> mtp;
  size_t weight_bytes = 0;  // packed, in memory

  const Weight& head_weight() const { return head ? *head->weight : *embed; }
};

struct ModelLoad {
  // Positions that will be asked for: chooses longrope's factors, once.  0: as many as
  // the checkpoint was made for.
  int context = 0;
  // Hears stored bytes done and in all.
  std::function<void(uint64_t, uint64_t)> progress = {};
};

// Reads every tensor that the recipe names, checks its shape against the recipe, packs
// it.  Throws Error naming file and tensor for a missing or misshapen one, one that is
// not finite where it must be, one that belongs to no layer of the recipe, and when
// memory runs out; kind interrupted on Ctrl-C.
std::unique_ptr<Model> load_model(const Checkpoint& checkpoint, Recipe recipe, Ops& ops,
                                  const ModelLoad& options);

}  // namespace ingot
