// gpt2: learned positions, LayerNorm with biases, fused c_attn (architectures.md 3).
#include "base/error.h"
#include "model/derive/families.h"

namespace ingot {
namespace {

void set_common(Decoder& d) {
  d.n_kv_heads = d.n_heads;
  d.norm_kind = NormKind::layer;
  d.gated = false;
  d.qkv_bias = d.output_bias = d.mlp_bias = true;
  d.fused_qkv = true;
  d.learned_positions = true;
  d.layers.assign(size_t(d.n_layers), LayerPlan{.rope = -1});
}

}  // namespace

Recipe derive_gpt2_config(const Checkpoint& checkpoint, const Fields& config,
                          const std::string& /*model_type*/) {
  Decoder d;
  d.family = "gpt2";
  d.vocab_size = config.integer("vocab_size", 1, 1 << 22);
  d.max_positions = config.integer("n_positions", 1, 1 << 27);
  d.hidden_size = config.integer("n_embd", 1, 1 << 17);
  d.n_layers = config.integer("n_layer", 1, 512);
  d.n_heads = config.integer("n_head", 1, 4096);
  d.intermediate_size = config.integer_or("n_inner", 1, 1 << 20, 4 * d.hidden_size);
  d.norm_eps = config.real_or("layer_norm_epsilon", 1e-12, 0.1, 1e-5);
  if (d.hidden_size % d.n_heads != 0)
    config.refuse("n_head", fmt::format("a divisor of n_embd {}", d.hidden_size));
  d.head_dim = d.hidden_size / d.n_heads;
  d.activation = activation_from(config, "activation_function", "gelu_new");
  d.tied = config.boolean_or("tie_word_embeddings", true);
  d.transposed = true;
  if (!config.boolean_or("scale_attn_weights", true)) d.attention_scale = 1.0f;
  config.only("scale_attn_by_inverse_layer_idx", false);
  config.only("add_cross_attention", false);
  config.ignore({"architectures", "model_type", "torch_dtype", "dtype", "use_cache",
                 "n_ctx", "initializer_range", "bos_token_id", "eos_token_id",
                 "pad_token_id", "transformers_version", "attn_pdrop", "embd_pdrop",
                 "resid_pdrop", "reorder_and_upcast_attn", "_name_or_path",
                 "task_specific_params", "_num_labels", "finetuning_task"});
  for (const char* name : {"summary_activation", "summary_first_dropout",
                           "summary_proj_to_labels", "summary_type", "summary_use_proj"})
    config.ignore({name});
  set_common(d);
  config.refuse_unread();
  const std::string prefix = hf_prefix(checkpoint, "wte.weight");
  DecoderNames n;
  n.embed = prefix + "wte.weight";
  n.position_embed = prefix + "wpe.weight";
  n.final_norm = prefix + "ln_f";
  n.head = "lm_head.weight";
  n.layer = prefix + "h.";
  n.input_norm = "ln_1";
  n.ffn_norm = "ln_2";
  n.qkv = "attn.c_attn";
  n.o = "attn.c_proj";
  n.up = "mlp.c_fc";
  n.down = "mlp.c_proj";
  return build_decoder(checkpoint, d, n);
}

Recipe derive_gpt2_gguf(const Checkpoint& checkpoint, const Fields& fields,
                        const std::string& architecture) {
  Decoder d = decoder_from_gguf(checkpoint, fields, architecture);
  refuse_experts(fields);
  d.norm_eps = fields.real("attention.layer_norm_epsilon", 1e-12, 0.1);
  d.activation.kind = Activation::gelu_tanh;
  if (d.n_kv_heads != d.n_heads)
    fields.refuse("attention.head_count_kv",
                  fmt::format("{}, as many as heads", d.n_heads));
  set_common(d);
  fields.refuse_unread();
  return build_decoder(checkpoint, d, gguf_decoder_names());
}

}  // namespace ingot
