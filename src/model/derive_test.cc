// What a config means, and that a config which would run wrong does not run: each altered
// field is refused by its own name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/derive_testing.h"
#include "model/generation_config.h"

namespace ingot {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json llama_config() {
  return {{"model_type", "llama"},
          {"vocab_size", 512},
          {"hidden_size", 64},
          {"intermediate_size", 160},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 512},
          {"tie_word_embeddings", true},
          {"hidden_act", "silu"}};
}

json qwen3_config() {
  json config = llama_config();
  config["model_type"] = "qwen3";
  config["head_dim"] = 32;
  return config;
}

json gemma3_config() {
  json config = llama_config();
  config.erase("hidden_act");
  config["model_type"] = "gemma3_text";
  config["head_dim"] = 16;
  config["query_pre_attn_scalar"] = 64;
  config["sliding_window"] = 16;
  return config;
}

json gpt2_config() {
  return {{"model_type", "gpt2"}, {"vocab_size", 512}, {"n_positions", 256},
          {"n_embd", 64},         {"n_layer", 2},      {"n_head", 4}};
}

const AttentionRecipe& attention(const Recipe& recipe, size_t layer) {
  return std::get<AttentionRecipe>(recipe.layers[layer].mixer);
}

TEST(Derive, LlamaTakesHeadSizeFromWidthOnlyWhenNotStated) {
  EXPECT_EQ(attention(derive_recipe(with_config(llama_config())), 0).head_dim, 16);
  json stated = llama_config();
  stated["head_dim"] = 32;
  const Recipe recipe = derive_recipe(with_config(stated));
  EXPECT_EQ(attention(recipe, 0).head_dim, 32);
  EXPECT_FLOAT_EQ(attention(recipe, 0).scale, 0.17677669f);  // 32^-1/2
  EXPECT_EQ(attention(recipe, 0).qkv.parts[0].n_rows, 128);
  EXPECT_EQ(attention(recipe, 0).qkv.parts[1].n_rows, 64);
  EXPECT_EQ(recipe.ropes[0].rotary_dims, 32);
}

TEST(Derive, WindowsFollowEachFamily) {
  json mistral = llama_config();
  mistral["model_type"] = "mistral";
  mistral["sliding_window"] = 16;
  EXPECT_EQ(attention(derive_recipe(with_config(mistral)), 3).window, 16);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(attention(derive_recipe(with_config(mistral)), 3).window, 0);

  json qwen = qwen3_config();
  qwen["sliding_window"] = 16;
  qwen["max_window_layers"] = 2;
  EXPECT_EQ(attention(derive_recipe(with_config(qwen)), 3).window, 0);  // not in use
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(attention(derive_recipe(with_config(qwen)), 1).window, 0);
  EXPECT_EQ(attention(derive_recipe(with_config(qwen)), 2).window, 16);
  qwen["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                         "sliding_attention"};
  EXPECT_EQ(attention(derive_recipe(with_config(qwen)), 0).window, 16);
  EXPECT_EQ(attention(derive_recipe(with_config(qwen)), 2).window, 0);

  const Recipe gemma = derive_recipe(with_config(gemma3_config()));
  EXPECT_EQ(attention(gemma, 0).window, 16);
  EXPECT_EQ(gemma.ropes[size_t(attention(gemma, 0).rope)].theta, 1e4);
}

TEST(Derive, GemmaHasItsOwnScalesAndNorms) {
  json config = gemma3_config();
  config["num_hidden_layers"] = 6;
  const Recipe recipe = derive_recipe(with_config(config));
  EXPECT_EQ(recipe.embed_scale, 8.0f);
  EXPECT_EQ(attention(recipe, 0).scale, 0.125f);  // 64^-1/2, not head_dim^-1/2
  EXPECT_EQ(attention(recipe, 5).window, 0);      // every sixth layer is global
  EXPECT_EQ(recipe.ropes[size_t(attention(recipe, 5).rope)].theta, 1e6);
  EXPECT_EQ(recipe.layers[0].input_norm->weight.add, 1.0f);
  EXPECT_EQ(recipe.layers[0].ffn_norm->weight.name,
            "model.layers.0.pre_feedforward_layernorm.weight");
  EXPECT_EQ(recipe.layers[0].post_mixer_norm->weight.name,
            "model.layers.0.post_attention_layernorm.weight");
}

TEST(Derive, GemmaScaleIsFloat32WhateverTheStoredType) {
  json config = gemma3_config();
  config["hidden_size"] = 1152;
  config["head_dim"] = 256;
  EXPECT_FLOAT_EQ(derive_recipe(with_config(config)).embed_scale, 33.941126f);
}

TEST(Derive, TextConfigWinsOverTheWrapper) {
  json wrapper = {
      {"model_type", "gemma3"}, {"text_config", gemma3_config()}, {"hidden_size", 7}};
  EXPECT_EQ(derive_recipe(with_config(wrapper)).hidden_size, 64);
}

TEST(Derive, LinearAndLlama3RopeScaling) {
  json config = llama_config();
  config["rope_theta"] = 10000.0;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  const Recipe linear = derive_recipe(with_config(config));
  const std::vector<float> inv = rope_inverse_frequencies(linear.ropes[0], {});
  EXPECT_FLOAT_EQ(inv[0], 0.25f);
  EXPECT_FLOAT_EQ(inv[4], 0.0025f);  // 10000^(-8/16) / 4

  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  const std::vector<float> scaled =
      rope_inverse_frequencies(derive_recipe(with_config(config)).ropes[0], {});
  EXPECT_FLOAT_EQ(scaled[0], 1.0f);          // wavelength 6.3 < 16: untouched
  EXPECT_FLOAT_EQ(scaled[4], 0.01f / 8.0f);  // wavelength 628 > 64: divided
  // Wavelength 2 pi / 0.1 = 62.83 lies between: s = (64 / 62.83 - 1) / 3 = 0.0061970.
  EXPECT_NEAR(scaled[2], (1 - 0.0061970) * 0.1 / 8 + 0.0061970 * 0.1, 1e-6);
}

struct Altered {
  const char* what;
  json config;
  const char* field;  // must stand in the message
};

json with(json config, const char* field, json value) {
  config[field] = std::move(value);
  return config;
}

json without(json config, const char* field) {
  config.erase(field);
  return config;
}

TEST(Derive, EachAlteredConfigIsRefusedByItsField) {
  const json llama = llama_config();
  const json rope = {{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 64}};
  const std::vector<Altered> table = {
      {"no model_type", without(llama, "model_type"), "model_type"},
      {"unknown model_type", with(llama, "model_type", "llama9"), "llama9"},
      {"model_type not a string", with(llama, "model_type", 3), "model_type"},
      {"no vocab_size", without(llama, "vocab_size"), "vocab_size"},
      {"zero vocab_size", with(llama, "vocab_size", 0), "vocab_size"},
      {"no hidden_size", without(llama, "hidden_size"), "hidden_size"},
      {"negative hidden_size", with(llama, "hidden_size", -64), "hidden_size"},
      {"hidden_size as text", with(llama, "hidden_size", "64"), "hidden_size"},
      {"hidden_size not whole", with(llama, "hidden_size", 64.5), "hidden_size"},
      {"huge hidden_size", with(llama, "hidden_size", uint64_t(1) << 63), "hidden_size"},
      {"no layers", with(llama, "num_hidden_layers", 0), "num_hidden_layers"},
      {"too many layers", with(llama, "num_hidden_layers", 100000), "num_hidden_layers"},
      {"heads do not divide the width", with(llama, "num_attention_heads", 5),
       "num_attention_heads"},
      {"KV heads do not divide heads", with(llama, "num_key_value_heads", 3),
       "num_key_value_heads"},
      {"more KV heads than heads", with(llama, "num_key_value_heads", 8),
       "num_key_value_heads"},
      {"odd head_dim", with(llama, "head_dim", 15), "head_dim"},
      {"head_dim zero", with(llama, "head_dim", 0), "head_dim"},
      {"unknown activation", with(llama, "hidden_act", "relu6"), "hidden_act"},
      {"epsilon negative", with(llama, "rms_norm_eps", -1e-6), "rms_norm_eps"},
      {"epsilon large", with(llama, "rms_norm_eps", 1.0), "rms_norm_eps"},
      {"theta zero", with(llama, "rope_theta", 0), "rope_theta"},
      {"unknown rope type", with(llama, "rope_scaling", {{"rope_type", "spiral"}}),
       "rope_type"},
      {"dynamic rope",
       with(llama, "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}), "type"},
      {"linear without factor", with(llama, "rope_scaling", {{"type", "linear"}}),
       "factor"},
      {"linear by zero", with(llama, "rope_scaling", {{"type", "linear"}, {"factor", 0}}),
       "factor"},
      {"llama3 without low_freq_factor",
       with(llama, "rope_scaling", without(rope, "low_freq_factor")), "low_freq_factor"},
      {"llama3 without original length",
       with(llama, "rope_scaling", without(rope, "original_max_position_embeddings")),
       "original_max_position_embeddings"},
      {"llama3 with factors the wrong way",
       with(llama, "rope_scaling", with(rope, "high_freq_factor", 0.5)),
       "high_freq_factor"},
      {"rope_scaling not an object", with(llama, "rope_scaling", 8), "rope_scaling"},
      {"unknown field in rope_scaling",
       with(llama, "rope_scaling", with(rope, "attention_factor", 1.3)),
       "attention_factor"},
      {"partial rotary to an odd number",
       with(llama, "rope_parameters", {{"partial_rotary_factor", 0.2}}),
       "partial_rotary_factor"},
      {"window on a family without one", with(llama, "sliding_window", 4),
       "sliding_window"},
      {"layer_types of the wrong length",
       with(qwen3_config(), "layer_types", {"full_attention"}), "layer_types"},
      {"layer_types of an unknown kind",
       with(qwen3_config(), "layer_types",
            {"full_attention", "full_attention", "linear_attention", "full_attention"}),
       "layer_types"},
      {"sliding layer without a window",
       with(qwen3_config(), "layer_types",
            {"sliding_attention", "full_attention", "full_attention", "full_attention"}),
       "sliding_window"},
      {"attention soft cap", with(gemma3_config(), "attn_logit_softcapping", 50.0),
       "attn_logit_softcapping"},
      {"bidirectional attention",
       with(gemma3_config(), "use_bidirectional_attention", true),
       "use_bidirectional_attention"},
      {"gemma with another activation",
       with(gemma3_config(), "hidden_activation", "silu"), "hidden_activation"},
      {"inverse layer scaling",
       with(gpt2_config(), "scale_attn_by_inverse_layer_idx", true),
       "scale_attn_by_inverse_layer_idx"},
      {"cross attention", with(gpt2_config(), "add_cross_attention", true),
       "add_cross_attention"},
      {"gpt2 heads", with(gpt2_config(), "n_head", 7), "n_head"},
      {"quantisation method not known",
       with(llama, "quantization_config", {{"quant_method", "mystery"}}), "mystery"},
      {"an unknown multiplier", with(llama, "embedding_multiplier", 12.0),
       "embedding_multiplier"},
      {"an unknown attention field", with(llama, "attention_sink_size", 4),
       "attention_sink_size"},
      {"experts on a dense family", with(llama, "num_local_experts", 8),
       "num_local_experts"},
  };
  ASSERT_GE(table.size(), 40u);
  for (const Altered& altered : table) {
    const bool gpt2 = altered.config.value("model_type", json()) == "gpt2";
    const std::string message = refusal(with_config(
        altered.config, gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight"));
    EXPECT_THAT(message, HasSubstr(altered.field)) << altered.what;
    EXPECT_THAT(message, HasSubstr("config.json")) << altered.what;
    EXPECT_THAT(message, HasSubstr("wanted")) << altered.what;
  }
}

TEST(Derive, UnknownFieldsWithoutArithmeticAreTaken) {
  json config = llama_config();
  config["my_training_run"] = "17";
  config["unsloth_version"] = "2026.1";
  EXPECT_EQ(refusal(with_config(config)), "accepted");
}

TEST(Derive, DeepNestingAndBadJsonAreRefused) {
  Checkpoint checkpoint = with_config(llama_config());
  checkpoint.config_json = std::string(100000, '[');
  EXPECT_THAT(refusal(checkpoint), HasSubstr("config.json"));
  checkpoint.config_json = "{\"model_type\": ";
  EXPECT_THAT(refusal(checkpoint), HasSubstr("not valid JSON"));
  checkpoint.config_json = "[]";
  EXPECT_THAT(refusal(checkpoint), HasSubstr("not a JSON object"));
  checkpoint.config_json.clear();
  EXPECT_THAT(refusal(checkpoint), HasSubstr("missing"));
}

TEST(GenerationConfigTest, SamplingOnlyWhenAskedFor) {
  Checkpoint checkpoint = with_config(with(llama_config(), "eos_token_id", 2));
  GenerationConfig config = read_generation_config(checkpoint);
  EXPECT_EQ(config.eos_ids, std::vector<int>{2});
  EXPECT_EQ(config.temperature, 0.0f);
  checkpoint.generation_config_json =
      R"({"eos_token_id": [7, 9], "do_sample": true, "temperature": 0.6, "top_k": 20})";
  config = read_generation_config(checkpoint);
  EXPECT_EQ(config.eos_ids, (std::vector<int>{7, 9}));
  EXPECT_FLOAT_EQ(config.temperature, 0.6f);
  EXPECT_EQ(config.top_k, 20);
  checkpoint.generation_config_json = R"({"do_sample": false, "temperature": 0.6})";
  EXPECT_EQ(read_generation_config(checkpoint).temperature, 0.0f);
  checkpoint.generation_config_json = R"({"do_sample": true, "top_p": 7})";
  EXPECT_THROW(read_generation_config(checkpoint), Error);
}

}  // namespace
}  // namespace ingot
