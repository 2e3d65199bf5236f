// Configs as their makers published them derive, and mean what is known of the models:
// the number of their weights, to the digits that are published, and what is special in
// each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/derive_testing.h"

namespace ingot {
namespace {

using nlohmann::json;

Recipe published(const std::string& name) {
  static const json all = [] {
    std::ifstream in(std::string(INGOT_SOURCE_DIR) +
                     "/tests/data/published_configs.json");
    return json::parse(in);
  }();
  const json& config = all.at(name);
  return derive_recipe(with_config(
      config, config.contains("text_config") ? "model.language_model.embed_tokens.weight"
                                             : "model.embed_tokens.weight"));
}

double billions(const Recipe& recipe) {
  double n = 0;
  const ReadTensors read(recipe);
  for (const auto& [name, shape] : read.shapes()) n += double(element_count(shape));
  return n / 1e9;
}

TEST(Published, WeightsAddUpToWhatTheMakersSay) {
  const std::vector<std::pair<const char*, double>> known = {
      {"Qwen3-30B-A3B", 30.532},
      {"Mixtral-8x7B-v0.1", 46.703},
      {"gpt-oss-20b", 20.915},
      {"GLM-4.5-Air", 106.852},
      {"MiniMax-M2", 228.690},
      {"DeepSeek-V3", 671.026},
      {"Olmo-3-7B", 7.298},
      {"SmolLM3-3B", 3.075},
      {"Phi-4-mini", 3.836},
      {"Phi-3-mini-4k", 3.821},
      {"Qwen3-Next-80B-A3B", 79.674},
      {"gemma-3-4b-it", 3.8803}};  // 4.3001 without the tower, 0.4198

  for (const auto& [name, wanted] : known)
    EXPECT_NEAR(billions(published(name)), wanted, 0.0006) << name;
}

const AttentionRecipe& attention(const Recipe& recipe, size_t layer) {
  return std::get<AttentionRecipe>(recipe.layers[layer].mixer);
}
const LatentAttentionRecipe& latent(const Recipe& recipe, size_t layer) {
  return std::get<LatentAttentionRecipe>(recipe.layers[layer].mixer);
}
const ExpertsRecipe& experts(const Recipe& recipe, size_t layer) {
  return std::get<ExpertsRecipe>(recipe.layers[layer].ffn);
}

TEST(Published, GptOssTurnsByYarnAndClamps) {
  const Recipe recipe = published("gpt-oss-20b");
  EXPECT_NEAR(recipe.ropes[0].attention_factor, 1.3465736, 1e-6);  // 0.1 ln 32 + 1
  EXPECT_FALSE(recipe.ropes[0].truncate);
  EXPECT_EQ(attention(recipe, 0).window, 128);
  EXPECT_EQ(attention(recipe, 1).window, 0);
  EXPECT_TRUE(attention(recipe, 1).sinks.has_value());
  EXPECT_EQ(experts(recipe, 0).routing.score, RouterScore::softmax_chosen);
  EXPECT_EQ(experts(recipe, 0).activation.limit, 7.0f);
  EXPECT_EQ(experts(recipe, 0).input[3].parts[0].order.stored(2880), 1);  // the first up
}

TEST(Published, DeepSeekScalesScoresByItsYarn) {
  const Recipe recipe = published("DeepSeek-V3");
  EXPECT_EQ(recipe.ropes[0].attention_factor, 1.0f);
  // 192^-1/2 (0.1 ln 40 + 1)^2
  EXPECT_NEAR(latent(recipe, 0).scale, 0.07216878 * 1.8738542, 1e-7);
  EXPECT_EQ(recipe.ropes[0].pairing, RopePairing::interleaved);
  EXPECT_TRUE(std::holds_alternative<MlpRecipe>(recipe.layers[2].ffn));
  const RouterArgs& routing = experts(recipe, 3).routing;
  EXPECT_EQ(routing.n_groups, 8);
  EXPECT_EQ(routing.n_groups_used, 4);
  EXPECT_FLOAT_EQ(routing.scale, 2.5f);
  EXPECT_TRUE(recipe.mtp.empty());  // its tensors are not there
}

TEST(Published, IndexersTurnAsEachFamilyDoes) {
  const Recipe v32 = published("DeepSeek-V3.2");
  EXPECT_EQ(v32.ropes[size_t(latent(v32, 0).indexer->rope)].pairing,
            RopePairing::half_split);
  EXPECT_EQ(latent(v32, 60).indexer->n_heads, 64);
  const Recipe glm = published("GLM-5");
  EXPECT_EQ(glm.ropes[size_t(latent(glm, 0).indexer->rope)].pairing,
            RopePairing::interleaved);
  EXPECT_FLOAT_EQ(latent(glm, 0).kv_a_norm.eps, 1e-6f);  // not rms_norm_eps
  EXPECT_FLOAT_EQ(glm.layers[0].input_norm->eps, 1e-5f);
  EXPECT_NEAR(latent(glm, 0).scale, 0.0625, 1e-7);  // 256^-1/2
}

TEST(Published, RotationsCoverWhatTheyShould) {
  EXPECT_EQ(published("GLM-4.5-Air").ropes[0].rotary_dims, 64);
  EXPECT_EQ(published("MiniMax-M2").ropes[0].rotary_dims, 64);
  EXPECT_EQ(published("Qwen3-Next-80B-A3B").ropes[0].rotary_dims, 64);
  EXPECT_EQ(published("Qwen3.5-27B").ropes[0].rotary_dims, 64);
  const Recipe phi = published("Phi-4-mini");
  EXPECT_EQ(phi.ropes[0].rotary_dims, 96);
  EXPECT_EQ(phi.ropes[0].long_divisors.size(), 48u);
  // sqrt(1 + ln(131072 / 4096) / ln 4096)
  EXPECT_NEAR(phi.ropes[0].attention_factor, 1.1902381, 1e-6);
  EXPECT_EQ(attention(published("Phi-3-mini-4k"), 5).window, 2047);
}

TEST(Published, HybridsAlternate) {
  const Recipe recipe = published("Qwen3.5-27B");
  ASSERT_EQ(recipe.layers.size(), 64u);
  const auto& delta = std::get<GatedDeltaRecipe>(recipe.layers[62].mixer);
  EXPECT_EQ(delta.n_value_heads, 48);
  EXPECT_EQ(delta.decay.map, VectorMap::minus_exp);
  EXPECT_EQ(delta.norm.weight.add, 0.0f);
  EXPECT_EQ(recipe.layers[62].input_norm->weight.add, 1.0f);
  EXPECT_TRUE(attention(recipe, 63).gated);
  // Of head 1 the gates stand behind its 256 queries.
  EXPECT_EQ(attention(recipe, 63).qkv.parts[3].order.stored(256), 512 + 256);
  EXPECT_TRUE(experts(published("Qwen3.5-35B-A3B"), 0).shared_gate.has_value());
  // Published experts come fused; the config alone cannot tell, so that is not seen here.
}

TEST(Published, OlmoScalesOnlyWhereItSeesAll) {
  const Recipe recipe = published("Olmo-3-7B");
  EXPECT_EQ(attention(recipe, 0).window, 4096);
  EXPECT_EQ(recipe.ropes[size_t(attention(recipe, 0).rope)].scaling,
            RopeScalingKind::none);
  const RopeRecipe& full = recipe.ropes[size_t(attention(recipe, 3).rope)];
  EXPECT_EQ(full.scaling, RopeScalingKind::yarn);
  EXPECT_FLOAT_EQ(full.attention_factor, 1.2079441f);
  EXPECT_FALSE(recipe.layers[0].input_norm.has_value());
  EXPECT_EQ(attention(recipe, 0).q_norm->weight.n, 4096);
  EXPECT_EQ(attention(published("SmolLM3-3B"), 3).rope, -1);
  EXPECT_EQ(attention(published("SmolLM3-3B"), 2).rope, 0);
}

}  // namespace
}  // namespace ingot
