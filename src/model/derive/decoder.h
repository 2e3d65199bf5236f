// What the decoder families share: numbers out of a config, and tensor names, in one
// struct; build_decoder() lays out the recipe from it.  A family fills what it means.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "model/derive/fields.h"
#include "model/derive/names.h"
#include "model/recipe.h"

namespace ingot {

enum class LayerIndexer { none, full, shared };  // of sparse attention

// What differs from layer to layer.
struct LayerPlan {
  int rope = 0;          // index into Decoder::ropes, or -1
  int window = 0;        // 0: none
  bool experts = false;  // instead of the MLP
  bool delta = false;    // the gated delta rule instead of attention
  LayerIndexer indexer = LayerIndexer::none;
};

struct Experts {
  RouterArgs routing;
  int intermediate_size = 0;
  int shared_size = 0;        // of the shared expert; 0: none
  bool shared_gated = false;  // by the sigmoid of its own gate
  bool selection_bias = false;
  bool bias = false;         // of the router and of every expert
  bool alternating = false;  // rows of gate and up alternate where they are one matrix,
                             // which is stored [in, out] unless in MXFP4
};

struct GatedDelta {
  int n_key_heads = 0;
  int n_value_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int conv_kernel = 0;
  bool tiled = false;         // value heads, as GatedDeltaRecipe says
  bool grouped_qkvz = false;  // stored by key head: q, k, v and z of each
  bool grouped_ba = false;    // stored by key head: b and a of each
  VectorMap decay = VectorMap::none;
};

struct Latent {
  int q_lora_rank = 0;  // 0: queries from the layer's input
  int kv_lora_rank = 0;
  int nope_dims = 0;
  int rope_dims = 0;
  int value_dim = 0;
  double norm_eps = 1e-6;  // of the latents
  int indexer_heads = 0;
  int indexer_dim = 0;
  int indexer_top_k = 0;
  int indexer_rope = 0;
};

struct Decoder {
  std::string family;
  int vocab_size = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int max_positions = 0;
  double norm_eps = 0;
  NormKind norm_kind = NormKind::rms;
  float norm_add = 0.0f;         // 1 where norm weights are stored around zero
  float attention_scale = 0.0f;  // 0: head_dim^-1/2
  float embed_scale = 1.0f;
  float logit_softcap = 0.0f;
  GatedActivation activation;
  bool gated = true;  // the MLP
  bool tied = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  HeadNormSpan norm_span = HeadNormSpan::head;
  bool gated_attention = false;  // gates in the query matrix, head by head
  bool sinks = false;
  bool pre_norms = true;        // before the mixer and the MLP
  bool post_norms = false;      // after the mixer and the MLP, before the adds
  bool fused_qkv = false;       // one stored matrix of queries, keys, values
  bool fused_gate_up = false;   // one stored matrix of gate and up
  bool transposed = false;      // linear weights stored [in, out]
  bool interleaved_qk = false;  // GGUF's permuted q and k rows
  bool learned_positions = false;
  std::vector<RopeRecipe> ropes;
  std::vector<LayerPlan> layers;
  LayerPlan mtp_layer;
  bool mtp_chains_normed = true;
  std::optional<Experts> experts;
  std::optional<GatedDelta> delta;
  std::optional<Latent> latent;
};

Recipe build_decoder(const Checkpoint& checkpoint, const Decoder& d,
                     const DecoderNames& names);

// Throws unless heads, KV heads and head size fit together; `fields` names the source.
void check_heads(const Decoder& d, const Fields& fields, std::string_view kv_field,
                 std::string_view head_dim_field);

// ---- Reading config.json -------------------------------------------------------------

// What rotation a config means where it does not say.
struct RopeDefaults {
  int head_dim = 0;
  double theta = 10000.0;
  double partial = 1.0;  // of the head that turns
  double max_positions = 0;
};

// RoPE of a Hugging Face config: rope_parameters (5.x), or rope_theta + rope_scaling.
// `parameters` is the object that holds them for one kind of layer.
RopeRecipe rope_from_config(const Fields& config, RopeDefaults defaults);
RopeRecipe rope_from_parameters(const Fields& parameters, const RopeDefaults& defaults);

// silu, gelu_pytorch_tanh, gelu_new ...; refuses others by name.
GatedActivation activation_from(const Fields& config, std::string_view field,
                                std::string_view fallback);

enum class MlpSize { required, optional };  // intermediate_size of families with experts
// Shared readings of a Llama-like config.json.  `default_head_dim` 0: hidden / heads.
Decoder decoder_from_config(const Fields& config, const std::string& model_type,
                            int default_head_dim = 0,
                            MlpSize mlp_size = MlpSize::required);
// layer_types, one of `allowed` a layer; nothing where the config has none.
std::vector<std::string> layer_types(const Fields& config, int n_layers,
                                     std::initializer_list<std::string_view> allowed);
// "model.", "", "language_model.model." ...: the prefix under which embed_tokens stands.
std::string hf_prefix(const Checkpoint& checkpoint, std::string_view embed_name);

// The field's other name in `others`, where the first is not there.
std::string_view present_field(const Fields& config,
                               std::initializer_list<std::string_view> names);
// num_experts (or what `count` names), num_experts_per_tok and the experts' width.
Experts experts_from_config(const Fields& config,
                            std::initializer_list<std::string_view> count,
                            std::string_view size_field);
// n_group and topk_group.
void groups_from_config(const Fields& config, Experts& experts);
// Throws where the choice of experts cannot be made as stated.
void check_experts(const Fields& fields, const Experts& experts, int n_layers,
                   std::string_view count_field, std::string_view used_field);

// qwen: every decoder_sparse_step-th layer but mlp_only_layers has experts.
void sparse_layers_from_config(const Fields& config, Decoder& d);
// glm, deepseek: all but the first first_k_dense_replace, or as mlp_layer_types says.
void leading_dense_layers(const Fields& config, Decoder& d);
// Experts of glm and deepseek: sigmoid, a bias for the choice, groups, a shared expert.
Experts noaux_experts_from_config(const Fields& config, const Decoder& d);
Experts noaux_experts_from_gguf(const Fields& fields, Decoder& d);

// ---- Reading GGUF --------------------------------------------------------------------

// Shared readings of GGUF: vocabulary size from token_embd, tied when there is no output,
// layers without those of MTP heads.
Decoder decoder_from_gguf(const Checkpoint& checkpoint, const Fields& fields,
                          const std::string& architecture);
// The same without head counts and sizes.
Decoder sizes_from_gguf(const Checkpoint& checkpoint, const Fields& fields,
                        const std::string& architecture);
// RoPE of GGUF metadata, with rope_freqs.weight and longrope's factors where they are.
RopeRecipe rope_from_gguf(const Fields& fields, const Checkpoint& checkpoint,
                          const RopeDefaults& defaults,
                          RopePairing pairing = RopePairing::half_split);
// attention.sliding_window_pattern: whether a layer is local.  One number n: all but
// every n-th; absent: `period` is that number.
std::vector<bool> local_layers_from_gguf(const Fields& fields, int n_layers, int period);
// Expert keys.  `gating`: what expert_gating_func says when it is absent.
Experts experts_from_gguf(const Fields& fields, const Decoder& d, RouterScore gating);
void refuse_experts(const Fields& fields);  // of dense families

}  // namespace ingot
