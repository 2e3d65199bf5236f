#include "model/derive/names.h"

namespace ingot {
namespace {

ExpertNames hf_expert_names() {
  ExpertNames n;
  n.router = "mlp.gate";
  n.selection_bias = "mlp.gate.e_score_correction_bias";
  n.one = "mlp.experts.";
  n.gate = "gate_proj";
  n.up = "up_proj";
  n.down = "down_proj";
  n.stacks = {"mlp.experts.", "mlp.switch_mlp."};  // the second is MLX's
  n.stack_gate = "gate_proj";
  n.stack_up = "up_proj";
  n.stack_down = "down_proj";
  n.stack_gate_up = "gate_up_proj";
  n.shared_gate = "mlp.shared_experts.gate_proj";
  n.shared_up = "mlp.shared_experts.up_proj";
  n.shared_down = "mlp.shared_experts.down_proj";
  return n;
}

DeltaNames hf_delta_names() {
  DeltaNames n;
  n.qkvz = "linear_attn.in_proj_qkvz";
  n.ba = "linear_attn.in_proj_ba";
  n.qkv = "linear_attn.in_proj_qkv";
  n.z = "linear_attn.in_proj_z";
  n.b = "linear_attn.in_proj_b";
  n.a = "linear_attn.in_proj_a";
  n.conv = "linear_attn.conv1d";
  n.decay = "linear_attn.A_log";
  n.dt_bias = "linear_attn.dt_bias";
  n.norm = "linear_attn.norm";
  n.o = "linear_attn.out_proj";
  return n;
}

LatentNames hf_latent_names() {
  LatentNames n;
  n.q = "self_attn.q_proj";
  n.q_a = "self_attn.q_a_proj";
  n.q_a_norm = "self_attn.q_a_layernorm";
  n.q_b = "self_attn.q_b_proj";
  n.kv_a = "self_attn.kv_a_proj_with_mqa";
  n.kv_a_norm = "self_attn.kv_a_layernorm";
  n.kv_b = "self_attn.kv_b_proj";
  n.k_b = "self_attn.embed_q";  // MLX's
  n.v_b = "self_attn.unembed_out";
  n.indexer_q = "self_attn.indexer.wq_b";
  n.indexer_k = "self_attn.indexer.wk";
  n.indexer_k_norm = "self_attn.indexer.k_norm";
  n.indexer_weights = "self_attn.indexer.weights_proj";
  return n;
}

// Those of the heads that stand in the layer after the last (GLM, DeepSeek).
MtpNames hf_mtp_names() {
  MtpNames n;
  n.embed_norm = "enorm";
  n.hidden_norm = "hnorm";
  n.project = "eh_proj";
  n.final_norm = "shared_head.norm";
  n.embed = "embed_tokens.weight";
  n.head = "shared_head.head.weight";
  return n;
}

ExpertNames gguf_expert_names() {
  ExpertNames n;
  n.router = "ffn_gate_inp";
  n.selection_bias = "exp_probs_b.bias";
  n.stacks = {""};
  n.stack_gate = "ffn_gate_exps";
  n.stack_up = "ffn_up_exps";
  n.stack_down = "ffn_down_exps";
  n.stack_gate_up = "ffn_gate_up_exps";
  n.shared_gate = "ffn_gate_shexp";
  n.shared_up = "ffn_up_shexp";
  n.shared_down = "ffn_down_shexp";
  n.shared_sigmoid = "ffn_gate_inp_shexp";
  return n;
}

DeltaNames gguf_delta_names() {
  DeltaNames n;
  n.qkvz = "ssm_in";
  n.ba = "ssm_ba";
  n.qkv = "attn_qkv";
  n.z = "attn_gate";
  n.b = "ssm_beta";
  n.a = "ssm_alpha";
  n.conv = "ssm_conv1d";
  n.decay = "ssm_a";
  n.dt_bias = "ssm_dt.bias";
  n.norm = "ssm_norm";
  n.o = "ssm_out";
  return n;
}

LatentNames gguf_latent_names() {
  LatentNames n;
  n.q = "attn_q";
  n.q_a = "attn_q_a";
  n.q_a_norm = "attn_q_a_norm";
  n.q_b = "attn_q_b";
  n.kv_a = "attn_kv_a_mqa";
  n.kv_a_norm = "attn_kv_a_norm";
  n.kv_b = "attn_kv_b";
  n.k_b = "attn_k_b";
  n.v_b = "attn_v_b";
  n.indexer_q = "indexer.attn_q_b";
  n.indexer_k = "indexer.attn_k";
  n.indexer_k_norm = "indexer.k_norm";
  n.indexer_weights = "indexer.proj";
  return n;
}

MtpNames gguf_mtp_names() {
  MtpNames n;
  n.embed_norm = "nextn.enorm";
  n.hidden_norm = "nextn.hnorm";
  n.project = "nextn.eh_proj";
  n.final_norm = "nextn.shared_head_norm";
  n.embed = "nextn.embed_tokens.weight";
  n.head = "nextn.shared_head_head.weight";
  return n;
}

}  // namespace

DecoderNames hf_decoder_names(const std::string& prefix) {
  DecoderNames n;
  n.embed = prefix + "embed_tokens.weight";
  n.final_norm = prefix + "norm";
  // The head stands beside the model: "language_model.model.norm" and
  // "language_model.lm_head"; else at the top.
  n.head = prefix.ends_with(".model.")
               ? prefix.substr(0, prefix.size() - 6) + "lm_head.weight"
               : "lm_head.weight";
  n.layer = prefix + "layers.";
  n.input_norm = "input_layernorm";
  n.ffn_norm = "post_attention_layernorm";
  n.q = "self_attn.q_proj";
  n.k = "self_attn.k_proj";
  n.v = "self_attn.v_proj";
  n.qkv = "self_attn.qkv_proj";
  n.o = "self_attn.o_proj";
  n.q_norm = "self_attn.q_norm";
  n.k_norm = "self_attn.k_norm";
  n.sinks = "self_attn.sinks";
  n.gate = "mlp.gate_proj";
  n.up = "mlp.up_proj";
  n.down = "mlp.down_proj";
  n.gate_up = "mlp.gate_up_proj";
  n.experts = hf_expert_names();
  n.delta = hf_delta_names();
  n.latent = hf_latent_names();
  n.mtp = hf_mtp_names();
  return n;
}

DecoderNames gguf_decoder_names() {
  DecoderNames n;
  n.embed = "token_embd.weight";
  n.position_embed = "position_embd.weight";
  n.final_norm = "output_norm";
  n.head = "output.weight";
  n.layer = "blk.";
  n.input_norm = "attn_norm";
  n.ffn_norm = "ffn_norm";
  n.q = "attn_q";
  n.k = "attn_k";
  n.v = "attn_v";
  n.qkv = "attn_qkv";
  n.o = "attn_output";
  n.q_norm = "attn_q_norm";
  n.k_norm = "attn_k_norm";
  n.sinks = "attn_sinks.weight";
  n.post_mixer_norm = "post_attention_norm";
  n.post_ffn_norm = "post_ffw_norm";
  n.gate = "ffn_gate";
  n.up = "ffn_up";
  n.down = "ffn_down";
  n.gate_up = "ffn_up";  // phi3: both under this name
  n.experts = gguf_expert_names();
  n.delta = gguf_delta_names();
  n.latent = gguf_latent_names();
  n.mtp = gguf_mtp_names();
  return n;
}

}  // namespace ingot
