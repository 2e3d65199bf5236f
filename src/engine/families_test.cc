// One answer, for every kind of layer: experts, the gated delta rule, latent and sparse
// attention.  The same bits whatever the chunk, the threads, or what was dropped before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "engine/families_testing.h"
#include "model/tiny_model.h"

namespace ingot {
namespace {

constexpr unsigned kSeed = 20261201;
constexpr int kPrompt = 200;

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
