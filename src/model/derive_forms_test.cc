// One model, many forms on disk: experts one by one, stacked or fused, projections by
// head or by kind, prefixes, MTP heads.  Each is read whole, in its own shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "model/derive_testing.h"

namespace ingot {
namespace {

using nlohmann::json;
using Tensors = std::map<std::string, Shape>;

struct Listed {
  json config, metadata;
  Tensors saved, gguf;
};

Listed listed(const std::string& fixture) {
  const json& entry = fixture_listing().at(fixture);
  return {entry.at("config"), entry.at("gguf").at("metadata"),
          entry.at("tensors").get<Tensors>(),
          entry.at("gguf").at("tensors").get<Tensors>()};
}

// The tensors are all read, and the ones of the recipe are all there.
Recipe expect_reads_all(Checkpoint checkpoint, const Tensors& tensors) {
  set_tensors(checkpoint, tensors);
  Tensors wanted = tensors;
  for (auto& [name, shape] : wanted) std::erase(shape, 1);
  const Recipe recipe = derive_recipe(checkpoint);
  EXPECT_EQ(ReadTensors(recipe).shapes(), wanted);
  return recipe;
}

Tensors renamed(const Tensors& tensors,
                const std::function<std::string(const std::string&)>& rename) {
  Tensors out;
  for (const auto& [name, shape] : tensors) out[rename(name)] = shape;
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Experts 0 ... of `one` ("mlp.experts.") as stacks: `stack(layer, matrix)` names them.
Tensors stacked(const Tensors& tensors, const std::string& one,
                const std::function<std::string(const std::string& layer,
                                                const std::string& matrix)>& stack) {
  Tensors out;
  for (const auto& [name, shape] : tensors) {
    const size_t at = name.find(one);
    if (at == std::string::npos || !isdigit(name[at + one.size()])) {
      out[name] = shape;
      continue;
    }
    const size_t dot = name.find('.', at + one.size());
    const std::string matrix = name.substr(dot + 1, name.rfind('.') - dot - 1);
    Shape& whole = out[stack(name.substr(0, at), matrix)];
    if (whole.empty()) whole = {0, shape[0], shape[1]};
    ++whole[0];
  }
  return out;
}

Tensors fused(Tensors tensors, const std::string& gate, const std::string& up,
              const std::string& both) {
  Tensors out;
  for (const auto& [name, shape] : tensors) {
    if (name.find(up) != std::string::npos) continue;
    Shape wide = shape;
    if (name.find(gate) != std::string::npos) wide[1] *= 2;
    out[replaced(name, gate, both)] = wide;
  }
  return out;
}

TEST(Forms, StacksOfMlx) {
  for (const char* name : {"qwen3_moe", "glm4_moe", "qwen3_5_moe", "deepseek_v3"}) {
    const Listed l = listed(name);
    const Recipe recipe = expect_reads_all(
        with_config(l.config), stacked(l.saved, "mlp.experts.", [](auto& at, auto& m) {
          return at + "mlp.switch_mlp." + m + ".weight";
        }));
    const auto& e = std::get<ExpertsRecipe>(recipe.layers[3].ffn);
    EXPECT_EQ(e.input[5].parts[1].slice, 5);
    EXPECT_THAT(e.input[5].parts[1].name, ::testing::HasSubstr("up_proj"));
  }
  const Listed mixtral = listed("mixtral");
  expect_reads_all(
      with_config(mixtral.config),
      stacked(mixtral.saved, "block_sparse_moe.experts.", [](auto& at, auto& m) {
        const std::string name = m == "w1"   ? "gate_proj"
                                 : m == "w3" ? "up_proj"
                                             : "down_proj";
        return at + "block_sparse_moe.switch_mlp." + name + ".weight";
      }));
}

TEST(Forms, FusedExpertsWithAndWithoutSuffix) {
  for (const char* suffix : {"", ".weight"}) {
    const Listed l = listed("qwen3_5_moe");
    const Tensors stacks = stacked(l.saved, "mlp.experts.", [&](auto& at, auto& m) {
      return at + "mlp.experts." + m + suffix;
    });
    const Recipe recipe = expect_reads_all(
        with_config(l.config),
        fused(stacks, "experts.gate_proj", "experts.up_proj", "experts.gate_up_proj"));
    const MatrixSource& m =
        std::get<ExpertsRecipe>(recipe.layers[0].ffn).input[7].parts.at(0);
    EXPECT_EQ(m.n_rows, 64);
    EXPECT_TRUE(m.order.plain());  // gate, then up
    EXPECT_FALSE(m.transposed);
  }
}

TEST(Forms, GptOssBlocksAreRowsOfOutputs) {
  const Listed l = listed("gpt_oss");
  Tensors tensors;
  for (const auto& [name, shape] : l.saved) {
    if (name.ends_with("_proj") && name.find("experts") != std::string::npos) {
      const Shape blocks = {shape[0], shape[2], shape[1] / 32, 16};
      tensors[name + "_blocks"] = blocks;
      tensors[name + "_scales"] = {blocks[0], blocks[1], blocks[2]};
    } else {
      tensors[name] = shape;
    }
  }
  json config = l.config;
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  Checkpoint checkpoint = with_config(config);
  set_tensors(checkpoint, tensors);
  const Recipe recipe = derive_recipe(checkpoint);
  const auto& e = std::get<ExpertsRecipe>(recipe.layers[0].ffn);
  EXPECT_EQ(e.input[2].parts[0].name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_FALSE(e.input[2].parts[0].transposed);
  EXPECT_EQ(e.input[2].parts[0].order.stored(1), 2);   // second gate
  EXPECT_EQ(e.input[2].parts[0].order.stored(64), 1);  // first up
  EXPECT_EQ(e.input[2].bias[0].order.stored(64), 1);
  set_tensors(checkpoint, l.saved);
  EXPECT_TRUE(std::get<ExpertsRecipe>(derive_recipe(checkpoint).layers[0].ffn)
                  .input[2]
                  .parts[0]
                  .transposed);
}

// Where the embedding's prefix puts the head.
TEST(Forms, PrefixesOfMultimodalCheckpoints) {
  const std::vector<std::pair<std::string, std::string>> prefixes = {
      {"model.language_model.", "lm_head."},
      {"language_model.model.", "language_model.lm_head."},
      {"", "lm_head."}};
  for (const auto& [prefix, head] : prefixes) {
    for (const char* name : {"qwen3_5_mtp", "qwen3_5"}) {
      const Listed l = listed(name);
      json wrapper = {{"model_type", "qwen3_5"},
                      {"architectures", {"Qwen3_5ForConditionalGeneration"}},
                      {"tie_word_embeddings", l.config["tie_word_embeddings"]},
                      {"text_config", l.config}};
      const Recipe recipe = expect_reads_all(
          with_config(wrapper),
          renamed(l.saved, [prefix = prefix, head = head](const std::string& tensor) {
            if (tensor.starts_with("lm_head.")) return replaced(tensor, "lm_head.", head);
            if (tensor.starts_with("model.")) return replaced(tensor, "model.", prefix);
            return tensor;
          }));
      EXPECT_EQ(recipe.mtp.size(), std::string(name) == "qwen3_5_mtp" ? 1u : 0u);
    }
  }
}

// The class that a wrapper was saved as decides whose word on tying counts.
TEST(Forms, TyingIsThePublishedClasss) {
  const Listed l = listed("qwen3_5");
  json text = l.config;
  text["tie_word_embeddings"] = false;
  json wrapper = {{"model_type", "qwen3_5"},
                  {"architectures", {"Qwen3_5ForConditionalGeneration"}},
                  {"tie_word_embeddings", true},
                  {"text_config", text}};
  EXPECT_FALSE(derive_recipe(with_config(wrapper)).head.has_value());
  wrapper["architectures"] = {"Qwen3_5ForCausalLM"};
  EXPECT_TRUE(derive_recipe(with_config(wrapper)).head.has_value());
}

TEST(Forms, ConvertedHybridsHaveTheirNormsFolded) {
  const Listed l = listed("qwen3_next");
  EXPECT_EQ(expect_reads_all(with_config(l.config), l.saved).final_norm.weight.add, 1.0f);
  Tensors turned = l.saved;
  for (auto& [name, shape] : turned)
    if (name.ends_with("conv1d.weight")) std::swap(shape[1], shape[2]);
  EXPECT_EQ(expect_reads_all(with_config(l.config), turned).final_norm.weight.add, 0.0f);
}

// The layer after the last, with the head's own tensors.
Tensors with_mtp_layer(const Tensors& tensors, int n_layers, const std::string& layers,
                       const std::vector<std::pair<std::string, Shape>>& own) {
  Tensors out = tensors;
  const std::string last = layers + std::to_string(n_layers - 1) + ".";
  const std::string next = layers + std::to_string(n_layers) + ".";
  for (const auto& [name, shape] : tensors)
    if (name.starts_with(last)) out[replaced(name, last, next)] = shape;
  for (const auto& [name, shape] : own) out[next + name] = shape;
  return out;
}

TEST(Forms, HeadsInTheLayerAfterTheLast) {
  for (const char* name : {"glm4_moe", "deepseek_v3", "deepseek_v32", "glm_moe_dsa"}) {
    const Listed l = listed(name);
    EXPECT_TRUE(expect_reads_all(with_config(l.config), l.saved).mtp.empty());
    std::vector<std::pair<std::string, Shape>> own = {{"enorm.weight", {64}},
                                                      {"hnorm.weight", {64}},
                                                      {"eh_proj.weight", {64, 128}},
                                                      {"shared_head.norm.weight", {64}}};
    const Recipe shared = expect_reads_all(
        with_config(l.config), with_mtp_layer(l.saved, 4, "model.layers.", own));
    ASSERT_EQ(shared.mtp.size(), 1u);
    EXPECT_FALSE(shared.mtp[0].head.has_value());
    const bool glm = std::string(name).starts_with("glm");
    EXPECT_EQ(shared.mtp[0].chains_normed, glm) << name;
    EXPECT_TRUE(std::holds_alternative<ExpertsRecipe>(shared.mtp[0].layer.ffn));
    own.push_back({"embed_tokens.weight", {512, 64}});
    own.push_back({"shared_head.head.weight", {512, 64}});
    const Recipe separate = expect_reads_all(
        with_config(l.config), with_mtp_layer(l.saved, 4, "model.layers.", own));
    EXPECT_TRUE(separate.mtp[0].head.has_value());
    EXPECT_TRUE(separate.mtp[0].embed.has_value());
  }
}

TEST(Forms, GgufHeadsAreNotCountedAmongLayers) {
  for (const auto& [name, architecture] :
       {std::pair{"glm4_moe", "glm4moe"}, std::pair{"qwen3_next", "qwen3next"},
        std::pair{"qwen3_5_moe", "qwen35moe"}, std::pair{"glm_moe_dsa", "glm-dsa"}}) {
    const Listed l = listed(name);
    json metadata = l.metadata;
    const std::string prefix = std::string(architecture) + ".";
    metadata[prefix + "block_count"] = 5;
    metadata[prefix + "nextn_predict_layers"] = 1;
    if (metadata.contains(prefix + "attention.recurrent_layers"))
      metadata[prefix + "attention.recurrent_layers"].push_back(false);
    const Recipe recipe = expect_reads_all(
        with_metadata(metadata), with_mtp_layer(l.gguf, 4, "blk.",
                                                {{"nextn.enorm.weight", {64}},
                                                 {"nextn.hnorm.weight", {64}},
                                                 {"nextn.eh_proj.weight", {64, 128}}}));
    EXPECT_EQ(recipe.layers.size(), 4u) << name;
    ASSERT_EQ(recipe.mtp.size(), 1u) << name;
    EXPECT_EQ(recipe.mtp[0].final_norm.weight.name, "output_norm.weight");
  }
}

TEST(Forms, GgufFusedExperts) {
  for (const char* name : {"qwen3_5_moe", "qwen3_next", "qwen3_moe"}) {
    const Listed l = listed(name);
    expect_reads_all(with_metadata(l.metadata),
                     fused(l.gguf, "ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps"));
  }
}

TEST(Forms, LegacyGguf) {
  // Keys and values of all heads in one matrix, sizes of whole heads.
  const Listed l = listed("deepseek_v3");
  Tensors tensors;
  for (const auto& [name, shape] : l.gguf) {
    if (name.ends_with("attn_v_b.weight")) continue;
    if (name.ends_with("attn_k_b.weight"))
      tensors[replaced(name, "attn_k_b", "attn_kv_b")] = {4 * 32, 32};
    else
      tensors[name] = shape;
  }
  json metadata = l.metadata;
  metadata.erase("deepseek2.attention.key_length_mla");
  metadata.erase("deepseek2.attention.value_length_mla");
  metadata["deepseek2.attention.key_length"] = 24;
  metadata["deepseek2.attention.value_length"] = 16;
  metadata["deepseek2.attention.head_count_kv"] = 4;
  const Recipe recipe = expect_reads_all(with_metadata(metadata), tensors);
  const auto& a = std::get<LatentAttentionRecipe>(recipe.layers[0].mixer);
  EXPECT_TRUE(a.key_up[1].transposed);
  EXPECT_EQ(a.key_up[1].first_col, 32);
  EXPECT_EQ(a.value_up[1].order.first, 48);

  // The input projection by key head.
  const Listed next = listed("qwen3_next");
  Tensors by_head;
  for (const auto& [name, shape] : next.gguf) {
    if (name.ends_with("attn_gate.weight")) continue;
    const bool delta = name.ends_with("attn_qkv.weight");
    by_head[delta ? replaced(name, "attn_qkv", "ssm_in") : name] =
        delta ? Shape{192, 64} : shape;
  }
  expect_reads_all(with_metadata(next.metadata), by_head);
}

}  // namespace
}  // namespace ingot
