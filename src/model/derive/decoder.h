// What the dense decoder families share: numbers out of a config, and tensor names, in
// one struct; build_decoder() lays out the recipe from it.  A family fills what it means.
#pragma once

#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "model/derive/fields.h"
#include "model/recipe.h"

namespace ingot {

// Tensor names of one container.  Layer names follow `layer` + N + ".".
struct DecoderNames {
  std::string embed;
  std::string position_embed;
  std::string final_norm;
  std::string head;
  std::string layer;
  std::string input_norm, post_mixer_norm, ffn_norm, post_ffn_norm;
  std::string q, k, v, qkv, o, q_norm, k_norm;
  std::string gate, up, down;
  std::string rope_freqs;
};
// The Llama layout of Hugging Face names under `prefix` ("model."), and GGUF's.
DecoderNames hf_decoder_names(const std::string& prefix);
DecoderNames gguf_decoder_names();

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
  Activation activation = Activation::silu;
  bool gated = true;
  bool tied = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool post_norms = false;      // norms after the mixer and the MLP, before the adds
  bool fused_qkv = false;       // one stored matrix of queries, keys, values
  bool transposed = false;      // linear weights stored [in, out]
  bool interleaved_qk = false;  // GGUF's permuted q and k rows
  bool learned_positions = false;
  std::vector<RopeRecipe> ropes;
  std::vector<int> layer_rope;    // per layer, index into ropes or -1
  std::vector<int> layer_window;  // per layer, 0: none
};

Recipe build_decoder(const Decoder& d, const DecoderNames& names);

// Throws unless heads, KV heads and head size fit together; `fields` names the source.
void check_heads(const Decoder& d, const Fields& fields, std::string_view kv_field,
                 std::string_view head_dim_field);

// RoPE of a Hugging Face config: rope_parameters (5.x), or rope_theta + rope_scaling.
// `parameters` is the object that holds them for one kind of layer.
RopeRecipe rope_from_config(const Fields& config, int head_dim, double default_theta);
RopeRecipe rope_from_parameters(const Fields& parameters, int head_dim, double theta);

// RoPE of GGUF metadata, with rope_freqs.weight where the file has it.
RopeRecipe rope_from_gguf(const Fields& fields, const Checkpoint& checkpoint,
                          int head_dim, RopePairing pairing);

// silu, gelu_pytorch_tanh, gelu_new ...; refuses others by name.
Activation activation_from(const Fields& config, std::string_view field,
                           std::string_view fallback);

// The families.  `model_type` / `architecture` was already read.
Recipe derive_llama_config(const Checkpoint& checkpoint, const Fields& config,
                           const std::string& model_type);  // llama mistral qwen2 qwen3
Recipe derive_llama_gguf(const Checkpoint& checkpoint, const Fields& fields,
                         const std::string& architecture);  // llama qwen2 qwen3
Recipe derive_gemma3_config(const Checkpoint& checkpoint, const Fields& config);
Recipe derive_gemma3_gguf(const Checkpoint& checkpoint, const Fields& fields);
Recipe derive_gpt2_config(const Checkpoint& checkpoint, const Fields& config);
Recipe derive_gpt2_gguf(const Checkpoint& checkpoint, const Fields& fields);

// Shared readings of GGUF: vocabulary size from token_embd, tied when there is no output.
Decoder decoder_from_gguf(const Checkpoint& checkpoint, const Fields& fields,
                          const std::string& architecture);
// Shared readings of a Llama-like config.json.
Decoder decoder_from_config(const Fields& config, const std::string& model_type);
// "model.", "", "language_model.model." ...: the prefix under which embed_tokens stands.
std::string hf_prefix(const Checkpoint& checkpoint, std::string_view embed_name);

}  // namespace ingot
