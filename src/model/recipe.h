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

// Which stored row each row is.  The index counts through `axes`, outermost first; each
// digit moves by its stride from `first`.  No axes: first + row.
struct RowAxis {
  int count = 0;
  int stride = 0;
};
struct RowOrder {
  int first = 0;
  std::vector<RowAxis> axes;

  int stored(int row) const;
  bool plain() const { return first == 0 && axes.empty(); }
  // Rows of heads whose stored rows alternate between the two halves of the head (GGUF's
  // "permuted" q and k), read back in half order.
  static RowOrder alternating_halves(int n_heads, int head_dim);
};

// A stored matrix, as rows of a matmul weight [n_rows, n_cols].
struct MatrixSource {
  std::string name;  // in the checkpoint
  int n_rows = 0;
  int n_cols = 0;
  bool transposed = false;  // stored as [n_cols, stored rows] (GPT-2's Conv1D)
  RowOrder order = {};
  int stored_rows = 0;  // of the whole stored matrix; 0: n_rows
  int first_col = 0;    // of a stored matrix with stored_cols columns (0: n_cols);
  int stored_cols = 0;  // only where transposed
  int slice = -1;       // >= 0: that matrix of a stored [slices, ., .]
  int n_slices = 0;     // with slice: how many there are
};

enum class VectorMap { none, minus_exp };  // minus_exp: -exp(x) of each

// A stored vector of n values, float32 after loading; `add` is added to each (norm
// weights stored around zero).
struct VectorSource {
  std::string name;
  int n = 0;
  float add = 0.0f;
  RowOrder order = {};
  VectorMap map = VectorMap::none;
  int stored_n = 0;  // of the whole stored vector; 0: n
  int slice = -1;    // >= 0: that row of a stored [n_slices, .]
  int n_slices = 0;
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

enum class RopeScalingKind { none, linear, llama3, divisors, yarn, longrope };

struct RopeRecipe {
  double theta = 10000.0;
  int rotary_dims = 0;
  RopePairing pairing = RopePairing::half_split;
  RopeScalingKind scaling = RopeScalingKind::none;
  double factor = 1.0;                   // linear, llama3, yarn
  double low_freq_factor = 1.0;          // llama3
  double high_freq_factor = 4.0;         // llama3
  double original_context = 0;           // llama3, yarn, longrope
  double beta_fast = 32.0;               // yarn
  double beta_slow = 1.0;                // yarn
  bool truncate = true;                  // yarn: bounds at whole pairs
  float attention_factor = 1.0f;         // multiplies cos and sin: yarn, longrope
  std::optional<VectorSource> divisors;  // divisors: GGUF's rope_freqs
  // longrope: divisors of a context within original_context, and of a longer one; the
  // context asked for at load decides, once.  Numbers, or tensors (GGUF).
  std::vector<float> short_divisors, long_divisors;
  std::optional<VectorSource> short_source, long_source;
};

enum class HeadNormSpan { head, projection };  // of q_norm and k_norm

struct AttentionRecipe {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  float scale = 1.0f;  // multiplies q . k
  int window = 0;      // > 0: keys this near only, the own one included
  int rope = -1;       // index into Recipe::ropes; -1: no rotation
  bool gated = false;  // output *= sigmoid(gate)
  LinearRecipe qkv;    // rows: queries, keys, values, then gates [n_heads * head_dim]
  LinearRecipe output;
  HeadNormSpan norm_span = HeadNormSpan::head;
  std::optional<NormRecipe> q_norm;  // before the rotation
  std::optional<NormRecipe> k_norm;
  std::optional<VectorSource> sinks;  // [n_heads]: a logit that takes weight, no value
};

// Which keys a query of sparse attention sees (architectures.md 16).
struct IndexerRecipe {
  int n_heads = 0;
  int head_dim = 0;
  int top_k = 0;
  float score_scale = 1.0f;  // of q . k, inside the ReLU; both scales of the formula
  int rope = -1;             // turns the first rotary_dims of each head
  LinearRecipe q;            // of the query latent: [n_heads * head_dim]
  LinearRecipe k;            // of the layer's input: [head_dim]
  NormRecipe k_norm;         // layer norm
  LinearRecipe weights;      // of the layer's input: [n_heads], float32
};

// Multi-head latent attention (architectures.md 15), computed in the latent space: the
// page keeps the normed latent and the rotated key, kv_lora_rank + rope_dims values.
struct LatentAttentionRecipe {
  int n_heads = 0;
  int kv_lora_rank = 0;
  int nope_dims = 0;
  int rope_dims = 0;
  int value_dim = 0;
  float scale = 1.0f;
  int rope = -1;                    // index into Recipe::ropes; -1: no rotation
  std::optional<LinearRecipe> q_a;  // query latent; absent: q_b reads the layer's input
  std::optional<NormRecipe> q_a_norm;
  LinearRecipe q_b;   // [n_heads * (nope_dims + rope_dims)], nope first in each head
  LinearRecipe kv_a;  // [kv_lora_rank + rope_dims]
  NormRecipe kv_a_norm;
  std::vector<MatrixSource> key_up;    // a head each: [kv_lora_rank, nope_dims]
  std::vector<MatrixSource> value_up;  // a head each: [value_dim, kv_lora_rank]
  LinearRecipe output;
  std::optional<IndexerRecipe> indexer;
  bool shares_selection = false;  // no indexer of its own: the selection of the last one
};

// Gated delta rule with its short convolution (architectures.md 11.5, 12; design.md).
struct GatedDeltaRecipe {
  int n_key_heads = 0;
  int n_value_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int conv_kernel = 0;
  // Value head j reads key head j % n_key_heads, else j / (n_value_heads / n_key_heads).
  bool tiled_value_heads = false;
  // Rows: q and k of all key heads, v of all value heads (together the channels of the
  // convolution), z like v, then b and a, one a value head.
  LinearRecipe input;
  MatrixSource conv;     // [channels, conv_kernel], the last column meets the own token
  VectorSource decay;    // [n_value_heads] -exp(A_log)
  VectorSource dt_bias;  // [n_value_heads]
  NormRecipe norm;       // of each value head: weight [value_dim]
  LinearRecipe output;
};

struct MlpRecipe {
  int intermediate_size = 0;
  GatedActivation activation;
  bool gated = true;   // down(act(gate x) * up x), otherwise down(act(up x))
  LinearRecipe input;  // rows: gate then up, or up alone
  LinearRecipe down;
};

struct ExpertsRecipe {
  int intermediate_size = 0;
  GatedActivation activation;
  RouterArgs routing;                          // all but its bias
  LinearRecipe router;                         // [n_experts]
  std::optional<VectorSource> selection_bias;  // [n_experts], for the choice alone
  std::vector<LinearRecipe> input;             // an expert each, rows: gate then up
  std::vector<LinearRecipe> down;
  std::optional<MlpRecipe> shared;          // runs for every token, added last
  std::optional<LinearRecipe> shared_gate;  // [1]: shared times its sigmoid
};

using MixerRecipe =
    std::variant<AttentionRecipe, LatentAttentionRecipe, GatedDeltaRecipe>;
using FfnRecipe = std::variant<MlpRecipe, ExpertsRecipe>;

// x += post_mixer_norm(mixer(input_norm(x))); x += post_ffn_norm(ffn(ffn_norm(x)))
struct LayerRecipe {
  std::optional<NormRecipe> input_norm;
  MixerRecipe mixer;
  std::optional<NormRecipe> post_mixer_norm;
  std::optional<NormRecipe> ffn_norm;
  FfnRecipe ffn;
  std::optional<NormRecipe> post_ffn_norm;
};

// A head that predicts the token after the next (architectures.md 13, 15):
// y = layer(project [norm(embed(t[p+1])); norm(h[p])]), logits = head(final_norm(y)).
struct MtpRecipe {
  NormRecipe embed_norm;
  NormRecipe hidden_norm;
  LinearRecipe project;  // [hidden_size, 2 * hidden_size], embedding first
  LayerRecipe layer;
  NormRecipe final_norm;
  std::optional<MatrixSource> embed;  // absent: the model's
  std::optional<LinearRecipe> head;   // absent: the model's
  bool chains_normed = true;          // the next draft reads final_norm(y), else y
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
  std::vector<MtpRecipe> mtp;
};

// 1 / theta^(2i / rotary_dims) after scaling, rotary_dims / 2 values in float32 as the
// reference computes them.  `divisors`: those that apply (divisors, longrope), loaded.
// Source: architectures.md 2.1, 2.2.
std::vector<float> rope_inverse_frequencies(const RopeRecipe& rope,
                                            const std::vector<float>& divisors);

// The recipe as a person reads it, one fact a line, equal neighbouring layers told once.
std::string describe(const Recipe& recipe);
// The same as JSON (inspect --json).
std::string recipe_json(const Recipe& recipe);

}  // namespace ingot
