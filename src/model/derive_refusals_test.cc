// The refusal table: configs and GGUF metadata of every family, each altered in one place
// so that the model would run wrong.  Each is refused by the name of its field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model/derive_testing.h"

namespace ingot {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A field to set; of a discarded value: to leave out.
struct Alteration {
  const char* fixture;
  const char* field;  // "a.b": field b of object a
  json value;
  const char* told = nullptr;  // what the message names, where it is not `field`
};

const json kAbsent(json::value_t::discarded);

void alter(json& object, const std::string& field, const json& value) {
  const size_t dot = field.find('.');
  if (dot != std::string::npos && object.contains(field.substr(0, dot)))
    return alter(object[field.substr(0, dot)], field.substr(dot + 1), value);
  if (value.is_discarded())
    object.erase(field);
  else
    object[field] = value;
}

json with_layer(const char* first) {
  return {first, "full_attention", "full_attention", "full_attention"};
}

const json kYarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"rope_theta", 1e4}};

json yarn_with(const char* field, const json& value) {
  json out = kYarn;
  out[field] = value;
  return out;
}

std::vector<Alteration> experts_table() {
  return {
      {"qwen3_moe", "num_local_experts", kAbsent, "num_experts"},
      {"qwen3_moe", "num_experts_per_tok", 9},
      {"qwen3_moe", "num_experts_per_tok", 0},
      {"qwen3_moe", "num_experts", 16, "num_local_experts"},
      {"qwen3_moe", "moe_intermediate_size", kAbsent},
      {"qwen3_moe", "decoder_sparse_step", 0},
      {"qwen3_moe", "mlp_only_layers", {4}},
      {"qwen3_moe", "norm_topk_prob", "yes"},
      {"qwen3_moe", "layer_types", with_layer("sliding_attention")},
      {"qwen3_moe", "shared_expert_intermediate_size", 64},
      {"qwen3_moe", "hidden_act", "relu"},
      {"qwen3_moe", "num_key_value_heads", 3},
      {"mixtral", "num_local_experts", 1, "num_experts_per_tok"},
      {"mixtral", "num_local_experts", kAbsent},
      {"mixtral", "attention_bias", true},
      {"mixtral", "num_local_experts", 100000},
      {"mixtral", "rope_parameters.rope_type", "dynamic", "rope_type"},
      {"glm4_moe", "n_group", 3},
      {"glm4_moe", "topk_group", 2},
      {"glm4_moe", "n_group", 8},
      {"glm4_moe", "scoring_func", "softmax"},
      {"glm4_moe", "topk_method", "greedy"},
      {"glm4_moe", "rope_parameters.partial_rotary_factor", 0.45,
       "partial_rotary_factor"},
      {"glm4_moe", "routed_scaling_factor", 0.0},
      {"glm4_moe", "mlp_layer_types", {"dense", "sparse"}},
      {"minimax_m2", "rotary_dim", 32},
      {"minimax_m2", "rotary_dim", 7},
      {"minimax_m2", "attn_type_list", {1, 0, 1, 1}},
      {"minimax_m2", "attn_type_list", {1, 1, 1}},
      {"minimax_m2", "use_qk_norm", false},
      {"minimax_m2", "use_routing_bias", false},
      {"minimax_m2", "scoring_func", "softmax"},
      {"minimax_m2", "shared_intermediate_size", 64},
      {"minimax_m2", "layernorm_mlp_beta", 3.5},
      {"gpt_oss", "attention_bias", false},
      {"gpt_oss", "hidden_act", "gelu"},
      {"gpt_oss", "swiglu_limit", 0.0},
      {"gpt_oss", "experts_per_token", 3},
      {"gpt_oss", "layer_types", with_layer("linear_attention")},
      {"gpt_oss", "layer_types", {"full_attention"}},
      {"gpt_oss",
       "quantization_config",
       {{"quant_method", "bitsandbytes"}},
       "quant_method"},
  };
}

std::vector<Alteration> dense_table() {
  return {
      {"olmo3", "layer_types", {"full_attention"}},
      {"olmo3", "layer_types", with_layer("chunked_attention")},
      {"olmo3", "sliding_window", 0},
      {"olmo3", "rope_parameters.full_attention", yarn_with("factor", 0.5), "factor"},
      {"olmo3", "rope_parameters.middle_attention", json::object(), "middle_attention"},
      {"olmo3", "hidden_size", 66, "num_attention_heads"},
      {"smollm3", "no_rope_layers", {1, 1, 1}},
      {"smollm3", "no_rope_layers", {1, 1, 1, 2}},
      {"smollm3", "no_rope_layer_interval", 0},
      {"smollm3", "layer_types", with_layer("sliding_attention"), "sliding_window"},
      {"smollm3", "use_sliding_window", "no"},
      {"long_longrope", "rope_parameters.short_factor", {1.0, 2.0}, "short_factor"},
      {"long_longrope", "rope_parameters.long_factor", kAbsent, "long_factor"},
      {"long_longrope",
       "rope_parameters.long_factor",
       {1, 1, 1, 1, 1, 1, 1, 0},
       "long_factor"},
      {"long_longrope", "rope_parameters.long_mscale", 1.2, "long_mscale"},
      {"long_longrope", "attention_bias", true},
      {"long_longrope", "lm_head_bias", true},
      {"long_longrope", "full_attn_mod", 2},
      {"long_longrope", "layer_types", with_layer("sliding_attention")},
      {"long_yarn", "rope_parameters", yarn_with("beta_slow", 64.0), "beta_slow"},
      {"long_yarn", "rope_parameters", yarn_with("rope_theta", 1.0), "rope_theta"},
      {"long_yarn", "rope_parameters", yarn_with("attention_factor", -1.0),
       "attention_factor"},
      {"long_yarn", "rope_parameters", yarn_with("attn_factor", 1.5), "attn_factor"},
      {"long_yarn", "rope_parameters", yarn_with("truncate", 1), "truncate"},
      {"long_yarn", "rope_parameters", yarn_with("rope_type", "dynamic"), "rope_type"},
      {"long_yarn", "rope_parameters", yarn_with("rope_type", "ntk"), "rope_type"},
      {"long_yarn", "rope_scaling", kYarn},
      {"mistral", "attention_bias", true},
      {"llama", "num_experts", 8},
      {"gemma3", "layer_types", with_layer("linear_attention")},
  };
}

std::vector<Alteration> hybrid_table() {
  return {
      {"qwen3_next", "linear_num_value_heads", 3},
      {"qwen3_next", "linear_conv_kernel_dim", 0},
      {"qwen3_next", "layer_types", with_layer("sliding_attention")},
      {"qwen3_next", "num_experts_per_tok", 9},
      {"qwen3_next", "shared_expert_intermediate_size", kAbsent},
      {"qwen3_next", "attn_output_gate", false},
      {"qwen3_next", "use_sliding_window", true},
      {"qwen3_5", "output_gate_type", "sigmoid"},
      {"qwen3_5", "intermediate_size", kAbsent},
      {"qwen3_5", "hidden_act", "gelu"},
      {"qwen3_5", "num_experts", 8},
      {"qwen3_5", "mlp_only_layers", {1}},
      {"qwen3_5", "rope_parameters.partial_rotary_factor", 0.2, "partial_rotary_factor"},
      {"qwen3_5", "layer_types", {"linear_attention", "full_attention"}},
      {"qwen3_5", "full_attention_interval", 0},
      {"qwen3_5_moe", "norm_topk_prob", false},
      {"qwen3_5_moe", "num_experts", kAbsent},
      {"qwen3_5_mtp", "linear_key_head_dim", -16},
      {"deepseek_v3", "num_key_value_heads", 2},
      {"deepseek_v3", "kv_lora_rank", kAbsent},
      {"deepseek_v3", "qk_head_dim", 32},
      {"deepseek_v3", "qk_rope_head_dim", 7, "qk_head_dim"},
      {"deepseek_v3", "n_group", 3},
      {"deepseek_v3", "topk_group", 3},
      {"deepseek_v3", "scoring_func", "softmax"},
      {"deepseek_v3", "topk_method", "group_limited_greedy"},
      {"deepseek_v3", "moe_layer_freq", 2},
      {"deepseek_v3", "first_k_dense_replace", -1},
      {"deepseek_v3", "index_topk", 24},
      {"deepseek_v3", "rope_parameters.rope_type", "dynamic", "rope_type"},
      {"deepseek_v3", "rope_parameters.partial_rotary_factor", 0.5, "rope_parameters"},
      {"deepseek_v32", "q_lora_rank", nullptr},
      {"deepseek_v32", "index_topk", 0},
      {"deepseek_v32", "index_head_dim", 4},
      {"deepseek_v32", "layer_types", with_layer("sliding_attention")},
      {"deepseek_v32", "mlp_layer_types", {"dense", "sparse", "sparse", "hash"}},
      {"glm_moe_dsa", "indexer_types", {"shared", "full", "full", "full"}},
      {"glm_moe_dsa", "indexer_types", {"full"}},
      {"glm_moe_dsa", "indexer_types", {"full", "half", "full", "full"}},
      {"glm_moe_dsa", "num_attention_heads", 4096, "num_key_value_heads"},
  };
}

std::vector<Alteration> gguf_table() {
  return {
      {"mixtral", "llama.expert_used_count", 9},
      {"mixtral", "llama.expert_used_count", kAbsent, "expert_used_count"},
      {"mixtral", "llama.expert_gating_func", 2, "expert_gating_func"},
      {"qwen3_moe", "qwen3moe.expert_count", 0},
      {"qwen3_moe", "qwen3moe.attention.head_count_kv", 3},
      {"qwen3_moe", "qwen3moe.attention.value_length", 8},
      {"qwen3", "qwen3.expert_count", 8},
      {"long_yarn", "qwen3.rope.scaling.type", "dynamic"},
      {"long_yarn", "qwen3.rope.scaling.factor", 0.5},
      {"long_yarn", "qwen3.rope.scaling.yarn_ext_factor", 0.5},
      {"long_yarn", "qwen3.rope.scaling.yarn_beta_slow", 64.0},
      {"llama", "llama.rope.scaling.attn_factor", 1.2},
      {"gpt_oss", "gpt-oss.attention.sliding_window", kAbsent},
      {"gpt_oss", "gpt-oss.attention.sliding_window_pattern", {true, false}},
      {"gpt_oss", "gpt-oss.expert_gating_func", 2},
      {"glm4_moe", "glm4moe.expert_group_count", 3},
      {"glm4_moe", "glm4moe.nextn_predict_layers", 9},
      {"glm4_moe", "glm4moe.rope.dimension_count", 7},
      {"glm4_moe", "glm4moe.expert_weights_sum", true},
      {"minimax_m2", "minimax-m2.expert_gating_func", 1},
      {"minimax_m2", "minimax-m2.rope.dimension_count", 18},
      {"olmo3", "olmo2.attention.sliding_window_pattern", {true, true}},
      {"olmo3", "olmo2.attention.layer_norm_rms_epsilon", kAbsent},
      {"smollm3", "smollm3.attention.sliding_window", 16},
      {"smollm3", "smollm3.block_count", 0},
      {"long_longrope", "phi3.rope.scaling.original_context_length", 0},
      {"long_longrope", "phi3.attention.head_count", 3},
      {"qwen3_next", "qwen3next.ssm.conv_kernel", kAbsent},
      {"qwen3_next", "qwen3next.ssm.v_head_reordered", true},
      {"qwen3_5", "qwen35.ssm.time_step_rank", 3},
      {"qwen3_5", "qwen35.ssm.inner_size", 63},
      {"qwen3_5", "qwen35.attention.recurrent_layers", {true, false}},
      {"qwen3_5", "qwen35.expert_count", 8},
      {"qwen3_5_moe", "qwen35moe.expert_used_count", 100},
      {"deepseek_v3", "deepseek2.expert_gating_func", kAbsent},
      {"deepseek_v3", "deepseek2.expert_gating_func", 1},
      {"deepseek_v3", "deepseek2.attention.kv_lora_rank", kAbsent},
      {"deepseek_v3", "deepseek2.attention.key_length", 64},
      {"deepseek_v3", "deepseek2.attention.key_length_mla", 8},
      {"deepseek_v3", "deepseek2.attention.head_count_kv", 2},
      {"deepseek_v3", "deepseek2.expert_group_used_count", 3},
      {"deepseek_v32", "deepseek32.attention.indexer.top_k", kAbsent},
      {"deepseek_v32", "deepseek32.attention.indexer.key_length", 4},
      {"glm_moe_dsa", "glm-dsa.attention.indexer.types", {false, true, true, true}},
      {"glm_moe_dsa", "general.architecture", "glm-next", "architecture"},
  };
}

std::string field_told(const Alteration& a) {
  if (a.told) return a.told;
  const std::string field = a.field;
  return field;
}

void expect_config_refused(const std::vector<Alteration>& table) {
  for (const Alteration& a : table) {
    SCOPED_TRACE(std::string(a.fixture) + ", " + a.field);
    json config = fixture_listing().at(a.fixture).at("config");
    ASSERT_NE(config, json());
    alter(config, a.field, a.value);
    Checkpoint checkpoint = with_config(config);
    set_tensors(checkpoint, fixture_listing().at(a.fixture).at("tensors"));
    const std::string message = refusal(checkpoint);
    EXPECT_THAT(message, HasSubstr(field_told(a)));
    EXPECT_THAT(message, HasSubstr("config.json"));
    EXPECT_THAT(message, HasSubstr("wanted"));
  }
}

TEST(Refusals, ExpertConfigs) { expect_config_refused(experts_table()); }
TEST(Refusals, DenseConfigs) { expect_config_refused(dense_table()); }
TEST(Refusals, HybridAndLatentConfigs) { expect_config_refused(hybrid_table()); }

TEST(Refusals, GgufMetadata) {
  for (const Alteration& a : gguf_table()) {
    SCOPED_TRACE(std::string(a.fixture) + ", " + a.field);
    const json& gguf = fixture_listing().at(a.fixture).at("gguf");
    json metadata = gguf.at("metadata");
    if (a.value.is_discarded())
      metadata.erase(a.field);
    else
      metadata[a.field] = a.value;
    Checkpoint checkpoint = with_metadata(metadata);
    set_tensors(checkpoint, gguf.at("tensors"));
    const std::string message = refusal(checkpoint);
    const std::string field = field_told(a);
    const size_t dot = a.told ? std::string::npos : field.find('.');
    EXPECT_THAT(message, HasSubstr(field.substr(dot + 1)));
    EXPECT_THAT(message, HasSubstr("tiny.gguf"));
    EXPECT_THAT(message, HasSubstr("wanted"));
  }
}

// Were the unaltered ones refused, the tables above would show nothing.
TEST(Refusals, EveryFamilyIsTakenUnaltered) {
  std::set<std::string> seen;
  for (const auto& table : {experts_table(), dense_table(), hybrid_table(), gguf_table()})
    for (const Alteration& a : table) seen.insert(a.fixture);
  EXPECT_GE(seen.size(), 17u);
  for (const std::string& name : seen) {
    const json& entry = fixture_listing().at(name);
    Checkpoint checkpoint = with_config(entry.at("config"));
    set_tensors(checkpoint, entry.at("tensors"));
    EXPECT_EQ(refusal(checkpoint), "accepted") << name;
    Checkpoint gguf = with_metadata(entry.at("gguf").at("metadata"));
    set_tensors(gguf, entry.at("gguf").at("tensors"));
    EXPECT_EQ(refusal(gguf), "accepted") << name;
  }
}

// A value that some reader might stumble over.
json odd_value(std::mt19937& random, const json& old) {
  static const std::vector<json> kOdd = {nullptr,
                                         0,
                                         1,
                                         2,
                                         3,
                                         -1,
                                         7,
                                         64,
                                         100000,
                                         1e18,
                                         -0.5,
                                         0.25,
                                         1e-300,
                                         "",
                                         "F",
                                         "yarn",
                                         false,
                                         true,
                                         json::array(),
                                         json::object(),
                                         {1, 2},
                                         {"full_attention"},
                                         {{"type", "yarn"}, {"factor", 2}}};
  const auto pick = std::uniform_int_distribution<size_t>(0, kOdd.size() + 1)(random);
  if (pick < kOdd.size()) return kOdd[pick];
  if (!old.is_number()) return "sigmoid";
  return pick == kOdd.size() ? json(old.get<double>() * 2) : json(old.get<double>() - 1);
}

// One to three random fields at a time, of configs and of GGUF metadata: an Error or a
// recipe whose sources lie within what is stored.
TEST(Refusals, RandomAlterationsNeverCrash) {
  constexpr unsigned kSeed = 20261201;
  std::printf("seed %u\n", kSeed);
  std::mt19937 random(kSeed);
  int n_refused = 0;
  int n_taken = 0;
  for (const auto& [name, entry] : fixture_listing().items()) {
    for (int i = 0; i < 400; ++i) {
      const bool gguf = i % 2 != 0;
      json fields = gguf ? entry.at("gguf").at("metadata") : entry.at("config");
      for (int change = 0; change < 1 + i / 2 % 3; ++change) {
        auto at = fields.begin();
        std::advance(at,
                     std::uniform_int_distribution<size_t>(0, fields.size() - 1)(random));
        const json value = odd_value(random, at.value());
        if (gguf && (value.is_null() || value.is_object() || value == json::array()))
          fields.erase(at);
        else
          at.value() = value;
      }
      Checkpoint checkpoint = gguf ? with_metadata(fields) : with_config(fields);
      set_tensors(checkpoint,
                  gguf ? entry.at("gguf").at("tensors") : entry.at("tensors"));
      std::optional<Recipe> recipe;
      try {
        recipe = derive_recipe(checkpoint);
      } catch (const Error& error) {
        ++n_refused;
        EXPECT_STRNE(error.what(), "");
        continue;
      }
      ++n_taken;
      for (const RopeRecipe& rope : recipe->ropes)
        if (!rope.divisors && !rope.long_source)
          rope_inverse_frequencies(rope, rope.long_divisors);
      EXPECT_NO_THROW(ReadTensors{*recipe}) << fields.dump();
    }
  }
  EXPECT_GT(n_refused, 3000);
  EXPECT_GT(n_taken, 1000);  // else the changes would not reach far into a derivation
}

}  // namespace
}  // namespace ingot
