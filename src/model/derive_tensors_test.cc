// A recipe reads every tensor of a checkpoint, in its shape, and no other: of each family
// as transformers saves it and as GGUF holds it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/derive_testing.h"

namespace ingot {
namespace {

using nlohmann::json;

std::map<std::string, Shape> shapes_of(const Checkpoint& checkpoint) {
  std::map<std::string, Shape> out;
  for (const auto& [name, stored] : checkpoint.tensors) {
    Shape shape = stored.view.shape;
    std::erase(shape, 1);
    out[name] = shape;
  }
  return out;
}

class EveryFixture : public ::testing::TestWithParam<std::string> {
 protected:
  Checkpoint saved() const {
    Checkpoint checkpoint = with_config(fixture_listing()[GetParam()]["config"]);
    set_tensors(checkpoint, fixture_listing()[GetParam()]["tensors"]);
    return checkpoint;
  }
  Checkpoint as_gguf() const {
    const json& gguf = fixture_listing()[GetParam()]["gguf"];
    Checkpoint checkpoint = with_metadata(gguf["metadata"]);
    set_tensors(checkpoint, gguf["tensors"]);
    return checkpoint;
  }
};

TEST_P(EveryFixture, ReadsEveryTensorAsSaved) {
  const Checkpoint checkpoint = saved();
  EXPECT_EQ(ReadTensors(derive_recipe(checkpoint)).shapes(), shapes_of(checkpoint));
}

TEST_P(EveryFixture, ReadsEveryTensorOfGguf) {
  const Checkpoint checkpoint = as_gguf();
  EXPECT_EQ(ReadTensors(derive_recipe(checkpoint)).shapes(), shapes_of(checkpoint));
}

// What both containers must say alike: all but names, orders and folded norms.
TEST_P(EveryFixture, MeansTheSameInBothContainers) {
  const Recipe a = derive_recipe(saved());
  const Recipe b = derive_recipe(as_gguf());
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.max_positions, b.max_positions);
  EXPECT_EQ(a.head.has_value(), b.head.has_value());
  EXPECT_EQ(a.mtp.size(), b.mtp.size());
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const LayerRecipe& x = a.layers[i];
    const LayerRecipe& y = b.layers[i];
    ASSERT_EQ(x.mixer.index(), y.mixer.index()) << i;
    ASSERT_EQ(x.ffn.index(), y.ffn.index()) << i;
    EXPECT_EQ(x.input_norm.has_value(), y.input_norm.has_value()) << i;
    EXPECT_EQ(x.post_mixer_norm.has_value(), y.post_mixer_norm.has_value()) << i;
    int rope_a = -1, rope_b = -1;
    if (const auto* p = std::get_if<AttentionRecipe>(&x.mixer)) {
      const auto& q = std::get<AttentionRecipe>(y.mixer);
      EXPECT_EQ(p->window, q.window) << i;
      EXPECT_FLOAT_EQ(p->scale, q.scale) << i;
      EXPECT_EQ(p->gated, q.gated) << i;
      EXPECT_EQ(p->norm_span, q.norm_span) << i;
      rope_a = p->rope;
      rope_b = q.rope;
    } else if (const auto* latent = std::get_if<LatentAttentionRecipe>(&x.mixer)) {
      const auto& q = std::get<LatentAttentionRecipe>(y.mixer);
      EXPECT_FLOAT_EQ(latent->scale, q.scale) << i;
      EXPECT_EQ(latent->nope_dims, q.nope_dims) << i;
      EXPECT_EQ(latent->kv_a_norm.eps, q.kv_a_norm.eps) << i;
      EXPECT_EQ(latent->indexer.has_value(), q.indexer.has_value()) << i;
      if (latent->indexer) {
        EXPECT_EQ(a.ropes[size_t(latent->indexer->rope)].pairing,
                  b.ropes[size_t(q.indexer->rope)].pairing);
      }
      rope_a = latent->rope;
      rope_b = q.rope;
    }
    ASSERT_EQ(rope_a < 0, rope_b < 0) << i;
    if (rope_a >= 0) {
      const RopeRecipe& r = a.ropes[size_t(rope_a)];
      const RopeRecipe& s = b.ropes[size_t(rope_b)];
      EXPECT_EQ(r.rotary_dims, s.rotary_dims) << i;
      EXPECT_EQ(r.pairing, s.pairing) << i;
      EXPECT_FLOAT_EQ(float(r.theta), float(s.theta)) << i;
      EXPECT_FLOAT_EQ(r.attention_factor, s.attention_factor) << i;
      EXPECT_EQ(r.truncate, s.truncate) << i;
    }
    if (const auto* e = std::get_if<ExpertsRecipe>(&x.ffn)) {
      const auto& f = std::get<ExpertsRecipe>(y.ffn);
      EXPECT_EQ(e->routing.score, f.routing.score) << i;
      EXPECT_EQ(e->routing.n_used, f.routing.n_used) << i;
      EXPECT_EQ(e->routing.n_groups, f.routing.n_groups) << i;
      EXPECT_EQ(e->routing.n_groups_used, f.routing.n_groups_used) << i;
      EXPECT_EQ(e->routing.normalise, f.routing.normalise) << i;
      EXPECT_EQ(e->routing.normalise_eps, f.routing.normalise_eps) << i;
      EXPECT_FLOAT_EQ(e->routing.scale, f.routing.scale) << i;
      EXPECT_EQ(e->activation.limit, f.activation.limit) << i;
      EXPECT_EQ(e->shared.has_value(), f.shared.has_value()) << i;
      EXPECT_EQ(e->shared_gate.has_value(), f.shared_gate.has_value()) << i;
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, entry] : fixture_listing().items()) out.push_back(name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Derive, EveryFixture, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ingot
