// The recipe as a person reads it.
#include "model/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"
#include "model/cost.h"
#include "model/describe_layer.h"

namespace ingot {
namespace {

std::string describe_norm(const NormRecipe& norm) {
  std::string out = norm.kind == NormKind::rms ? "RMS" : "layer norm";
  out += fmt::format(", epsilon {:g}", double(norm.eps));
  if (norm.weight.add != 0)
    out += fmt::format(", weights stored minus {:g}", double(norm.weight.add));
  if (norm.bias) out += ", with bias";
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
    case RopeScalingKind::yarn:
      return fmt::format(
          "yarn scaling by {:g} (fast {:g}, slow {:g}{}, original context {})",
          rope.factor, rope.beta_fast, rope.beta_slow,
          rope.truncate ? "" : ", bounds between pairs",
          with_commas(uint64_t(rope.original_context)));
    case RopeScalingKind::longrope: {
      const std::string source =
          rope.long_source ? "tensor '" + printable_text(rope.long_source->name) + "'"
                           : "its list of long divisors";
      return fmt::format("longrope: above a context of {} divided by {}",
                         with_commas(uint64_t(rope.original_context)), source);
    }
  }
  return "?";
}

void add_ropes(std::vector<Fact>& facts, const Recipe& recipe) {
  for (size_t i = 0; i < recipe.ropes.size(); ++i) {
    const RopeRecipe& rope = recipe.ropes[i];
    const std::string label =
        recipe.ropes.size() == 1 ? "rope" : fmt::format("rope {}", i);
    facts.push_back(
        {label, fmt::format("theta {:.10g} over {} dimensions, {}, {}", rope.theta,
                            rope.rotary_dims,
                            rope.pairing == RopePairing::half_split ? "halves paired"
                                                                    : "neighbours paired",
                            describe_scaling(rope))});
    if (rope.attention_factor != 1.0f)
      facts.back().text +=
          fmt::format(", cosine and sine times {:g}", double(rope.attention_factor));
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

std::string describe_head(const Recipe& recipe) {
  std::string out = "tied to the embedding";
  if (recipe.head)
    out = fmt::format("'{}'", printable_text(recipe.head->parts.at(0).name));
  if (recipe.logit_softcap > 0)
    out += fmt::format(", logits capped softly at {:g}", double(recipe.logit_softcap));
  return out;
}

void add_mtp(std::vector<Fact>& facts, const Recipe& recipe) {
  for (const MtpRecipe& mtp : recipe.mtp) {
    facts.push_back(
        {"MTP head",
         fmt::format("predicts the token after the next, {} embedding, {} head, drafts "
                     "on from the {} state: {}",
                     mtp.embed ? "its own" : "the model's",
                     mtp.head ? "its own" : "the model's",
                     mtp.chains_normed ? "normed" : "unnormed",
                     describe_layer(mtp.layer, recipe))});
  }
}

}  // namespace

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
      {"parameters",
       fmt::format("{} ({} of them in embeddings; a token meets {} in the layers)",
                   with_commas(n.total), with_commas(n.embedding),
                   with_commas(n.layer_matrices))});
  facts.push_back({"hidden size", with_commas(uint64_t(recipe.hidden_size))});
  facts.push_back({"vocabulary", with_commas(uint64_t(recipe.vocab_size)) + " rows"});
  facts.push_back(
      {"context", with_commas(uint64_t(recipe.max_positions)) + " positions"});
  facts.push_back({"embedding", describe_embedding(recipe)});
  add_layers(facts, recipe);
  add_ropes(facts, recipe);
  facts.push_back({"norms", describe_norm(recipe.final_norm)});
  facts.push_back({"head", describe_head(recipe)});
  add_mtp(facts, recipe);
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
