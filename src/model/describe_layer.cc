#include "model/describe_layer.h"

#include <fmt/format.h>

#include <cmath>

#include "model/describe.h"

namespace ingot {
namespace {

std::string_view name(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return "silu";
    case Activation::gelu_tanh:
      return "gelu (tanh)";
    case Activation::gelu_erf:
      return "gelu (erf)";
    case Activation::sigmoid:
      return "sigmoid";
  }
  return "?";
}

std::string commas(int n) { return with_commas(uint64_t(n)); }

std::string describe_rope(int rope, const Recipe& recipe) {
  if (rope < 0) return ", no rope";
  const RopeRecipe& r = recipe.ropes[size_t(rope)];
  // With one theta in two rotations, say which is meant.
  for (const RopeRecipe& other : recipe.ropes)
    if (&other != &r && other.theta == r.theta)
      return fmt::format(", rope {} of theta {:.10g}", rope, r.theta);
  return fmt::format(", rope theta {:.10g}", r.theta);
}

std::string describe_scale(float scale, int head_dim) {
  const float usual = 1.0f / std::sqrt(float(head_dim));
  if (std::abs(scale - usual) <= 1e-6f * usual) return {};
  return fmt::format(", scores times {:g}", double(scale));
}

struct DescribeMixer {
  const Recipe& recipe;

  std::string operator()(const AttentionRecipe& a) const {
    std::string out = fmt::format("attention: {} heads of {}", a.n_heads, a.head_dim);
    if (a.n_kv_heads != a.n_heads) out += fmt::format(" over {} KV heads", a.n_kv_heads);
    out += a.window > 0 ? fmt::format(", window {}", a.window)
                        : std::string(", all positions");
    out += describe_rope(a.rope, recipe);
    if (a.rope >= 0) {
      const int turned = recipe.ropes[size_t(a.rope)].rotary_dims;
      if (turned != a.head_dim) out += fmt::format(" on {} of {}", turned, a.head_dim);
    }
    out += describe_scale(a.scale, a.head_dim);
    if (a.q_norm || a.k_norm) {
      out += a.q_norm && a.k_norm ? ", queries and keys normed"
             : a.q_norm           ? ", queries normed"
                                  : ", keys normed";
      if (a.norm_span == HeadNormSpan::projection) out += " whole";
    }
    if (a.gated) out += ", gated";
    if (a.sinks) out += ", sinks";
    if (!a.qkv.bias.empty()) out += ", q/k/v bias";
    if (!a.output.bias.empty()) out += ", output bias";
    return out;
  }

  std::string operator()(const LatentAttentionRecipe& a) const {
    std::string out = fmt::format(
        "latent attention: {} heads of {} + {} turned, values of {}, latent {}",
        a.n_heads, a.nope_dims, a.rope_dims, a.value_dim, a.kv_lora_rank);
    if (a.q_a_norm) out += fmt::format(", query latent {}", commas(a.q_a_norm->weight.n));
    out += describe_rope(a.rope, recipe);
    out += describe_scale(a.scale, a.nope_dims + a.rope_dims);
    if (a.q_a && !a.q_a->bias.empty()) out += ", latent bias";
    if (!a.output.bias.empty()) out += ", output bias";
    if (a.indexer) {
      const IndexerRecipe& i = *a.indexer;
      out += fmt::format(", sparse index: {} heads of {} choose {} keys", i.n_heads,
                         i.head_dim, commas(i.top_k));
      if (i.rope != a.rope) out += describe_rope(i.rope, recipe);
    } else if (a.shares_selection) {
      out += ", sees the keys that the last sparse index chose";
    }
    return out;
  }

  std::string operator()(const GatedDeltaRecipe& d) const {
    std::string out = fmt::format(
        "gated delta rule: {} key heads of {}, {} value heads of {}, convolution over {}",
        d.n_key_heads, d.key_dim, d.n_value_heads, d.value_dim, d.conv_kernel);
    if (d.tiled_value_heads && d.n_value_heads != d.n_key_heads)
      out += ", value heads in turn over key heads";
    return out;
  }
};

std::string describe_activation(const GatedActivation& a, int size) {
  if (a.limit <= 0) return fmt::format("{} {}", name(a.kind), commas(size));
  return fmt::format("{} by (up + 1) * gate * sigmoid({:g} gate) capped at {:g}",
                     commas(size), double(a.alpha), double(a.limit));
}

std::string describe_routing(const RouterArgs& r) {
  std::string out;
  switch (r.score) {
    case RouterScore::softmax:
      out = "softmax routing";
      break;
    case RouterScore::softmax_chosen:
      out = "routing by softmax of the chosen";
      break;
    case RouterScore::sigmoid:
      out = "sigmoid routing";
      break;
  }
  if (r.n_groups > 1)
    out += fmt::format(" within {} of {} groups", r.n_groups_used, r.n_groups);
  if (r.normalise) out += ", normalised";
  if (r.scale != 1.0f) out += fmt::format(", times {:g}", double(r.scale));
  return out;
}

struct DescribeFfn {
  std::string operator()(const MlpRecipe& m) const {
    return fmt::format("MLP: {}{}{}", m.gated ? "gated " : "",
                       describe_activation(m.activation, m.intermediate_size),
                       m.input.bias.empty() ? "" : ", bias");
  }

  std::string operator()(const ExpertsRecipe& e) const {
    std::string out = fmt::format("experts: {} of {} used, gated {}, {}",
                                  e.routing.n_used, e.routing.n_experts,
                                  describe_activation(e.activation, e.intermediate_size),
                                  describe_routing(e.routing));
    if (e.selection_bias) out += ", chosen with a bias";
    if (!e.input.empty() && !e.input.front().bias.empty()) out += ", bias";
    if (e.shared) {
      out += fmt::format(", one shared of {}", commas(e.shared->intermediate_size));
      if (e.shared_gate) out += " behind its own gate";
    }
    return out;
  }
};

std::string describe_norms(const LayerRecipe& layer) {
  const bool before = layer.input_norm || layer.ffn_norm;
  const bool after = layer.post_mixer_norm || layer.post_ffn_norm;
  if (before && after) return "; norms before and after both";
  if (after) return "; norms after both, none before";
  return before ? "" : "; no norms";
}

}  // namespace

std::string describe_layer(const LayerRecipe& layer, const Recipe& recipe) {
  return std::visit(DescribeMixer{recipe}, layer.mixer) + "; " +
         std::visit(DescribeFfn{}, layer.ffn) + describe_norms(layer);
}

}  // namespace ingot
