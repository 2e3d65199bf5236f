// A recipe: everything that says what a model computes, as plain data, derived from the
// checkpoint's own config.json or GGUF metadata (derive.h).  The forward pass branches on
// what a layer is, never on whose model it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ops/ops.h"

namespace ingot {

// ---- Where weights come from --------------------------------------------------------

// A stored matrix, as rows of a matmul weight [n_rows, n_cols].
struct MatrixSource {
  std::string name;  // in the checkpoint
  int n_rows = 0;
  int n_cols = 0;
  bool transposed = false;  // stored as [n_cols, n_rows] (GPT-2's Conv1D)
  // > 0: within each of so many heads the stored rows alternate between the two halves of
  // the head (GGUF's "permuted" q and k); read back in half order.
  int interleaved_heads = 0;
};

// A stored vector of n values, float32 after loading; `add` is added to each (norm
// weights stored around zero).
struct VectorSource {
  std::string name;
  int n = 0;
  float add = 0.0f;
  int interleaved_heads = 0;
};

// y = W x + b, the rows of `parts` stacked in order.
struct LinearRecipe {
  std::vector<MatrixSource> parts;
  std::vector<VectorSource> bias;  // none, or one for each part, in the same order
};

// ---- Parts of a layer ---------------------------------------------------------------

enum class NormKind { rms, layer };

struct NormRecipe {
  NormKind kind = NormKind::rms;
  float eps = 0.0f;
  VectorSource weight;
  std::optional<VectorSource> bias;  // layer norms only
};

enum class RopeScalingKind { none, linear, llama3, divisors };

struct RopeRecipe {
  double theta = 10000.0;
  int rotary_dims = 0;
  RopePairing pairing = RopePairing::half_split;
  RopeScalingKind scaling = RopeScalingKind::none;
  double factor = 1.0;                   // linear, llama3
  double low_freq_factor = 1.0;          // llama3
  double high_freq_factor = 4.0;         // llama3
  double original_context = 0;           // llama3
  std::optional<VectorSource> divisors;  // divisors: GGUF's rope_freqs
};

struct AttentionRecipe {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  float scale = 1.0f;  // multiplies q . k
  int window = 0;      // > 0: keys this near only, the own one included
  int rope = -1;       // index into Recipe::ropes; -1: no rotation
  LinearRecipe qkv;    // rows: queries, keys, values
  LinearRecipe output;
  std::optional<NormRecipe> q_norm;  // of each head, before the rotation
  std::optional<NormRecipe> k_norm;
};

struct MlpRecipe {
  int intermediate_size = 0;
  Activation activation = Activation::silu;
  bool gated = true;   // down(act(gate x) * up x), otherwise down(act(up x))
  LinearRecipe input;  // rows: gate then up, or up alone
  LinearRecipe down;
};

using MixerRecipe = std::variant<AttentionRecipe>;
using FfnRecipe = std::variant<MlpRecipe>;

// x += post_mixer_norm(mixer(input_norm(x))); x += post_ffn_norm(ffn(ffn_norm(x)))
struct LayerRecipe {
  std::optional<NormRecipe> input_norm;
  MixerRecipe mixer;
  std::optional<NormRecipe> post_mixer_norm;
  std::optional<NormRecipe> ffn_norm;
  FfnRecipe ffn;
  std::optional<NormRecipe> post_ffn_norm;
};

// ---- The model ----------------------------------------------------------------------

struct Recipe {
  std::string family;  // what the checkpoint calls itself; for people, never branched on
  int vocab_size = 0;  // rows of the embedding
  int hidden_size = 0;
  int max_positions = 0;  // the context the checkpoint was made for
  MatrixSource embed;
  float embed_scale = 1.0f;
  std::optional<MatrixSource>
      position_embed;  // learned positions, added to the embedding
  std::vector<RopeRecipe> ropes;
  std::vector<LayerRecipe> layers;
  NormRecipe final_norm;
  std::optional<LinearRecipe> head;  // absent: the embedding (tied)
  float logit_softcap = 0.0f;        // > 0: logits become c * tanh(z / c)
};

// 1 / theta^(2i / rotary_dims) after scaling, rotary_dims / 2 values in float32 as the
// reference computes them.  `divisors`: the loaded values where the recipe names them.
// Source: architectures.md 2.1, 2.2.
std::vector<float> rope_inverse_frequencies(const RopeRecipe& rope,
                                            const std::vector<float>& divisors);

// The recipe as a person reads it, one fact a line, equal neighbouring layers told once.
std::string describe(const Recipe& recipe);
// The same as JSON (inspect --json).
std::string recipe_json(const Recipe& recipe);

}  // namespace ingot
