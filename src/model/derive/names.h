// Tensor names of one container, as the families' builders ask for them.
#pragma once

#include <string>
#include <vector>

namespace ingot {

// Under a layer; "one" is followed by the expert's number and "." + gate, up or down.
// Stacks hold all experts: [n_experts, ., .], under the first of `stacks` that is there.
struct ExpertNames {
  std::string router;
  std::string selection_bias;  // whole name
  std::string one;             // empty: never one by one
  std::string gate, up, down;
  std::vector<std::string> stacks;
  std::string stack_gate, stack_up, stack_down;
  std::string stack_gate_up;  // both in one
  std::string shared_gate, shared_up, shared_down;
  std::string shared_sigmoid;  // the shared expert's own gate
};

struct DeltaNames {
  std::string qkvz, ba;      // by key head
  std::string qkv, z, b, a;  // by kind
  std::string conv, decay, dt_bias, norm, o;
};

struct LatentNames {
  std::string q, q_a, q_a_norm, q_b, kv_a, kv_a_norm;
  std::string kv_b;  // keys and values of all heads in one, or
  std::string k_b,
      v_b;  // [n_heads, kv_lora_rank, nope] and [n_heads, value, kv_lora_rank]
  std::string indexer_q, indexer_k, indexer_k_norm, indexer_weights;
};

// Names follow the layer's prefix, or `prefix` where it is given.
struct MtpNames {
  std::string
      prefix;  // "mtp.": layers are prefix + "layers.N."; empty: they go on counting
  std::string embed_norm, hidden_norm, project, final_norm;
  std::string embed, head;  // whole names
};

// Layer names follow `layer` + N + ".".
struct DecoderNames {
  std::string embed;
  std::string position_embed;
  std::string final_norm;
  std::string head;
  std::string layer;
  std::string input_norm, post_mixer_norm, ffn_norm, post_ffn_norm;
  std::string q, k, v, qkv, o, q_norm, k_norm;
  std::string sinks;  // whole name
  std::string gate, up, down, gate_up;
  ExpertNames experts;
  DeltaNames delta;
  LatentNames latent;
  MtpNames mtp;
};

// The Llama layout of Hugging Face names under `prefix` ("model."), and GGUF's.
DecoderNames hf_decoder_names(const std::string& prefix);
DecoderNames gguf_decoder_names();

}  // namespace ingot
