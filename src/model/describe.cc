// The recipe as a person reads it.
#include "model/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"

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
  }
  return "?";
}

std::string describe_norm(const NormRecipe& norm) {
  std::string out = norm.kind == NormKind::rms ? "RMS" : "layer norm";
  out += fmt::format(", epsilon {:g}", double(norm.eps));
  if (norm.weight.add != 0)
    out += fmt::format(", weights stored minus {:g}", double(norm.weight.add));
  if (norm.bias) out += ", with bias";
  return out;
}

std::string describe_attention(const AttentionRecipe& a, const Recipe& recipe) {
  std::string out = fmt::format("attention: {} heads of {}", a.n_heads, a.head_dim);
  if (a.n_kv_heads != a.n_heads) out += fmt::format(" over {} KV heads", a.n_kv_heads);
  out += a.window > 0 ? fmt::format(", window {}", a.window)
                      : std::string(", all positions");
  if (a.rope >= 0)
    out += fmt::format(", rope theta {:.10g}", recipe.ropes[size_t(a.rope)].theta);
  else
    out += ", no rope";
  const float usual = 1.0f / std::sqrt(float(a.head_dim));
  if (std::abs(a.scale - usual) > 1e-6f * usual)
    out += fmt::format(", scores times {:g}", double(a.scale));
  if (a.q_norm) out += ", queries and keys normed";
  if (!a.qkv.bias.empty()) out += ", q/k/v bias";
  if (!a.output.bias.empty()) out += ", output bias";
  return out;
}

std::string describe_mlp(const MlpRecipe& m) {
  return fmt::format("MLP: {}{} {}{}", m.gated ? "gated " : "", name(m.activation),
                     with_commas(uint64_t(m.intermediate_size)),
                     m.input.bias.empty() ? "" : ", bias");
}

std::string describe_layer(const LayerRecipe& layer, const Recipe& recipe) {
  std::string out = describe_attention(std::get<AttentionRecipe>(layer.mixer), recipe);
  out += "; " + describe_mlp(std::get<MlpRecipe>(layer.ffn));
  if (layer.post_mixer_norm || layer.post_ffn_norm)
    out += "; norms before and after both";
  return out;
}

// Equal layers once, in order of their first: "layers 0-4, 6-10".
void add_layers(std::vector<Fact>& facts, const Recipe& recipe) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (size_t i = 0; i < recipe.layers.size(); ++i) {
    const std::string text = describe_layer(recipe.layers[i], recipe);
    const auto it = std::find_if(groups.begin(), groups.end(),
                                 [&](const auto& group) { return group.first == text; });
    auto& group =
        it == groups.end() ? groups.emplace_back(text, std::vector<int>()) : *it;
    group.second.push_back(int(i));
  }
  for (const auto& [text, indices] : groups)
    facts.push_back(
        {indices.size() == 1 ? "layer" : "layers", index_ranges(indices) + ": " + text});
}

std::string describe_scaling(const RopeRecipe& rope) {
  switch (rope.scaling) {
    case RopeScalingKind::none:
      return "no scaling";
    case RopeScalingKind::linear:
      return fmt::format("linear scaling by {:g}", rope.factor);
    case RopeScalingKind::llama3:
      return fmt::format(
          "llama3 scaling by {:g} (low {:g}, high {:g}, original context {})",
          rope.factor, rope.low_freq_factor, rope.high_freq_factor,
          with_commas(uint64_t(rope.original_context)));
    case RopeScalingKind::divisors:
      return fmt::format("each frequency divided by tensor '{}'",
                         printable_text(rope.divisors->name));
  }
  return "?";
}

void add_ropes(std::vector<Fact>& facts, const Recipe& recipe) {
  for (const RopeRecipe& rope : recipe.ropes) {
    facts.push_back({"rope", fmt::format("theta {:.10g} over {} dimensions, {}, {}",
                                         rope.theta, rope.rotary_dims,
                                         rope.pairing == RopePairing::half_split
                                             ? "halves paired"
                                             : "neighbours paired",
                                         describe_scaling(rope))});
  }
  if (recipe.ropes.empty()) facts.push_back({"rope", "none"});
}

std::string describe_embedding(const Recipe& recipe) {
  std::string out = fmt::format("'{}'", printable_text(recipe.embed.name));
  if (recipe.embed_scale != 1.0f)
    out += fmt::format(", times {:g}", double(recipe.embed_scale));
  if (recipe.position_embed)
    out += fmt::format(", plus learned positions '{}'",
                       printable_text(recipe.position_embed->name));
  return out;
}

uint64_t count(const MatrixSource& m) { return uint64_t(m.n_rows) * uint64_t(m.n_cols); }

struct LinearCount {
  uint64_t matrix = 0;
  uint64_t all = 0;
};
void add(LinearCount& out, const LinearRecipe& linear) {
  for (const MatrixSource& part : linear.parts) {
    out.matrix += count(part);
    out.all += count(part);
  }
  for (const VectorSource& bias : linear.bias) out.all += uint64_t(bias.n);
}

uint64_t count(const std::optional<NormRecipe>& norm) {
  if (!norm) return 0;
  return uint64_t(norm->weight.n) + (norm->bias ? uint64_t(norm->bias->n) : 0);
}

}  // namespace

ParameterCount count_parameters(const Recipe& recipe) {
  ParameterCount out;
  out.embedding = count(recipe.embed);
  if (recipe.position_embed) out.embedding += count(*recipe.position_embed);
  LinearCount linear;
  uint64_t norms = count(recipe.final_norm);
  for (const LayerRecipe& layer : recipe.layers) {
    const auto& attention = std::get<AttentionRecipe>(layer.mixer);
    const auto& mlp = std::get<MlpRecipe>(layer.ffn);
    for (const LinearRecipe* part :
         {&attention.qkv, &attention.output, &mlp.input, &mlp.down})
      add(linear, *part);
    for (const auto* norm : {&layer.input_norm, &layer.post_mixer_norm, &layer.ffn_norm,
                             &layer.post_ffn_norm, &attention.q_norm, &attention.k_norm})
      norms += count(*norm);
  }
  LinearCount head;
  if (recipe.head) add(head, *recipe.head);
  out.head = head.all;
  out.total = out.embedding + linear.all + norms + out.head;
  out.layer_matrices = linear.matrix;
  return out;
}

std::string index_ranges(std::span<const int> indices) {
  std::string out;
  for (size_t i = 0; i < indices.size();) {
    size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    if (!out.empty()) out += ", ";
    out += std::to_string(indices[i]);
    if (end > i + 1) out += "-" + std::to_string(indices[end - 1]);
    i = end;
  }
  return out;
}

std::string with_commas(uint64_t n) {
  std::string out = std::to_string(n);
  for (int i = int(out.size()) - 3; i > 0; i -= 3) out.insert(size_t(i), ",");
  return out;
}

double shortest(float value) {
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

std::vector<Fact> recipe_facts(const Recipe& recipe) {
  const ParameterCount n = count_parameters(recipe);
  std::vector<Fact> facts;
  facts.push_back({"family", printable_text(recipe.family)});
  facts.push_back(
      {"parameters", fmt::format("{} ({} of them in embeddings)", with_commas(n.total),
                                 with_commas(n.embedding))});
  facts.push_back({"hidden size", with_commas(uint64_t(recipe.hidden_size))});
  facts.push_back({"vocabulary", with_commas(uint64_t(recipe.vocab_size)) + " rows"});
  facts.push_back(
      {"context", with_commas(uint64_t(recipe.max_positions)) + " positions"});
  facts.push_back({"embedding", describe_embedding(recipe)});
  add_layers(facts, recipe);
  add_ropes(facts, recipe);
  facts.push_back({"norms", describe_norm(recipe.final_norm)});
  std::string head = "tied to the embedding";
  if (recipe.head)
    head = fmt::format("'{}'", printable_text(recipe.head->parts.at(0).name));
  if (recipe.logit_softcap > 0)
    head += fmt::format(", logits capped softly at {:g}", double(recipe.logit_softcap));
  facts.push_back({"head", head});
  return facts;
}

std::string to_lines(const std::vector<Fact>& facts) {
  size_t width = 0;
  for (const Fact& fact : facts) width = std::max(width, fact.label.size());
  std::string out;
  for (const Fact& fact : facts)
    out += fmt::format("{:<{}}  {}\n", fact.label, width, fact.text);
  return out;
}

std::string describe(const Recipe& recipe) { return to_lines(recipe_facts(recipe)); }

}  // namespace ingot
