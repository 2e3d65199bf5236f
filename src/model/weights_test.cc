// Names to tensors: what is missing, misshapen or left over is told by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/tiny_model.h"

namespace ingot {
namespace {

using ::testing::HasSubstr;

std::string load_error(TinyCheckpoint& tiny) {
  const std::unique_ptr<Ops> ops = make_cpu_ops({});
  try {
    load_model(tiny.checkpoint, derive_recipe(tiny.checkpoint), *ops, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "loaded";
}

TEST(Weights, LoadsAndReportsProgressToTheEnd) {
  TinyCheckpoint tiny = tiny_checkpoint(1);
  const std::unique_ptr<Ops> ops = make_cpu_ops({});
  uint64_t last = 0;
  uint64_t whole = 0;
  const auto model =
      load_model(tiny.checkpoint, derive_recipe(tiny.checkpoint), *ops,
                 {.context = 0, .progress = [&](uint64_t done, uint64_t total) {
                    EXPECT_GE(done, last);
                    last = done;
                    whole = total;
                  }});
  EXPECT_EQ(last, whole);
  EXPECT_EQ(model->layers.size(), 3u);
}

TEST(Weights, MissingTensorIsNamed) {
  TinyCheckpoint tiny = tiny_checkpoint(1);
  tiny.checkpoint.tensors.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_THAT(load_error(tiny), HasSubstr("model.layers.1.mlp.up_proj.weight"));
}

TEST(Weights, WrongShapeIsToldWithBothShapes) {
  TinyCheckpoint tiny = tiny_checkpoint(1);
  tiny.checkpoint.tensors["model.layers.2.self_attn.k_proj.weight"].view.shape = {32,
                                                                                  128};
  EXPECT_THAT(load_error(tiny),
              testing::AllOf(HasSubstr("layers.2.self_attn.k_proj.weight"),
                             HasSubstr("[32, 128]"), HasSubstr("[64, 64]")));
}

TEST(Weights, ABiasTheConfigDoesNotSpeakOfIsRefused) {
  TinyCheckpoint tiny = tiny_checkpoint(1);
  std::mt19937 random(2);
  tiny.add("model.layers.0.self_attn.q_proj.bias", {128}, random);
  EXPECT_THAT(load_error(tiny), HasSubstr("model.layers.0.self_attn.q_proj.bias"));
}

TEST(Weights, ALayerTooManyIsRefused) {
  TinyCheckpoint tiny = tiny_checkpoint(1);
  std::mt19937 random(2);
  tiny.add("model.layers.3.input_layernorm.weight", {64}, random);
  EXPECT_THAT(load_error(tiny), HasSubstr("model.layers.3.input_layernorm.weight"));
}

TEST(Weights, LeftoversOfOldExportersAndTiedHeadsAreTaken) {
  TinyCheckpoint tiny = tiny_checkpoint(1);
  std::mt19937 random(2);
  tiny.add("model.layers.0.self_attn.rotary_emb.inv_freq", {16}, random);
  tiny.add("lm_head.weight", {97, 64}, random);  // tied: the embedding counts
  EXPECT_EQ(load_error(tiny), "loaded");
}

TEST(Weights, ValuesMustBeFinite) {
  TinyCheckpoint norm = tiny_checkpoint(1);
  norm.values("model.layers.1.input_layernorm.weight")[5] = NAN;
  EXPECT_THAT(
      load_error(norm),
      testing::AllOf(HasSubstr("layers.1.input_layernorm.weight"), HasSubstr("value 5")));
  TinyCheckpoint matrix = tiny_checkpoint(1);
  matrix.values("model.layers.2.mlp.up_proj.weight")[7] = INFINITY;
  EXPECT_THAT(load_error(matrix), testing::AllOf(HasSubstr("layers.2.mlp.up_proj.weight"),
                                                 HasSubstr("value 7")));
}

TEST(Weights, IntegerTensorsAreNoWeights) {
  TinyCheckpoint tiny = tiny_checkpoint(1);
  tiny.checkpoint.tensors["model.layers.0.mlp.down_proj.weight"].view.dtype = DType::i32;
  EXPECT_THAT(load_error(tiny), testing::AllOf(HasSubstr("down_proj"), HasSubstr("i32")));
}

}  // namespace
}  // namespace ingot
