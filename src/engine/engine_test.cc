// One answer: the same bits whatever the chunk, the threads, or what was dropped before.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/generate.h"
#include "model/tiny_model.h"

namespace ingot {
namespace {

constexpr unsigned kSeed = 5;

std::vector<int> prompt_of(int n) {
  std::mt19937 random(kSeed + 1);
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(int(random() % 97));
  return out;
}

struct Rig {
  Rig(TinyCheckpoint& tiny, int threads, ActMode act, EngineOptions options)
      : ops(make_cpu_ops({.n_threads = threads, .act = act})),
        model(load_model(tiny.checkpoint, derive_recipe(tiny.checkpoint), *ops, {})),
        engine(*model, options) {}
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  Engine engine;
};

std::vector<float> logits_of(Engine& engine, Sequence& sequence,
                             std::span<const int> tokens) {
  std::vector<float> out;
  engine.evaluate(sequence, tokens,
                  {.logits = [&](int, int n, const float* rows, int width) {
                    out.insert(out.end(), rows, rows + size_t(n) * size_t(width));
                  }});
  return out;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(Engine, LogitsAreTheSameBitsForAnyChunkAndThreads) {
  TinyCheckpoint tiny = tiny_checkpoint(kSeed);
  const std::vector<int> prompt = prompt_of(200);
  for (const ActMode act : {ActMode::f32, ActMode::automatic}) {
    for (const KvType kv : {KvType::f32, KvType::f16, KvType::bf16, KvType::q8}) {
      std::vector<float> want;
      for (const int threads : {1, 2}) {
        for (const int chunk : {200, 1, 7, 64, 65}) {
          Rig rig(tiny, threads, act,
                  {.context = 256, .chunk = chunk, .kv_type = kv, .max_logit_rows = 16});
          Sequence sequence = rig.engine.new_sequence();
          const std::vector<float> got = logits_of(rig.engine, sequence, prompt);
          if (want.empty()) want = got;
          EXPECT_TRUE(same_bits(want, got))
              << "chunk " << chunk << " threads " << threads << " kv " << int(kv);
        }
      }
    }
  }
}

TEST(Engine, DroppedTokensLeaveNoTrace) {
  TinyCheckpoint tiny = tiny_checkpoint(kSeed);
  const std::vector<int> prompt = prompt_of(150);
  Rig rig(tiny, 2, ActMode::automatic,
          {.context = 512, .chunk = 32, .max_logit_rows = 8});
  for (const int dropped : {1, 5, 21, 22, 23, 86}) {  // 150 - 22 = 128 ends a page
    Sequence clean = rig.engine.new_sequence();
    logits_of(rig.engine, clean, prompt);
    const std::vector<float> want =
        logits_of(rig.engine, clean, std::vector<int>{3, 4, 5});

    Sequence dirty = rig.engine.new_sequence();
    logits_of(rig.engine, dirty, prompt);
    logits_of(rig.engine, dirty, prompt_of(dropped));
    EXPECT_EQ(dirty.truncate(150), 150);
    EXPECT_TRUE(same_bits(want, logits_of(rig.engine, dirty, std::vector<int>{3, 4, 5})));

    // And the other way round: cut into the prompt, feed it again.
    EXPECT_EQ(dirty.truncate(150 - dropped), 150 - dropped);
    const std::span<const int> again = std::span(prompt).subspan(size_t(150 - dropped));
    logits_of(rig.engine, dirty, again);
    EXPECT_TRUE(same_bits(want, logits_of(rig.engine, dirty, std::vector<int>{3, 4, 5})));
  }
}

TEST(Engine, TwoSequencesDoNotTouchEachOther) {
  TinyCheckpoint tiny = tiny_checkpoint(kSeed);
  Rig rig(tiny, 2, ActMode::automatic,
          {.context = 512, .chunk = 16, .max_logit_rows = 8});
  const std::vector<int> a = prompt_of(70);
  std::vector<int> b = prompt_of(90);
  for (int& token : b) token = 96 - token;
  Sequence alone = rig.engine.new_sequence();
  const std::vector<float> want = logits_of(rig.engine, alone, a);
  Sequence first = rig.engine.new_sequence();
  Sequence second = rig.engine.new_sequence();
  std::vector<float> got;
  for (int at = 0; at < 70; at += 10) {
    const std::vector<float> rows =
        logits_of(rig.engine, first, std::span(a).subspan(size_t(at), 10));
    got.insert(got.end(), rows.begin(), rows.end());
    logits_of(rig.engine, second, std::span(b).subspan(size_t(at), 10));
  }
  EXPECT_TRUE(same_bits(want, got));
}

TEST(Engine, AnswerIsTheSameWithAWarmPrefix) {
  TinyCheckpoint tiny = tiny_checkpoint(kSeed);
  Rig rig(tiny, 2, ActMode::automatic, {.context = 512, .chunk = 64});
  const std::vector<int> prompt = prompt_of(100);
  for (const float temperature : {0.0f, 0.8f}) {
    GenerateOptions options;
    options.max_tokens = 40;
    options.sampler.args.temperature = temperature;
    options.sampler.args.seed = 11;
    Sequence cold = rig.engine.new_sequence();
    const Generation want = generate(rig.engine, cold, nullptr, prompt, options, {}, {});
    for (const int shared : {1, 15, 63, 64, 65, 99, 100}) {
      Sequence warm = rig.engine.new_sequence();
      logits_of(rig.engine, warm, std::span(prompt).first(size_t(shared)));
      const Generation got = generate(rig.engine, warm, nullptr, prompt, options, {}, {});
      EXPECT_EQ(got.tokens, want.tokens) << "shared " << shared;
    }
  }
}

TEST(Engine, FillsTheContextAndEndsWithLength) {
  TinyCheckpoint tiny = tiny_checkpoint(kSeed);
  Rig rig(tiny, 1, ActMode::f32, {.context = 64});
  GenerateOptions options;
  for (const int n : {63, 64}) {
    Sequence sequence = rig.engine.new_sequence();
    const Generation out =
        generate(rig.engine, sequence, nullptr, prompt_of(n), options, {}, {});
    EXPECT_EQ(out.finish, FinishReason::length);
    EXPECT_EQ(int(out.tokens.size()), 65 - n);
  }
  Sequence sequence = rig.engine.new_sequence();
  try {
    generate(rig.engine, sequence, nullptr, prompt_of(65), options, {}, {});
    ADD_FAILURE() << "a prompt longer than the context was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("65"), ::testing::HasSubstr("64")));
  }
}

TEST(Engine, RefusesEmptyPromptsAndForeignTokens) {
  TinyCheckpoint tiny = tiny_checkpoint(kSeed);
  Rig rig(tiny, 1, ActMode::f32, {.context = 64});
  Sequence sequence = rig.engine.new_sequence();
  for (const std::vector<int>& prompt :
       {std::vector<int>{}, {-1}, {97}, {5, std::numeric_limits<int>::max()}})
    EXPECT_THROW(generate(rig.engine, sequence, nullptr, prompt, {}, {}, {}), Error);
  EXPECT_NO_THROW(generate(rig.engine, sequence, nullptr, std::vector<int>{96},
                           {.max_tokens = 1}, {}, {}));
}

// R28: a value that overflows stops the run at the layer that made it.  (Weights that are
// not finite are refused at load: weights_test.cc.)
TEST(Engine, NonFiniteValuesNameTheirLayerAndGiveNoToken) {
  constexpr float kHuge = 3e38f;
  struct Case {
    const char* tensor;
    const char* named;
  };
  for (const Case& c : {Case{"model.layers.0.input_layernorm.weight", "layer 0"},
                        Case{"model.layers.1.self_attn.v_proj.weight", "layer 1"},
                        Case{"model.layers.2.mlp.up_proj.weight", "layer 2"},
                        Case{"model.norm.weight", "logits"}}) {
    for (const ActMode act : {ActMode::f32, ActMode::automatic}) {
      TinyCheckpoint tiny = tiny_checkpoint(kSeed);
      for (float& value : tiny.values(c.tensor)) value = std::copysign(kHuge, value);
      Rig rig(tiny, 1, act, {.context = 64});
      Sequence sequence = rig.engine.new_sequence();
      try {
        const Generation out =
            generate(rig.engine, sequence, nullptr, std::vector<int>{1, 2},
                     {.max_tokens = 4}, {}, {});
        ADD_FAILURE() << c.tensor << " answered " << out.tokens.size() << " tokens";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(c.named));
      }
    }
  }
}

// Keys and values past float16's range: computed in a wider type, or refused by name.
TEST(Engine, HalfPrecisionOverflowIsNeverAToken) {
  TinyCheckpoint tiny = tiny_checkpoint(kSeed);
  for (float& value : tiny.values("model.layers.0.self_attn.v_proj.weight"))
    value *= 1e6f;
  const std::vector<int> prompt = prompt_of(20);
  for (const KvType kv : {KvType::f32, KvType::bf16}) {
    Rig rig(tiny, 1, ActMode::f32, {.context = 64, .kv_type = kv});
    Sequence sequence = rig.engine.new_sequence();
    EXPECT_EQ(generate(rig.engine, sequence, nullptr, prompt, {.max_tokens = 3}, {}, {})
                  .tokens.size(),
              3u);
  }
  Rig rig(tiny, 1, ActMode::f32, {.context = 64, .kv_type = KvType::f16});
  Sequence sequence = rig.engine.new_sequence();
  try {
    generate(rig.engine, sequence, nullptr, prompt, {.max_tokens = 3}, {}, {});
    ADD_FAILURE() << "infinity in a page became a token";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("layer 0"));
  }
}

TEST(Engine, SamplingParametersOutOfRangeAreNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const auto refused = [](const char* name, const SamplerArgs& args) {
    try {
      check_sampler_options({.args = args}, 97);
      return std::string("accepted");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(name));
      return std::string("refused");
    }
  };
  for (const float bad : {nan, inf, -1.0f})
    EXPECT_EQ(refused("temperature", {.temperature = bad}), "refused");
  for (const float bad : {nan, 0.0f, 1.5f})
    EXPECT_EQ(refused("top_p", {.top_p = bad}), "refused");
  for (const float bad : {nan, -0.1f, 2.0f})
    EXPECT_EQ(refused("min_p", {.min_p = bad}), "refused");
  EXPECT_EQ(refused("top_k", {.top_k = -1}), "refused");
  EXPECT_EQ(refused("repeat_penalty", {.repeat_penalty = 0.0f}), "refused");
  EXPECT_EQ(refused("presence_penalty", {.presence_penalty = 3.0f}), "refused");
  EXPECT_EQ(refused("frequency_penalty", {.frequency_penalty = nan}), "refused");
  EXPECT_EQ(refused("", {.temperature = 0.7f, .top_k = 999999999}), "accepted");
  EXPECT_THROW(check_sampler_options({.logit_bias = {{97, 1.0f}}}, 97), Error);
  EXPECT_THROW(check_sampler_options({.logit_bias = {{1, inf}}}, 97), Error);
}

}  // namespace
}  // namespace ingot
