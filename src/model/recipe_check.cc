#include "model/recipe_check.h"

#include <array>
#include <optional>

#include "model/recipe_check_parts.h"

namespace ingot {
namespace {

constexpr int kMaxLayers = 1024;
constexpr int kMaxHeads = 16;  // that predict further tokens

struct CheckLayer {
  const Checker& check;
  bool& selection_made;  // by an indexer of a layer before

  void operator()(const std::string& path, const LayerRecipe& layer) const {
    const int hidden = check.recipe.hidden_size;
    check.norm(path + ".input_norm", layer.input_norm, hidden);
    check.norm(path + ".post_mixer_norm", layer.post_mixer_norm, hidden);
    check.norm(path + ".ffn_norm", layer.ffn_norm, hidden);
    check.norm(path + ".post_ffn_norm", layer.post_ffn_norm, hidden);
    const std::string mixer = path + ".mixer";
    std::visit([&](const auto& m) { check_mixer(check, mixer, m); }, layer.mixer);
    std::visit([&](const auto& f) { check_ffn(check, path + ".ffn", f); }, layer.ffn);
    if (const auto* latent = std::get_if<LatentAttentionRecipe>(&layer.mixer)) {
      if (latent->indexer) selection_made = true;
      if (latent->shares_selection && !selection_made)
        check.refuse(mixer + ".shares_selection", "true",
                     "false, since no layer before has an indexer");
    }
  }
};

void check_rope(const Checker& check, const std::string& path, const RopeRecipe& rope) {
  if (rope.rotary_dims % 2 != 0)
    check.refuse(path + ".rotary_dims", rope.rotary_dims, "an even number");
  const int pairs = rope.rotary_dims / 2;
  if (rope.scaling == RopeScalingKind::llama3 &&
      rope.high_freq_factor <= rope.low_freq_factor)
    check.refuse(path + ".high_freq_factor", fmt::format("{:g}", rope.high_freq_factor),
                 "more than low_freq_factor");
  if (rope.scaling == RopeScalingKind::yarn) {
    if (rope.theta < 1.01)
      check.refuse(path + ".theta", fmt::format("{:g}", rope.theta),
                   "at least 1.01 for yarn");
    if (rope.beta_slow > rope.beta_fast)
      check.refuse(path + ".beta_slow", fmt::format("{:g}", rope.beta_slow),
                   "at most beta_fast");
  }
  if (rope.scaling == RopeScalingKind::divisors) {
    if (!rope.divisors) check.missing(path + ".divisors");
    check.vector(path + ".divisors", *rope.divisors, pairs);
  }
  if (rope.scaling != RopeScalingKind::longrope) return;
  const auto one_of = [&](const std::string& name, const std::vector<float>& numbers,
                          const std::optional<VectorSource>& source) {
    if (source && !numbers.empty())
      check.refuse(path + "." + name + "_source", "there",
                   "it absent beside " + name + "_divisors");
    if (source)
      check.vector(path + "." + name + "_source", *source, pairs);
    else
      check.equal(path + "." + name + "_divisors", int64_t(numbers.size()), pairs,
                  "numbers, one a rotary pair");
  };
  one_of("short", rope.short_divisors, rope.short_source);
  one_of("long", rope.long_divisors, rope.long_source);
}

void check_mtp(const Checker& check, const std::string& path, const MtpRecipe& mtp) {
  const int hidden = check.recipe.hidden_size;
  const int vocab = check.recipe.vocab_size;
  check.norm(path + ".embed_norm", mtp.embed_norm, hidden);
  check.norm(path + ".hidden_norm", mtp.hidden_norm, hidden);
  check.linear(path + ".project", mtp.project, hidden, 2 * hidden);
  bool selection_made = false;  // those of the model are of other rows
  CheckLayer{check, selection_made}(path + ".layer", mtp.layer);
  check.norm(path + ".final_norm", mtp.final_norm, hidden);
  if (mtp.embed) check.matrix(path + ".embed", *mtp.embed, vocab, hidden);
  if (mtp.head) check.linear(path + ".head", *mtp.head, vocab, hidden);
}

void check_embedding(const Checker& check) {
  const Recipe& r = check.recipe;
  check.matrix("embed", r.embed, r.vocab_size, r.hidden_size);
  if (!r.position_embed) return;
  const MatrixSource& positions = *r.position_embed;
  if (positions.n_rows < r.max_positions)
    check.refuse("position_embed.n_rows", positions.n_rows,
                 fmt::format("at least max_positions, {}", r.max_positions));
  check.matrix("position_embed", positions, positions.n_rows, r.hidden_size);
}

}  // namespace

void check_recipe(const Recipe& recipe, const std::string& where) {
  const Checker check{recipe, where};
  check_embedding(check);
  for (size_t i = 0; i < recipe.ropes.size(); ++i)
    check_rope(check, fmt::format("ropes[{}]", i), recipe.ropes[i]);
  if (recipe.layers.empty() || recipe.layers.size() > kMaxLayers)
    check.refuse("layers", fmt::format("a list of {}", recipe.layers.size()),
                 fmt::format("1 to {} layers", kMaxLayers));
  bool selection_made = false;
  const CheckLayer check_layer{check, selection_made};
  for (size_t i = 0; i < recipe.layers.size(); ++i)
    check_layer(fmt::format("layers[{}]", i), recipe.layers[i]);
  check.norm("final_norm", recipe.final_norm, recipe.hidden_size);
  if (recipe.head)
    check.linear("head", *recipe.head, recipe.vocab_size, recipe.hidden_size);
  if (recipe.mtp.size() > kMaxHeads)
    check.refuse("mtp", fmt::format("a list of {}", recipe.mtp.size()),
                 fmt::format("at most {}", kMaxHeads));
  for (size_t i = 0; i < recipe.mtp.size(); ++i)
    check_mtp(check, fmt::format("mtp[{}]", i), recipe.mtp[i]);
}

}  // namespace ingot
