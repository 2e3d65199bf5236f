// One answer, for every kind of layer: experts, the gated delta rule, latent and sparse
// attention.  The same bits whatever the chunk, the threads, or what was dropped before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "model/tiny_model.h"

namespace ingot {
namespace {

constexpr unsigned kSeed = 20261201;
constexpr int kPrompt = 200;

struct Family {
  std::string name;
  std::string fields;  // beside those that all have
};

std::string config_of(const Family& family) {
  return R"({"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 10000,
    "max_position_embeddings": 4096, "tie_word_embeddings": true, )" +
         family.fields + "}";
}

std::vector<Family> families() {
  return {
      {"hybrid_with_experts", R"("model_type": "qwen3_next", "num_key_value_heads": 2,
        "head_dim": 32, "partial_rotary_factor": 0.25, "full_attention_interval": 4,
        "linear_num_key_heads": 2, "linear_num_value_heads": 6,
        "linear_key_head_dim": 24, "linear_value_head_dim": 32,
        "linear_conv_kernel_dim": 4, "num_experts": 7, "num_experts_per_tok": 3,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
        "intermediate_size": 96, "norm_topk_prob": true)"},
      {"hybrid_dense", R"("model_type": "qwen3_5_text", "num_key_value_heads": 1,
        "head_dim": 16, "partial_rotary_factor": 0.5, "full_attention_interval": 2,
        "linear_num_key_heads": 3, "linear_num_value_heads": 3,
        "linear_key_head_dim": 8, "linear_value_head_dim": 40,
        "linear_conv_kernel_dim": 3, "intermediate_size": 96)"},
      {"sparse_latent", R"("model_type": "deepseek_v32", "num_key_value_heads": 4,
        "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
        "routed_scaling_factor": 2.5, "norm_topk_prob": true, "intermediate_size": 96,
        "index_head_dim": 16, "index_n_heads": 4, "index_topk": 24)"},
      {"experts_with_sinks", R"("model_type": "gpt_oss", "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size": 64, "num_local_experts": 6,
        "num_experts_per_tok": 2, "sliding_window": 16, "attention_bias": true,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": false,
          "original_max_position_embeddings": 128})"},
  };
}

std::vector<int> prompt_of(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(int(random() % 97));
  return out;
}

struct Rig {
  Rig(TinyCheckpoint& tiny, int threads, ActMode act, EngineOptions options)
      : ops(make_cpu_ops({.n_threads = threads, .act = act})),
        model(load_model(tiny.checkpoint, derive_recipe(tiny.checkpoint), *ops, {})),
        engine(*model, options) {}

  std::vector<float> logits(Sequence& sequence, std::span<const int> tokens) {
    std::vector<float> out;
    engine.evaluate(sequence, tokens,
                    {.logits = [&](int, int n, const float* rows, int width) {
                      out.insert(out.end(), rows, rows + size_t(n) * size_t(width));
                    }});
    return out;
  }

  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  Engine engine;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class Families : public testing::TestWithParam<Family> {};

TEST_P(Families, LogitsAreTheSameBitsForAnyChunkAndThreads) {
  TinyCheckpoint tiny = tiny_checkpoint(config_of(GetParam()), kSeed);
  const std::vector<int> prompt = prompt_of(kPrompt, kSeed + 1);
  for (const ActMode act : {ActMode::f32, ActMode::automatic}) {
    for (const KvType kv : {KvType::f32, KvType::f16, KvType::q8}) {
      std::vector<float> want;
      for (const int threads : {1, 2}) {
        for (const int chunk : {kPrompt, 1, 7, 64, 65}) {
          Rig rig(tiny, threads, act,
                  {.context = 256, .chunk = chunk, .kv_type = kv, .max_logit_rows = 16});
          Sequence sequence = rig.engine.new_sequence();
          const std::vector<float> got = rig.logits(sequence, prompt);
          if (want.empty()) want = got;
          EXPECT_TRUE(same_bits(want, got))
              << "chunk " << chunk << " threads " << threads << " kv " << int(kv);
        }
      }
    }
  }
}

// Wrong tokens are fed and dropped again, at and around a page's end; where recurrent
// state does not reach back so far, truncate() says so and the prompt is fed again.
TEST_P(Families, DroppedTokensLeaveNoTrace) {
  TinyCheckpoint tiny = tiny_checkpoint(config_of(GetParam()), kSeed);
  const std::vector<int> tail = {3, 4, 5};
  Rig rig(tiny, 2, ActMode::automatic,
          {.context = 1024, .chunk = 32, .max_logit_rows = 8});
  for (const int kept : {1, 63, 64, 65, 100, 127, 128, 129, 150}) {
    const std::vector<int> prompt = prompt_of(kept, kSeed + 2);
    Sequence clean = rig.engine.new_sequence();
    rig.logits(clean, prompt);
    const std::vector<float> want = rig.logits(clean, tail);
    for (const int dropped : {1, 5, 63, 64, 65, 128, 200}) {
      Sequence dirty = rig.engine.new_sequence();
      rig.logits(dirty, prompt);
      rig.logits(dirty, prompt_of(dropped, kSeed + 3));
      const int left = dirty.truncate(kept);
      EXPECT_TRUE(left == kept || left == 0);
      if (dropped < kPageTokens) {
        EXPECT_EQ(left, kept) << "a page's worth can always be dropped";
      }
      if (left < kept) rig.logits(dirty, std::span(prompt).subspan(size_t(left)));
      EXPECT_TRUE(same_bits(want, rig.logits(dirty, tail)))
          << "kept " << kept << " dropped " << dropped;
    }
  }
}

TEST_P(Families, ASlotOfAnotherSequenceLeavesNoTrace) {
  TinyCheckpoint tiny = tiny_checkpoint(config_of(GetParam()), kSeed);
  Rig rig(tiny, 1, ActMode::f32, {.context = 1024, .chunk = 50, .max_logit_rows = 8});
  const std::vector<int> prompt = prompt_of(90, kSeed + 4);
  std::vector<float> want;
  for (int i = 0; i < 3; ++i) {  // pages and slots go round
    Sequence other = rig.engine.new_sequence();
    rig.logits(other, prompt_of(70 + i, kSeed + 5));
    Sequence sequence = rig.engine.new_sequence();
    const std::vector<float> got = rig.logits(sequence, prompt);
    if (want.empty()) want = got;
    EXPECT_TRUE(same_bits(want, got));
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, Families, testing::ValuesIn(families()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ingot
