#include "model/describe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/cost.h"

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
