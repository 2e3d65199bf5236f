#include "model/describe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model/cost.h"
#include "model/recipe_file.h"

namespace ingot {
namespace {

TEST(Describe, RangesOfIndices) {
  EXPECT_EQ(index_ranges({}), "");
  EXPECT_EQ(index_ranges(std::vector{7}), "7");
  EXPECT_EQ(index_ranges(std::vector{0, 1}), "0-1");
  EXPECT_EQ(index_ranges(std::vector{0, 1, 2, 4, 5, 9}), "0-2, 4-5, 9");
  EXPECT_EQ(index_ranges(std::vector{1, 3, 5}), "1, 3, 5");
}

TEST(Describe, NumbersWithCommas) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(18446744073709551615u), "18,446,744,073,709,551,615");
}

TEST(Describe, ShortestDecimalOfAFloat) {
  EXPECT_EQ(shortest(1e-6f), 1e-6);
  EXPECT_EQ(shortest(0.6f), 0.6);
  EXPECT_EQ(float(shortest(0.088388346f)), 0.088388346f);
}

Recipe two_kinds_of_layers() {
  Recipe recipe;
  recipe.family = "made\nup";
  recipe.vocab_size = 10;
  recipe.hidden_size = 8;
  recipe.max_positions = 2048;
  recipe.embed = {.name = "embed", .n_rows = 10, .n_cols = 8};
  recipe.ropes.emplace_back().rotary_dims = 4;
  recipe.final_norm = {NormKind::rms, 1e-5f, {.name = "norm", .n = 8}, {}};
  for (int i = 0; i < 5; ++i) {
    LayerRecipe layer;
    layer.input_norm = recipe.final_norm;
    AttentionRecipe attention;
    attention.n_heads = 2;
    attention.n_kv_heads = 1;
    attention.head_dim = 4;
    attention.scale = 0.5f;
    attention.window = i == 2 ? 0 : 3;
    attention.rope = 0;
    attention.qkv.parts = {{.name = "qkv", .n_rows = 16, .n_cols = 8}};
    attention.qkv.bias = {{.name = "bias", .n = 16}};
    attention.output.parts = {{.name = "o", .n_rows = 8, .n_cols = 8}};
    layer.mixer = attention;
    MlpRecipe mlp;
    mlp.intermediate_size = 12;
    mlp.input.parts = {{.name = "gate", .n_rows = 12, .n_cols = 8},
                       {.name = "up", .n_rows = 12, .n_cols = 8}};
    mlp.down.parts = {{.name = "down", .n_rows = 8, .n_cols = 12}};
    layer.ffn = mlp;
    recipe.layers.push_back(layer);
  }
  return recipe;
}

TEST(Describe, EqualLayersAreToldOnce) {
  const std::string text = describe(two_kinds_of_layers());
  EXPECT_NE(
      text.find(
          "layers       0-1, 3-4: attention: 2 heads of 4 over 1 KV heads, window 3"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find("layer        2: attention: 2 heads of 4 over 1 KV heads, all positions"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("made\nup"), std::string::npos);
}

TEST(Describe, EveryKindOfPartIsTold) {
  const std::string file = INGOT_SOURCE_DIR "/tests/corpus/recipe/everything.json";
  const std::string text = describe(parse_recipe(read_file(file), file));
  constexpr const char* kLines[] = {
      "layer        0: attention: 4 heads of 4 over 2 KV heads, window 16, rope 0 of "
      "theta "
      "10000, queries and keys normed whole, gated, sinks, output bias; MLP: gelu (tanh) "
      "20; norms before and after both\n",
      "layer        1: latent attention: 2 heads of 5 + 6 turned, values of 7, latent 8, "
      "query latent 10, rope theta 500000, scores times 0.25, sparse index: 3 heads of 6 "
      "choose 8 keys; experts: 3 of 8 used, gated 9 by (up + 1) * gate * sigmoid(1.702 "
      "gate) capped at 7, sigmoid routing within 2 of 4 groups, normalised, times 2.5, "
      "chosen with a bias, one shared of 11 behind its own gate\n",
      "layer        2: latent attention: 1 heads of 5 + 6 turned, values of 7, latent 8, "
      "no "
      "rope, scores times 0.25, sees the keys that the last sparse index chose; MLP: "
      "gated "
      "silu 20; no norms\n",
      "layer        3: gated delta rule: 2 key heads of 3, 4 value heads of 5, "
      "convolution "
      "over 4, value heads in turn over key heads; MLP: gated silu 20; no norms\n",
      "rope 1       theta 500000 over 6 dimensions, neighbours paired, yarn scaling by 4 "
      "(fast 32, slow 1, bounds between pairs, original context 64), cosine and sine "
      "times "
      "1.13863\n",
      "rope 2       theta 10000 over 4 dimensions, halves paired, longrope: above a "
      "context "
      "of 128 divided by tensor 'long'\n",
      "MTP head     predicts the token after the next, its own embedding, its own head, "
      "drafts on from the unnormed state: attention: 1 heads of 4, all positions, rope 2 "
      "of theta 10000; MLP: gated silu 20; no norms\n",
  };
  for (const char* line : kLines)
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
}

TEST(Describe, ParametersAreCounted) {
  const ParameterCount n = count_parameters(two_kinds_of_layers());
  EXPECT_EQ(n.embedding, 80u);
  EXPECT_EQ(n.head, 0u);
  EXPECT_EQ(n.layer_matrices, 5u * (16 * 8 + 8 * 8 + 3 * 12 * 8));
  EXPECT_EQ(n.total, 80 + n.layer_matrices + 5 * (16 + 8) + 8);
}

TEST(Describe, JsonHoldsEveryLayer) {
  const auto json = nlohmann::json::parse(recipe_json(two_kinds_of_layers()));
  EXPECT_EQ(json["layers"].size(), 5u);
  EXPECT_EQ(json["layers"][2]["mixer"]["window"], 0);
  EXPECT_EQ(json["layers"][3]["mixer"]["window"], 3);
  EXPECT_EQ(json["final_norm"]["eps"], 1e-5);
  EXPECT_FALSE(json.contains("head")) << "tied";
  EXPECT_EQ(json["family"], "made\nup");
}

}  // namespace
}  // namespace ingot
