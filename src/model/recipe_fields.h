// The fields of a recipe's structs under the names they have in JSON, once: recipe_json()
// writes by these lists, and recipe_file.h reads by them.
//
// fields(io, r) calls, for each field,
//   io.field(name, value, range...)           always written, wanted when reading
//   io.field_or(name, value, usual, range...) left out where it is as usual
//   io.part(name, optional struct)            left out where there is none
//   io.list(name, vector of structs)          left out where it is empty
//   io.repeated(name, vector of structs)      much alike: told once where that is
//   possible io.numbers(name, vector<float>, range)    left out where it is empty
//   io.kinds(name, variant)                   an object whose "kind" says which it is
#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>

#include "model/recipe.h"

namespace ingot {

// Recipes are written const and read into.
template <typename T, typename Wanted>
concept Is = std::same_as<std::remove_const_t<T>, Wanted>;

struct Range {
  double low = 0;
  double high = 0;
};
constexpr Range kRows{1, 1 << 26};  // rows and columns of matrices
constexpr Range kRowsOrNone{0, 1 << 26};
constexpr Range kHeads{1, 4096};  // heads, experts, and dimensions of a head
constexpr Range kWidth{1, 1 << 20};
constexpr Range kPositions{1, 1 << 27};
constexpr Range kIndexOrNone{-1, 4095};
constexpr Range kMultiplier{-1e6, 1e6};

// ---- Names of kinds -----------------------------------------------------------------

template <typename Enum>
using EnumName = std::pair<Enum, std::string_view>;

constexpr std::array<EnumName<NormKind>, 2> enum_names(NormKind) {
  return {{{NormKind::rms, "rms"}, {NormKind::layer, "layer"}}};
}
constexpr std::array<EnumName<VectorMap>, 2> enum_names(VectorMap) {
  return {{{VectorMap::none, "none"}, {VectorMap::minus_exp, "minus_exp"}}};
}
constexpr std::array<EnumName<HeadNormSpan>, 2> enum_names(HeadNormSpan) {
  return {{{HeadNormSpan::head, "head"}, {HeadNormSpan::projection, "projection"}}};
}
constexpr std::array<EnumName<RopePairing>, 2> enum_names(RopePairing) {
  return {{{RopePairing::half_split, "half_split"},
           {RopePairing::interleaved, "interleaved"}}};
}
constexpr std::array<EnumName<RopeScalingKind>, 6> enum_names(RopeScalingKind) {
  return {{{RopeScalingKind::none, "none"},
           {RopeScalingKind::linear, "linear"},
           {RopeScalingKind::llama3, "llama3"},
           {RopeScalingKind::divisors, "divisors"},
           {RopeScalingKind::yarn, "yarn"},
           {RopeScalingKind::longrope, "longrope"}}};
}
constexpr std::array<EnumName<Activation>, 4> enum_names(Activation) {
  return {{{Activation::silu, "silu"},
           {Activation::gelu_tanh, "gelu_tanh"},
           {Activation::gelu_erf, "gelu_erf"},
           {Activation::sigmoid, "sigmoid"}}};
}
constexpr std::array<EnumName<RouterScore>, 3> enum_names(RouterScore) {
  return {{{RouterScore::softmax, "softmax"},
           {RouterScore::softmax_chosen, "softmax_chosen"},
           {RouterScore::sigmoid, "sigmoid"}}};
}

constexpr std::string_view kind_name(const AttentionRecipe*) { return "attention"; }
constexpr std::string_view kind_name(const LatentAttentionRecipe*) {
  return "latent_attention";
}
constexpr std::string_view kind_name(const GatedDeltaRecipe*) { return "gated_delta"; }
constexpr std::string_view kind_name(const MlpRecipe*) { return "mlp"; }
constexpr std::string_view kind_name(const ExpertsRecipe*) { return "experts"; }

// ---- Sources ------------------------------------------------------------------------

template <typename Io>
void fields(Io& io, Is<RowAxis> auto& axis) {
  io.field("count", axis.count, kRows);
  io.field("stride", axis.stride, kRowsOrNone);
}

template <typename Io>
void fields(Io& io, Is<RowOrder> auto& order) {
  io.field_or("first", order.first, 0, kRowsOrNone);
  io.list("axes", order.axes);
}

template <typename Io>
void fields(Io& io, Is<MatrixSource> auto& m) {
  io.field("name", m.name);
  io.field("n_rows", m.n_rows, kRows);
  io.field("n_cols", m.n_cols, kRows);
  io.field_or("transposed", m.transposed, false);
  io.order("order", m.order);
  io.field_or("stored_rows", m.stored_rows, 0, kRowsOrNone);
  io.field_or("first_col", m.first_col, 0, kRowsOrNone);
  io.field_or("stored_cols", m.stored_cols, 0, kRowsOrNone);
  io.field_or("slice", m.slice, -1, kIndexOrNone);
  io.field_or("n_slices", m.n_slices, 0, kRowsOrNone);
}

template <typename Io>
void fields(Io& io, Is<VectorSource> auto& v) {
  io.field("name", v.name);
  io.field("n", v.n, kRows);
  io.field_or("add", v.add, 0.0f, kMultiplier);
  io.order("order", v.order);
  io.field_or("map", v.map, VectorMap::none);
  io.field_or("stored_n", v.stored_n, 0, kRowsOrNone);
  io.field_or("slice", v.slice, -1, kIndexOrNone);
  io.field_or("n_slices", v.n_slices, 0, kRowsOrNone);
}

template <typename Io>
void fields(Io& io, Is<LinearRecipe> auto& linear) {
  io.list("parts", linear.parts);
  io.list("bias", linear.bias);
}

template <typename Io>
void fields(Io& io, Is<NormRecipe> auto& norm) {
  io.field("kind", norm.kind);
  io.field("eps", norm.eps, Range{0, 1});
  io.field("weight", norm.weight);
  io.part("bias", norm.bias);
}

// A field that this scaling does not use is not known.
template <typename Io>
void fields(Io& io, Is<RopeRecipe> auto& rope) {
  io.field("theta", rope.theta, Range{1e-3, 1e12});
  io.field("rotary_dims", rope.rotary_dims, Range{2, 4096});
  io.field("pairing", rope.pairing);
  io.field("scaling", rope.scaling);
  io.field_or("attention_factor", rope.attention_factor, 1.0f, Range{1e-3, 1e3});
  const RopeScalingKind scaling = rope.scaling;
  const bool yarn = scaling == RopeScalingKind::yarn;
  const bool llama3 = scaling == RopeScalingKind::llama3;
  const bool longrope = scaling == RopeScalingKind::longrope;
  if (yarn || llama3 || longrope || scaling == RopeScalingKind::linear)
    io.field("factor", rope.factor, Range{1e-6, 1e6});
  if (yarn || llama3 || longrope)
    io.field("original_context", rope.original_context, kPositions);
  if (llama3) {
    io.field("low_freq_factor", rope.low_freq_factor, Range{1e-3, 1e6});
    io.field("high_freq_factor", rope.high_freq_factor, Range{1e-3, 1e6});
  }
  if (yarn) {
    io.field("beta_fast", rope.beta_fast, Range{1e-3, 1e6});
    io.field("beta_slow", rope.beta_slow, Range{1e-3, 1e6});
    io.field("truncate", rope.truncate);
  }
  if (longrope) {
    io.numbers("short_divisors", rope.short_divisors, Range{1e-6, 1e9});
    io.numbers("long_divisors", rope.long_divisors, Range{1e-6, 1e9});
    io.part("short_source", rope.short_source);
    io.part("long_source", rope.long_source);
  }
  if (scaling == RopeScalingKind::divisors) io.part("divisors", rope.divisors);
}

// ---- Mixers -------------------------------------------------------------------------

template <typename Io>
void fields(Io& io, Is<AttentionRecipe> auto& a) {
  io.field("n_heads", a.n_heads, kHeads);
  io.field("n_kv_heads", a.n_kv_heads, kHeads);
  io.field("head_dim", a.head_dim, kHeads);
  io.field("scale", a.scale, kMultiplier);
  io.field("window", a.window, Range{0, 1 << 27});
  io.field("rope", a.rope, kIndexOrNone);
  io.field_or("gated", a.gated, false);
  io.field_or("norm_span", a.norm_span, HeadNormSpan::head);
  io.part("q_norm", a.q_norm);
  io.part("k_norm", a.k_norm);
  io.part("sinks", a.sinks);
  io.field("qkv", a.qkv);
  io.field("output", a.output);
}

template <typename Io>
void fields(Io& io, Is<IndexerRecipe> auto& i) {
  io.field("n_heads", i.n_heads, kHeads);
  io.field("head_dim", i.head_dim, kHeads);
  io.field("top_k", i.top_k, kPositions);
  io.field("score_scale", i.score_scale, kMultiplier);
  io.field("rope", i.rope, kIndexOrNone);
  io.field("q", i.q);
  io.field("k", i.k);
  io.field("k_norm", i.k_norm);
  io.field("weights", i.weights);
}

template <typename Io>
void fields(Io& io, Is<LatentAttentionRecipe> auto& a) {
  io.field("n_heads", a.n_heads, kHeads);
  io.field("kv_lora_rank", a.kv_lora_rank, kWidth);
  io.field("nope_dims", a.nope_dims, kHeads);
  io.field("rope_dims", a.rope_dims, kHeads);
  io.field("value_dim", a.value_dim, kHeads);
  io.field("scale", a.scale, kMultiplier);
  io.field("rope", a.rope, kIndexOrNone);
  io.part("q_a", a.q_a);
  io.part("q_a_norm", a.q_a_norm);
  io.field("q_b", a.q_b);
  io.field("kv_a", a.kv_a);
  io.field("kv_a_norm", a.kv_a_norm);
  io.repeated("key_up", a.key_up);
  io.repeated("value_up", a.value_up);
  io.field("output", a.output);
  io.part("indexer", a.indexer);
  io.field_or("shares_selection", a.shares_selection, false);
}

template <typename Io>
void fields(Io& io, Is<GatedDeltaRecipe> auto& d) {
  io.field("n_key_heads", d.n_key_heads, kHeads);
  io.field("n_value_heads", d.n_value_heads, kHeads);
  io.field("key_dim", d.key_dim, kHeads);
  io.field("value_dim", d.value_dim, kHeads);
  io.field("conv_kernel", d.conv_kernel, Range{1, 64});
  io.field_or("tiled_value_heads", d.tiled_value_heads, false);
  io.field("input", d.input);
  io.field("conv", d.conv);
  io.field("decay", d.decay);
  io.field("dt_bias", d.dt_bias);
  io.field("norm", d.norm);
  io.field("output", d.output);
}

// ---- MLPs and layers ----------------------------------------------------------------

template <typename Io>
void fields(Io& io, Is<GatedActivation> auto& a) {
  io.field("kind", a.kind);
  io.field_or("limit", a.limit, 0.0f, Range{0, 1e6});
  io.field_or("alpha", a.alpha, 1.0f, kMultiplier);
}

template <typename Io>
void fields(Io& io, Is<MlpRecipe> auto& m) {
  io.field("intermediate_size", m.intermediate_size, kWidth);
  io.field("activation", m.activation);
  io.field("gated", m.gated);
  io.field("input", m.input);
  io.field("down", m.down);
}

template <typename Io>
void fields(Io& io, Is<RouterArgs> auto& r) {
  io.field("score", r.score);
  io.field("n_experts", r.n_experts, kHeads);
  io.field("n_used", r.n_used, kHeads);
  io.field_or("n_groups", r.n_groups, 1, kHeads);
  io.field_or("n_groups_used", r.n_groups_used, 1, kHeads);
  io.field_or("normalise", r.normalise, false);
  io.field_or("normalise_eps", r.normalise_eps, 0.0f, Range{0, 1});
  io.field_or("scale", r.scale, 1.0f, kMultiplier);
}

template <typename Io>
void fields(Io& io, Is<ExpertsRecipe> auto& e) {
  io.field("intermediate_size", e.intermediate_size, kWidth);
  io.field("activation", e.activation);
  io.field("routing", e.routing);
  io.field("router", e.router);
  io.part("selection_bias", e.selection_bias);
  io.repeated("input", e.input);
  io.repeated("down", e.down);
  io.part("shared", e.shared);
  io.part("shared_gate", e.shared_gate);
}

template <typename Io>
void fields(Io& io, Is<LayerRecipe> auto& layer) {
  io.part("input_norm", layer.input_norm);
  io.kinds("mixer", layer.mixer);
  io.part("post_mixer_norm", layer.post_mixer_norm);
  io.part("ffn_norm", layer.ffn_norm);
  io.kinds("ffn", layer.ffn);
  io.part("post_ffn_norm", layer.post_ffn_norm);
}

template <typename Io>
void fields(Io& io, Is<MtpRecipe> auto& mtp) {
  io.field("embed_norm", mtp.embed_norm);
  io.field("hidden_norm", mtp.hidden_norm);
  io.field("project", mtp.project);
  io.field("layer", mtp.layer);
  io.field("final_norm", mtp.final_norm);
  io.part("embed", mtp.embed);
  io.part("head", mtp.head);
  io.field("chains_normed", mtp.chains_normed);
}

template <typename Io>
void fields(Io& io, Is<Recipe> auto& recipe) {
  io.field("family", recipe.family);
  io.field("vocab_size", recipe.vocab_size, Range{1, 1 << 22});
  io.field("hidden_size", recipe.hidden_size, kWidth);
  io.field("max_positions", recipe.max_positions, kPositions);
  io.field("embed", recipe.embed);
  io.field_or("embed_scale", recipe.embed_scale, 1.0f, kMultiplier);
  io.part("position_embed", recipe.position_embed);
  io.list("ropes", recipe.ropes);
  io.list("layers", recipe.layers);
  io.field("final_norm", recipe.final_norm);
  io.part("head", recipe.head);
  io.field_or("logit_softcap", recipe.logit_softcap, 0.0f, Range{0, 1e6});
  io.list("mtp", recipe.mtp);
}

}  // namespace ingot
