// The recipe as JSON: every field, under the names that recipe.h uses.
#include <nlohmann/json.hpp>

#include "model/describe.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

std::string_view name(NormKind kind) { return kind == NormKind::rms ? "rms" : "layer"; }

std::string_view name(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return "silu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::gelu_erf:
      return "gelu_erf";
  }
  return "?";
}

std::string_view name(RopeScalingKind kind) {
  switch (kind) {
    case RopeScalingKind::none:
      return "none";
    case RopeScalingKind::linear:
      return "linear";
    case RopeScalingKind::llama3:
      return "llama3";
    case RopeScalingKind::divisors:
      return "divisors";
  }
  return "?";
}

ordered_json json_of(const MatrixSource& m) {
  ordered_json out = {{"name", m.name}, {"n_rows", m.n_rows}, {"n_cols", m.n_cols}};
  if (m.transposed) out["transposed"] = true;
  if (m.interleaved_heads != 0) out["interleaved_heads"] = m.interleaved_heads;
  return out;
}

ordered_json json_of(const VectorSource& v) {
  ordered_json out = {{"name", v.name}, {"n", v.n}};
  if (v.add != 0) out["add"] = shortest(v.add);
  if (v.interleaved_heads != 0) out["interleaved_heads"] = v.interleaved_heads;
  return out;
}

ordered_json json_of(const LinearRecipe& linear) {
  ordered_json out = {{"parts", ordered_json::array()}};
  for (const MatrixSource& part : linear.parts) out["parts"].push_back(json_of(part));
  for (const VectorSource& bias : linear.bias) out["bias"].push_back(json_of(bias));
  return out;
}

ordered_json json_of(const NormRecipe& norm) {
  ordered_json out = {{"kind", name(norm.kind)},
                      {"eps", shortest(norm.eps)},
                      {"weight", json_of(norm.weight)}};
  if (norm.bias) out["bias"] = json_of(*norm.bias);
  return out;
}

void put(ordered_json& out, const char* key, const std::optional<NormRecipe>& norm) {
  if (norm) out[key] = json_of(*norm);
}

ordered_json json_of(const RopeRecipe& rope) {
  ordered_json out = {
      {"theta", rope.theta},
      {"rotary_dims", rope.rotary_dims},
      {"pairing", rope.pairing == RopePairing::half_split ? "half_split" : "interleaved"},
      {"scaling", name(rope.scaling)}};
  const bool llama3 = rope.scaling == RopeScalingKind::llama3;
  if (llama3 || rope.scaling == RopeScalingKind::linear) out["factor"] = rope.factor;
  if (llama3) {
    out["low_freq_factor"] = rope.low_freq_factor;
    out["high_freq_factor"] = rope.high_freq_factor;
    out["original_context"] = rope.original_context;
  }
  if (rope.divisors) out["divisors"] = json_of(*rope.divisors);
  return out;
}

ordered_json json_of(const AttentionRecipe& a) {
  ordered_json out = {{"kind", "attention"},        {"n_heads", a.n_heads},
                      {"n_kv_heads", a.n_kv_heads}, {"head_dim", a.head_dim},
                      {"scale", shortest(a.scale)}, {"window", a.window}};
  out["rope"] = a.rope < 0 ? ordered_json() : ordered_json(a.rope);
  put(out, "q_norm", a.q_norm);
  put(out, "k_norm", a.k_norm);
  out["qkv"] = json_of(a.qkv);
  out["output"] = json_of(a.output);
  return out;
}

ordered_json json_of(const MlpRecipe& m) {
  return {{"kind", "mlp"},
          {"intermediate_size", m.intermediate_size},
          {"activation", name(m.activation)},
          {"gated", m.gated},
          {"input", json_of(m.input)},
          {"down", json_of(m.down)}};
}

ordered_json json_of(const LayerRecipe& layer) {
  ordered_json out = ordered_json::object();
  put(out, "input_norm", layer.input_norm);
  out["mixer"] =
      std::visit([](const auto& mixer) { return json_of(mixer); }, layer.mixer);
  put(out, "post_mixer_norm", layer.post_mixer_norm);
  put(out, "ffn_norm", layer.ffn_norm);
  out["ffn"] = std::visit([](const auto& ffn) { return json_of(ffn); }, layer.ffn);
  put(out, "post_ffn_norm", layer.post_ffn_norm);
  return out;
}

}  // namespace

std::string recipe_json(const Recipe& recipe) {
  ordered_json out = {
      {"family", recipe.family},           {"vocab_size", recipe.vocab_size},
      {"hidden_size", recipe.hidden_size}, {"max_positions", recipe.max_positions},
      {"embed", json_of(recipe.embed)},    {"embed_scale", shortest(recipe.embed_scale)}};
  if (recipe.position_embed) out["position_embed"] = json_of(*recipe.position_embed);
  out["ropes"] = ordered_json::array();
  for (const RopeRecipe& rope : recipe.ropes) out["ropes"].push_back(json_of(rope));
  out["layers"] = ordered_json::array();
  for (const LayerRecipe& layer : recipe.layers) out["layers"].push_back(json_of(layer));
  out["final_norm"] = json_of(recipe.final_norm);
  out["head"] = recipe.head ? json_of(*recipe.head) : ordered_json("tied");
  out["logit_softcap"] = shortest(recipe.logit_softcap);
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace ingot
