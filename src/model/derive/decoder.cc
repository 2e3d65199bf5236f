#include "model/derive/decoder.h"

#include <cmath>

#include "base/error.h"
#include "model/derive/parts.h"

namespace ingot {
namespace {

void add_qkv(LinearRecipe& qkv, const Build& b, const std::string& layer) {
  const Decoder& d = b.d;
  const int hd = d.head_dim;
  const int q_rows = d.n_heads * hd;
  const int kv_rows = d.n_kv_heads * hd;
  RowOrder q, k;
  if (d.interleaved_qk) {
    q = RowOrder::alternating_halves(d.n_heads, hd);
    k = RowOrder::alternating_halves(d.n_kv_heads, hd);
  }
  if (d.fused_qkv) {
    const std::string name = layer + b.names.qkv;
    const int all = q_rows + 2 * kv_rows;
    if (!d.interleaved_qk) return add_part(qkv, d, name, all, d.hidden_size, d.qkv_bias);
    k.first = q_rows;
    add_part(qkv, d, name, q_rows, d.hidden_size, d.qkv_bias, q, all);
    add_part(qkv, d, name, kv_rows, d.hidden_size, d.qkv_bias, k, all);
    add_part(qkv, d, name, kv_rows, d.hidden_size, d.qkv_bias, {q_rows + kv_rows, {}},
             all);
    return;
  }
  const int stored_q = d.gated_attention ? 2 * q_rows : 0;
  if (d.gated_attention) q = {0, {{d.n_heads, 2 * hd}, {hd, 1}}};
  add_part(qkv, d, layer + b.names.q, q_rows, d.hidden_size, d.qkv_bias, q, stored_q);
  add_part(qkv, d, layer + b.names.k, kv_rows, d.hidden_size, d.qkv_bias, k);
  add_part(qkv, d, layer + b.names.v, kv_rows, d.hidden_size, d.qkv_bias);
  if (d.gated_attention) {  // of each head of the query matrix the second half
    q.first = hd;
    add_part(qkv, d, layer + b.names.q, q_rows, d.hidden_size, d.qkv_bias, q, stored_q);
  }
}

AttentionRecipe build_attention(const Build& b, const std::string& layer,
                                const LayerPlan& plan) {
  const Decoder& d = b.d;
  AttentionRecipe out;
  out.n_heads = d.n_heads;
  out.n_kv_heads = d.n_kv_heads;
  out.head_dim = d.head_dim;
  out.scale = d.attention_scale > 0 ? d.attention_scale
                                    : float(1.0 / std::sqrt(double(d.head_dim)));
  out.window = plan.window;
  out.rope = plan.rope;
  out.gated = d.gated_attention;
  add_qkv(out.qkv, b, layer);
  const int q_rows = d.n_heads * d.head_dim;
  add_part(out.output, d, layer + b.names.o, d.hidden_size, q_rows, d.output_bias);
  out.norm_span = d.norm_span;
  if (d.qk_norm) {
    const bool whole = d.norm_span == HeadNormSpan::projection;
    out.q_norm = norm_recipe(d, layer + b.names.q_norm, whole ? q_rows : d.head_dim);
    out.k_norm = norm_recipe(d, layer + b.names.k_norm,
                             whole ? d.n_kv_heads * d.head_dim : d.head_dim);
  }
  if (d.sinks) out.sinks = VectorSource{.name = layer + b.names.sinks, .n = d.n_heads};
  return out;
}

}  // namespace

NormRecipe norm_recipe(const Decoder& d, const std::string& name, int width) {
  NormRecipe out = plain_norm(name, width, d.norm_eps);
  out.kind = d.norm_kind;
  out.weight.add = d.norm_add;
  if (d.norm_kind == NormKind::layer)
    out.bias = VectorSource{.name = name + ".bias", .n = width};
  return out;
}

NormRecipe plain_norm(const std::string& name, int width, double eps) {
  return {NormKind::rms, float(eps), {.name = name + ".weight", .n = width}, {}};
}

void add_part(LinearRecipe& linear, const Decoder& d, const std::string& name, int n_rows,
              int n_cols, bool bias, const RowOrder& order, int stored_rows) {
  linear.parts.push_back({.name = name + ".weight",
                          .n_rows = n_rows,
                          .n_cols = n_cols,
                          .transposed = d.transposed,
                          .order = order,
                          .stored_rows = stored_rows});
  if (bias)
    linear.bias.push_back(
        {.name = name + ".bias", .n = n_rows, .order = order, .stored_n = stored_rows});
}

LinearRecipe plain_linear(const std::string& name, int n_rows, int n_cols, bool bias) {
  LinearRecipe out;
  add_part(out, Decoder(), name, n_rows, n_cols, bias);
  return out;
}

std::string stored_name(const Checkpoint& checkpoint, const std::string& name) {
  if (checkpoint.find(name + ".weight")) return name + ".weight";
  return checkpoint.find(name) ? name : std::string();
}

MlpRecipe build_mlp(const Build& b, const std::string& layer) {
  const Decoder& d = b.d;
  MlpRecipe out;
  out.intermediate_size = d.intermediate_size;
  out.activation = d.activation;
  out.gated = d.gated;
  if (d.fused_gate_up) {
    add_part(out.input, d, layer + b.names.gate_up, 2 * d.intermediate_size,
             d.hidden_size, d.mlp_bias);
  } else {
    if (d.gated)
      add_part(out.input, d, layer + b.names.gate, d.intermediate_size, d.hidden_size,
               d.mlp_bias);
    add_part(out.input, d, layer + b.names.up, d.intermediate_size, d.hidden_size,
             d.mlp_bias);
  }
  add_part(out.down, d, layer + b.names.down, d.hidden_size, d.intermediate_size,
           d.mlp_bias);
  return out;
}

LayerRecipe build_layer(const Build& b, const std::string& layer, const LayerPlan& plan) {
  const Decoder& d = b.d;
  LayerRecipe out;
  if (d.pre_norms) {
    out.input_norm = norm_recipe(d, layer + b.names.input_norm, d.hidden_size);
    out.ffn_norm = norm_recipe(d, layer + b.names.ffn_norm, d.hidden_size);
  }
  if (d.post_norms) {
    out.post_mixer_norm = norm_recipe(d, layer + b.names.post_mixer_norm, d.hidden_size);
    out.post_ffn_norm = norm_recipe(d, layer + b.names.post_ffn_norm, d.hidden_size);
  }
  if (plan.delta)
    out.mixer = build_gated_delta(b, layer);
  else if (d.latent)
    out.mixer = build_latent(b, layer, plan);
  else
    out.mixer = build_attention(b, layer, plan);
  if (plan.experts)
    out.ffn = build_experts(b, layer);
  else
    out.ffn = build_mlp(b, layer);
  return out;
}

Recipe build_decoder(const Checkpoint& checkpoint, const Decoder& d,
                     const DecoderNames& names) {
  Recipe recipe;
  recipe.family = d.family;
  recipe.vocab_size = d.vocab_size;
  recipe.hidden_size = d.hidden_size;
  recipe.max_positions = d.max_positions;
  recipe.embed = {.name = names.embed, .n_rows = d.vocab_size, .n_cols = d.hidden_size};
  recipe.embed_scale = d.embed_scale;
  recipe.ropes = d.ropes;
  if (d.learned_positions)
    recipe.position_embed = MatrixSource{
        .name = names.position_embed, .n_rows = d.max_positions, .n_cols = d.hidden_size};
  const Build b{checkpoint, d, names};
  for (int i = 0; i < d.n_layers; ++i)
    recipe.layers.push_back(
        build_layer(b, names.layer + std::to_string(i) + ".", d.layers[size_t(i)]));
  recipe.final_norm = norm_recipe(d, names.final_norm, d.hidden_size);
  if (!d.tied)
    recipe.head = LinearRecipe{
        {{.name = names.head, .n_rows = d.vocab_size, .n_cols = d.hidden_size}}, {}};
  recipe.logit_softcap = d.logit_softcap;
  recipe.mtp = build_mtp(b);
  return recipe;
}

void check_heads(const Decoder& d, const Fields& fields, std::string_view kv_field,
                 std::string_view head_dim_field) {
  if (d.n_heads % d.n_kv_heads != 0)
    fields.refuse(kv_field,
                  fmt::format("a divisor of the {} attention heads", d.n_heads));
  if (d.head_dim % 2 != 0 && !d.ropes.empty())
    fields.refuse(head_dim_field, "an even head size (rotary pairs)");
}

}  // namespace ingot
