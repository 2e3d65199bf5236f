#include "model/recipe_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "model/describe.h"
#include "model/recipe_check.h"
#include "model/recipe_testing.h"

namespace ingot {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr uint64_t kSeeds = 300;

// A recipe with each kind of part, written by hand.
json everything() {
  static const json object =
      json::parse(read_file(INGOT_SOURCE_DIR "/tests/corpus/recipe/everything.json"));
  return object;
}
Recipe recipe_of(const json& object) {
  return parse_recipe(object.dump(), "recipe.json");
}

std::string error_of(const std::string& text) {
  try {
    parse_recipe(text, "recipe.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(RecipeFile, EveryFieldIsRead) {
  const Recipe r = recipe_of(everything());
  EXPECT_EQ(r.embed_scale, 3.5f);
  EXPECT_EQ(r.position_embed->n_rows, 256);
  EXPECT_EQ(r.logit_softcap, 30.0f);
  ASSERT_EQ(r.ropes.size(), 4u);
  EXPECT_EQ(r.ropes[0].high_freq_factor, 4.0);
  EXPECT_EQ(r.ropes[1].pairing, RopePairing::interleaved);
  EXPECT_EQ(r.ropes[1].attention_factor, 1.1386294f);
  EXPECT_FALSE(r.ropes[1].truncate);
  EXPECT_EQ(r.ropes[2].short_divisors, (std::vector<float>{1.0f, 1.5f}));
  EXPECT_EQ(r.ropes[2].long_source->name, "long");
  const auto& attention = std::get<AttentionRecipe>(r.layers[0].mixer);
  EXPECT_TRUE(attention.gated);
  EXPECT_EQ(attention.norm_span, HeadNormSpan::projection);
  EXPECT_EQ(attention.q_norm->weight.add, 1.0f);
  EXPECT_EQ(attention.qkv.parts[2].order.stored(5), 4 + 8 + 1);
  EXPECT_TRUE(attention.output.parts[0].transposed);
  EXPECT_FALSE(std::get<MlpRecipe>(r.layers[0].ffn).gated);
  const auto& latent = std::get<LatentAttentionRecipe>(r.layers[1].mixer);
  EXPECT_EQ(latent.key_up[0].first_col, 0);
  EXPECT_EQ(latent.key_up[1].first_col, 12);
  EXPECT_EQ(latent.indexer->score_scale, 0.2f);
  const auto& experts = std::get<ExpertsRecipe>(r.layers[1].ffn);
  EXPECT_EQ(experts.input[7].parts[1].name, "e.7.up");
  EXPECT_EQ(experts.down[5].parts[0].slice, 5);
  EXPECT_EQ(experts.routing.score, RouterScore::sigmoid);
  EXPECT_EQ(experts.routing.scale, 2.5f);
  EXPECT_EQ(experts.activation.alpha, 1.702f);
  EXPECT_TRUE(std::get<LatentAttentionRecipe>(r.layers[2].mixer).shares_selection);
  const auto& delta = std::get<GatedDeltaRecipe>(r.layers[3].mixer);
  EXPECT_EQ(delta.decay.map, VectorMap::minus_exp);
  EXPECT_TRUE(delta.tiled_value_heads);
  EXPECT_FALSE(r.mtp[0].chains_normed);
  EXPECT_EQ(r.mtp[0].project.parts[0].n_cols, 24);
}

TEST(RecipeFile, RandomRecipesReadBackEqual) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Recipe recipe = random_recipe(seed);
    ASSERT_NO_THROW(check_recipe(recipe, "random: "));
    const Recipe again = parse_recipe(recipe_json(recipe), "recipe.json");
    ASSERT_TRUE(same_recipe(recipe, again)) << recipe_json(recipe);
    EXPECT_EQ(describe(again), describe(recipe));
    EXPECT_THAT(recipe_changes(recipe, again), testing::IsEmpty());
  }
}

TEST(RecipeFile, EqualityOfTheTestsSeesAChange) {
  const Recipe recipe = recipe_of(everything());
  Recipe other = recipe;
  std::get<ExpertsRecipe>(other.layers[1].ffn).down[3].parts[0].order.first = 1;
  EXPECT_FALSE(same_recipe(recipe, other));
}

// ---- Refusals -----------------------------------------------------------------------

struct Wrong {
  const char* path;    // of JSON, to a field
  const char* value;   // "" takes the field away
  const char* wanted;  // what the message says, after "recipe.json: "
};

std::string with(const char* path, const char* value) {
  json object = everything();
  const json::json_pointer at(path);
  if (*value == '\0')
    object[at.parent_pointer()].erase(at.back());
  else
    object[at] = json::parse(value);
  return object.dump();
}

constexpr Wrong kWrong[] = {
    // Presence, names, types, ranges.
    {"/vocab_size", "", "field 'vocab_size' is missing"},
    {"/layers/0/mixer/qkv", "", "field 'layers[0].mixer.qkv' is missing"},
    {"/layers/0/mixer/kind", "",
     "field 'layers[0].mixer.kind' is missing, wanted one of "},
    {"/layers/0/mixer/kind", "\"mamba\"",
     "field 'layers[0].mixer.kind' is \"mamba\", wanted one of attention, "
     "latent_attention, gated_delta"},
    {"/layers/0/ffn/kind", "3", "field 'layers[0].ffn.kind' is 3, wanted one of mlp, "},
    {"/hidden", "12", "field 'hidden' is not known here"},
    {"/layers/1/mixer/window", "4", "field 'layers[1].mixer.window' is not known here"},
    {"/ropes/0/beta_fast", "32", "field 'ropes[0].beta_fast' is not known here"},
    {"/ropes/0/scaling", "\"dynamic\"",
     "field 'ropes[0].scaling' is \"dynamic\", wanted one of none, linear, llama3, "},
    {"/vocab_size", "40.5", "field 'vocab_size' is 40.5, wanted an integer from 1 to "},
    {"/vocab_size", "0", "field 'vocab_size' is 0, wanted an integer from 1 to "},
    {"/vocab_size", "18446744073709551615", "field 'vocab_size' is 18446744073709551615"},
    {"/vocab_size", "\"40\"", "field 'vocab_size' is \"40\", wanted an integer"},
    {"/embed_scale", "1e300", "field 'embed_scale' is 1e+300, wanted a number from "},
    {"/embed_scale", "null", "field 'embed_scale' is null, wanted a number from "},
    {"/final_norm/eps", "-1",
     "field 'final_norm.eps' is -1, wanted a number from 0 to 1"},
    {"/final_norm", "[]", "field 'final_norm' is [], wanted an object"},
    {"/layers", "{}", "field 'layers' is {}, wanted a list"},
    {"/layers", "[]", "field 'layers' is a list of 0, wanted 1 to "},
    {"/family", "[1]", "field 'family' is [1], wanted a string"},
    {"/layers/0/mixer/gated", "1",
     "field 'layers[0].mixer.gated' is 1, wanted true or false"},
    {"/layers/0/mixer/head_dim", "99999", "field 'layers[0].mixer.head_dim' is 99999"},
    {"/layers/3/mixer/conv_kernel", "65", "field 'layers[3].mixer.conv_kernel' is 65"},
    {"/embed/name", "\"\"", "field 'embed.name' is '', wanted the name of a tensor"},
    // Ropes.
    {"/layers/0/mixer/rope", "7", "field 'layers[0].mixer.rope' is 7, wanted -1 to 3"},
    {"/layers/0/mixer/rope", "1",
     "field 'layers[0].mixer.rope' is 1, wanted one that turns at most 4 dimensions, not "
     "6"},
    {"/layers/1/mixer/indexer/rope", "4",
     "field 'layers[1].mixer.indexer.rope' is 4, wanted -1 to 3"},
    {"/mtp/0/layer/mixer/rope", "-2",
     "field 'mtp[0].layer.mixer.rope' is -2, wanted an "},
    {"/ropes/0/rotary_dims", "3", "field 'ropes[0].rotary_dims' is 3, wanted an even"},
    {"/ropes/0/high_freq_factor", "1",
     "field 'ropes[0].high_freq_factor' is 1, wanted more"},
    {"/ropes/1/beta_slow", "33", "field 'ropes[1].beta_slow' is 33, wanted at most"},
    {"/ropes/1/theta", "1", "field 'ropes[1].theta' is 1, wanted at least 1.01"},
    {"/ropes/1/factor", "", "field 'ropes[1].factor' is missing"},
    {"/ropes/2/short_divisors", "[1]",
     "field 'ropes[2].short_divisors' is 1, wanted 2 numbers, one a rotary pair"},
    {"/ropes/2/short_divisors", "[1, 0]",
     "field 'ropes[2].short_divisors[1]' is 0, wanted a number from 1e-06"},
    {"/ropes/2/long_divisors", "[1, 1]",
     "field 'ropes[2].long_source' is there, wanted it absent beside long_divisors"},
    {"/ropes/2/long_source", "", "field 'ropes[2].long_divisors' is 0, wanted 2 numbers"},
    {"/ropes/3/divisors", "", "field 'ropes[3].divisors' is missing"},
    {"/ropes/3/divisors/n", "3", "field 'ropes[3].divisors.n' is 3, wanted 2"},
    // Heads and widths.
    {"/layers/0/mixer/n_kv_heads", "3",
     "field 'layers[0].mixer.n_kv_heads' is 3, wanted a number that divides 4 heads"},
    {"/layers/0/mixer/n_heads", "6",
     "field 'layers[0].mixer.qkv.parts' is 48, wanted 64 rows together"},
    {"/layers/0/mixer/gated", "false",
     "field 'layers[0].mixer.qkv.parts' is 48, wanted 32 rows together"},
    {"/layers/0/mixer/head_dim", "4096",
     "field 'layers[0].mixer.qkv.parts' is 48, wanted 49152 rows together"},
    {"/hidden_size", "13", "field 'embed.n_cols' is 12, wanted 13"},
    {"/vocab_size", "41", "field 'embed.n_rows' is 40, wanted 41"},
    {"/max_positions", "257",
     "field 'position_embed.n_rows' is 256, wanted at least max_positions, 257"},
    {"/layers/0/mixer/qkv/parts", "[]", "field 'layers[0].mixer.qkv.parts' is missing"},
    {"/layers/0/mixer/output/parts/0/n_cols", "17",
     "field 'layers[0].mixer.output.parts[0].n_cols' is 17, wanted 16"},
    {"/layers/0/mixer/output/bias/0/n", "11",
     "field 'layers[0].mixer.output.bias[0].n' is 11, wanted 12"},
    {"/layers/0/mixer/qkv/bias", "[{\"name\": \"b\", \"n\": 48}]",
     "field 'layers[0].mixer.qkv.bias' is 1, wanted 3 entries, one a part, or none"},
    {"/layers/0/mixer/sinks/n", "2", "field 'layers[0].mixer.sinks.n' is 2, wanted 4"},
    {"/layers/0/mixer/norm_span", "\"head\"",
     "field 'layers[0].mixer.q_norm.weight.n' is 16, wanted 4"},
    {"/layers/0/mixer/q_norm/kind", "\"layer\"",
     "field 'layers[0].mixer.q_norm.kind' is layer, wanted rms"},
    {"/layers/0/input_norm/bias", "", "field 'layers[0].input_norm.bias' is missing"},
    {"/layers/0/input_norm/kind", "\"rms\"",
     "field 'layers[0].input_norm.bias' is there, wanted it absent in an rms norm"},
    {"/layers/0/ffn/intermediate_size", "21",
     "field 'layers[0].ffn.input.parts[0].n_rows' is 20, wanted 21"},
    {"/layers/0/ffn/activation/limit", "7",
     "field 'layers[0].ffn.activation.limit' is 7, wanted it absent where"},
    // What is stored.
    {"/layers/0/mixer/qkv/parts/2/stored_rows", "31",
     "field 'layers[0].mixer.qkv.parts[2].order' is of rows up to 31, wanted less than "
     "the 31 that are stored"},
    {"/layers/0/mixer/qkv/parts/0/order/axes/0/count", "5",
     "field 'layers[0].mixer.qkv.parts[0].order.axes' is 20, wanted 16 rows in all"},
    {"/layers/0/mixer/qkv/parts/0/order/axes/0/stride", "-8",
     "field 'layers[0].mixer.qkv.parts[0].order.axes[0].stride' is -8, wanted an "
     "integer"},
    {"/layers/1/mixer/value_up/1/order/first", "18",
     "field 'layers[1].mixer.value_up[1].order' is of rows up to 24, wanted less than"},
    {"/layers/1/mixer/key_up/each/stored_cols", "16",
     "field 'layers[1].mixer.key_up[1].first_col' is 12, wanted 5 columns from there"},
    {"/layers/1/mixer/key_up/each/transposed", "false",
     "field 'layers[1].mixer.key_up[0].stored_cols' is 24, wanted 0 where the matrix is "
     "not transposed"},
    {"/layers/1/ffn/down/each/parts/0/n_slices", "7",
     "field 'layers[1].ffn.down[7].parts[0].slice' is 7, wanted less than n_slices, 7"},
    {"/embed/n_slices", "2",
     "field 'embed.n_slices' is 2, wanted 0, as there is no slice"},
    {"/embed/slice", "2", "field 'embed.slice' is 2, wanted less than n_slices, 0"},
    // Patterns.
    {"/layers/1/mixer/key_up/count", "3",
     "field 'layers[1].mixer.key_up' is 3, wanted 2 entries, one a head"},
    {"/layers/1/mixer/key_up/count", "5000",
     "field 'layers[1].mixer.key_up.count' is 5000, wanted an integer from 1 to 4096"},
    {"/layers/1/mixer/key_up/each", "", "field 'layers[1].mixer.key_up.each' is missing"},
    {"/layers/1/mixer/key_up/other", "1",
     "field 'layers[1].mixer.key_up.other' is not known here"},
    {"/layers/1/mixer/key_up/each/first_col/step", "",
     "field 'layers[1].mixer.key_up.each.first_col.step' is missing"},
    {"/layers/1/mixer/key_up/each/first_col/step", "2147483648",
     "field 'layers[1].mixer.key_up.each.first_col.step' is 2147483648, wanted"},
    {"/layers/1/mixer/key_up/each/first_col/step", "-1",
     "field 'layers[1].mixer.key_up.each.first_col' is -1, wanted an integer from 0"},
    {"/layers/1/mixer/key_up", "7", "field 'layers[1].mixer.key_up' is 7, wanted a list"},
    {"/layers/1/mixer/value_up/0/n_rows", "{\"first\": 7, \"step\": 0}",
     "field 'layers[1].mixer.value_up[0].n_rows' is {\"first\":7,\"step\":0}, wanted an "
     "integer"},
    // Latent attention and its indexer.
    {"/layers/1/mixer/q_a_norm", "", "field 'layers[1].mixer.q_a_norm' is missing"},
    {"/layers/1/mixer/q_a", "",
     "field 'layers[1].mixer.q_a_norm' is there, wanted it absent without q_a"},
    {"/layers/1/mixer/rope_dims", "4",
     "field 'layers[1].mixer.rope' is 1, wanted one that turns at most 4 dimensions"},
    {"/layers/1/mixer/value_dim", "8",
     "field 'layers[1].mixer.value_up[0].n_rows' is 7, wanted 8"},
    {"/layers/1/mixer/shares_selection", "true",
     "field 'layers[1].mixer.indexer' is there, wanted it absent where"},
    {"/layers/1/mixer/indexer", "",
     "field 'layers[2].mixer.shares_selection' is true, wanted false, since no layer"},
    {"/layers/1/mixer/indexer/top_k", "0", "field 'layers[1].mixer.indexer.top_k' is 0"},
    {"/layers/1/mixer/indexer/q/parts/0/n_cols", "12",
     "field 'layers[1].mixer.indexer.q.parts[0].n_cols' is 12, wanted 10"},
    // Experts.
    {"/layers/1/ffn/routing/n_used", "9",
     "field 'layers[1].ffn.routing.n_used' is 9, wanted at most n_experts, 8"},
    {"/layers/1/ffn/routing/n_used", "5",
     "field 'layers[1].ffn.routing.n_used' is 5, wanted at most the 4 experts of 2 "
     "groups"},
    {"/layers/1/ffn/routing/n_groups", "3",
     "field 'layers[1].ffn.routing.n_groups' is 3, wanted a number that divides 8"},
    {"/layers/1/ffn/routing/n_groups_used", "5",
     "field 'layers[1].ffn.routing.n_groups_used' is 5, wanted at most n_groups, 4"},
    {"/layers/1/ffn/input/count", "7",
     "field 'layers[1].ffn.input' is 7, wanted 8 entries, one an expert"},
    {"/layers/1/ffn/shared", "",
     "field 'layers[1].ffn.shared_gate' is there, wanted it absent without shared"},
    {"/layers/1/ffn/selection_bias/n", "7",
     "field 'layers[1].ffn.selection_bias.n' is 7, wanted 8"},
    // The delta rule.
    {"/layers/3/mixer/n_key_heads", "3",
     "field 'layers[3].mixer.n_key_heads' is 3, wanted a number that divides 4"},
    {"/layers/3/mixer/conv/transposed", "true",
     "field 'layers[3].mixer.conv.transposed' is true, wanted false"},
    {"/layers/3/mixer/conv/n_cols", "3",
     "field 'layers[3].mixer.conv.n_cols' is 3, wanted 4"},
    {"/layers/3/mixer/value_dim", "6",
     "field 'layers[3].mixer.input.parts[0].n_rows' is 60, wanted 68"},
    // Heads of the model.
    {"/mtp/0/project/parts/0/n_cols", "12",
     "field 'mtp[0].project.parts[0].n_cols' is 12, wanted 24"},
    {"/mtp/0/head/parts/0/n_rows", "41",
     "field 'mtp[0].head.parts[0].n_rows' is 41, wanted 40"},
    {"/head/parts/0/n_rows", "39", "field 'head.parts[0].n_rows' is 39, wanted 40"},
};

TEST(RecipeFile, WrongFieldsAreRefusedByName) {
  ASSERT_EQ(error_of(everything().dump()), "(accepted)");
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(testing::Message() << wrong.path << " = " << wrong.value);
    EXPECT_THAT(error_of(with(wrong.path, wrong.value)),
                testing::StartsWith(std::string("recipe.json: ") + wrong.wanted));
  }
}

TEST(RecipeFile, BiasesOfSomeExpertsAreRefused) {
  json object = everything();
  json& input = object["layers"][1]["ffn"]["input"];
  json list = json::array();
  for (int i = 0; i < 8; ++i) list.push_back(input["each"]);
  list[3]["bias"] = {{{"name", "a"}, {"n", 9}}, {{"name", "b"}, {"n", 9}}};
  input = list;
  EXPECT_THAT(error_of(object.dump()),
              HasSubstr("field 'layers[1].ffn.input[3].bias' is there, wanted biases for "
                        "all experts or for none"));
}

TEST(RecipeFile, HostileTextIsRefused) {
  EXPECT_THAT(error_of("{\"a\": 1, \"a\": 2}"), HasSubstr("twice"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of("{"), HasSubstr("no strict JSON"));
  EXPECT_THAT(error_of(std::string(100, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of("{\"\\u001b[31m\": 1}"), testing::Not(HasSubstr("\x1b")));
  json object = everything();
  object["layers"][1]["mixer"]["key_up"]["count"] = 4096;
  const std::string text = object.dump();
  try {
    parse_recipe(text, "recipe.json", {.max_entries = 100});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("one matrix or vector too many"));
  }
}

// ---- Parts over a derived recipe -----------------------------------------------------

Recipe over(const Recipe& derived, const char* text) {
  return parse_recipe_over(derived, text, "recipe.json");
}
std::string error_over(const Recipe& derived, const char* text) {
  try {
    over(derived, text);
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(RecipeOver, PartsAreLaidOver) {
  const Recipe derived = recipe_of(everything());
  Recipe wanted = derived;
  wanted.ropes[1].attention_factor = 1.25f;
  wanted.logit_softcap = 0.0f;
  wanted.head.reset();
  std::get<AttentionRecipe>(wanted.layers[0].mixer).window = 8;
  std::get<ExpertsRecipe>(wanted.layers[1].ffn).routing.n_used = 2;
  for (const size_t i : {size_t(1), size_t(3)})
    wanted.layers[i].post_ffn_norm = wanted.final_norm;
  const Recipe found = over(derived, R"({
    "ropes": [{}, {"attention_factor": 1.25}], "logit_softcap": null, "head": null,
    "layers": {
      "0": {"mixer": {"window": 8}},
      "1": {"ffn": {"routing": {"n_used": 2}},
            "post_ffn_norm": {"kind": "rms", "eps": 1e-6,
                              "weight": {"name": "norm", "n": 12}}},
      "3-3": {"post_ffn_norm": {"kind": "rms", "eps": 1e-6,
                                "weight": {"name": "norm", "n": 12}}}}})");
  EXPECT_TRUE(same_recipe(found, wanted));
  EXPECT_TRUE(same_recipe(over(derived, "{}"), derived));
  // Entry by entry, as a list says it.
  const Recipe by_list = over(derived, R"({"layers": [{"mixer": {"window": 8}}]})");
  EXPECT_EQ(std::get<AttentionRecipe>(by_list.layers[0].mixer).window, 8);
  EXPECT_EQ(by_list.layers.size(), derived.layers.size());
  EXPECT_TRUE(over(derived, R"({"mtp": []})").mtp.empty());
}

TEST(RecipeOver, AWholeRecipeStandsForItself) {
  json object = everything();
  object.erase("head");
  object["layers"].erase(3);
  const Recipe derived = recipe_of(everything());
  const Recipe found = parse_recipe_over(derived, object.dump(), "recipe.json");
  EXPECT_TRUE(same_recipe(found, recipe_of(object)));
  EXPECT_FALSE(found.head.has_value());
}

TEST(RecipeOver, AnotherKindOfMixerReplacesTheWhole) {
  const Recipe derived = recipe_of(everything());
  const std::string mixer = everything()["layers"][3]["mixer"].dump();
  const Recipe found =
      over(derived, (R"({"layers": {"0": {"mixer": )" + mixer + "}}}").c_str());
  EXPECT_TRUE(std::holds_alternative<GatedDeltaRecipe>(found.layers[0].mixer));
}

TEST(RecipeOver, WrongPartsAreRefused) {
  const Recipe derived = recipe_of(everything());
  EXPECT_THAT(error_over(derived, R"({"layers": {"0-4": {}}})"),
              HasSubstr("field 'layers' names \"0-4\", wanted layers 0 to 3"));
  EXPECT_THAT(error_over(derived, R"({"layers": {"first": {}}})"),
              HasSubstr("wanted \"all\" or ranges of layers like \"0-3, 5\""));
  EXPECT_THAT(error_over(derived, R"({"layers": {"": {}}})"),
              HasSubstr("wanted \"all\""));
  EXPECT_THAT(error_over(derived, R"({"layers": {"2-1": {}}})"), HasSubstr("0 to 3"));
  EXPECT_THAT(error_over(derived, R"({"layers": {"0": {}, "0-1": {}}})"),
              HasSubstr("wanted layer 0 named once"));
  EXPECT_THAT(error_over(derived, R"({"layers": {"0": 3}})"),
              HasSubstr("field 'layers.0' is 3, wanted an object"));
  EXPECT_THAT(error_over(derived, R"({"layers": {"all": {"mixer": {"window": 8}}}})"),
              HasSubstr("field 'layers[1].mixer.window' is not known here"));
  EXPECT_THAT(error_over(derived, R"({"ropes": [{"rotary_dims": 8}]})"),
              HasSubstr("field 'layers[0].mixer.rope' is 0, wanted one that turns"));
  EXPECT_THAT(error_over(derived, R"({"hidden_size": null})"),
              HasSubstr("field 'hidden_size' is missing"));
}

TEST(RecipeChanges, TellFieldDerivedAndNow) {
  const Recipe derived = recipe_of(everything());
  Recipe now = derived;
  now.ropes[0].theta = 5000;
  now.head.reset();
  now.layers[1].post_ffn_norm = now.layers[2].post_ffn_norm = now.final_norm;
  std::get<AttentionRecipe>(now.layers[0].mixer).window = 0;
  std::vector<std::string> lines;
  for (const RecipeChange& c : recipe_changes(derived, now))
    lines.push_back(c.field + ": " + c.derived + " -> " + c.now.substr(0, 14));
  EXPECT_THAT(
      lines,
      testing::UnorderedElementsAre(
          "ropes[0].theta: 10000.0 -> 5000.0",
          "head: {\"parts\":[{\"n_cols\":12,\"n_rows\":40,\"name\":\"head\"}]} -> ",
          "layers[1-2].post_ffn_norm:  -> {\"eps\":1e-06,\"",
          "layers[0].mixer.window: 16 -> 0"));
}

// ---- Size ---------------------------------------------------------------------------

// 48 layers of 128 experts, named one by one: what patterns are for.
TEST(RecipeFile, ManyExpertsStaySmall) {
  const Recipe small = recipe_of(everything());
  Recipe large = small;
  LayerRecipe layer = small.layers[1];
  auto& experts = std::get<ExpertsRecipe>(layer.ffn);
  experts.routing.n_experts = 128;
  experts.router.parts[0].n_rows = experts.selection_bias->n = 128;
  large.layers.clear();
  for (int i = 0; i < 48; ++i) {
    experts.input.assign(128, experts.input[0]);
    experts.down.assign(128, {{{.name = "", .n_rows = 12, .n_cols = 9}}, {}});
    for (int e = 0; e < 128; ++e) {
      const std::string name = fmt::format("model.layers.{}.mlp.experts.{}.", i, e);
      experts.input[size_t(e)].parts[0].name = name + "gate_proj.weight";
      experts.input[size_t(e)].parts[1].name = name + "up_proj.weight";
      experts.down[size_t(e)].parts[0].name = name + "down_proj.weight";
    }
    large.layers.push_back(layer);
  }
  const std::string text = recipe_json(large);
  EXPECT_LT(text.size(), 300'000u);
  const std::clock_t start = std::clock();
  const Recipe again = parse_recipe(text, "recipe.json");
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(same_recipe(large, again));
  EXPECT_LT(seconds, 1.0) << "wanted 0.1 s; sanitizers take their share";
  RecordProperty("bytes", int(text.size()));
  RecordProperty("microseconds", int(seconds * 1e6));
}

}  // namespace
}  // namespace ingot
