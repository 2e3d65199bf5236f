// formats.md 4: which modules are quantised and how, on directories as MLX writes them.
#include "formats/mlx_quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>
#include <vector>

#include "base/half.h"
#include "formats/expect_refused.h"
#include "formats/test_files.h"
#include "tensor/golden.h"

namespace ingot {
namespace {

struct Stored {
  DType dtype;
  Shape shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Stored>;

// The checkpoint of a directory with these tensors and this config.json.
class Model {
 public:
  Model(const Tensors& tensors, std::string_view config) {
    std::vector<SafetensorsWriteEntry> entries;
    for (const auto& [name, t] : tensors)
      entries.push_back({name, {t.dtype, t.shape, as_bytes(t.bytes)}});
    write_safetensors(directory_.path() / "model.safetensors", entries,
                      {{"format", "mlx"}});
    directory_.write("config.json", config);
    checkpoint_ = open_checkpoint(directory_.path());
  }
  const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  TemporaryDirectory directory_;
  Checkpoint checkpoint_;
};

std::string zeros(size_t n) { return std::string(n, '\0'); }

// A module of `rows` x 256 with these bits and group, all codes and scales zero.
Tensors module(int rows, int bits, int group, DType scales = DType::f16) {
  const int64_t words = 256 * bits / 32;
  const int64_t groups = 256 / group;
  const size_t scale_bytes = size_t(rows * groups) * size_t(info(scales).group_bytes);
  return {{"m.weight", {DType::u32, {rows, words}, zeros(size_t(rows * words * 4))}},
          {"m.scales", {scales, {rows, groups}, zeros(scale_bytes)}},
          {"m.biases", {scales, {rows, groups}, zeros(scale_bytes)}}};
}

std::string config(std::string_view fields) {
  return "{\"model_type\":\"x\",\"quantization\":{" + std::string(fields) + "}}";
}
constexpr char k4Bits64[] = R"("group_size":64,"bits":4)";

std::optional<AffineMatrix> find(const Tensors& tensors, std::string_view config_json) {
  const Model model(tensors, config_json);
  return MlxQuantization(model.checkpoint()).find("m.weight");
}

TEST(MlxQuantization, FindsEveryScheme) {
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) {
      const std::string fields =
          "\"group_size\":" + std::to_string(group) + ",\"bits\":" + std::to_string(bits);
      const auto m = find(module(3, bits, group, DType::bf16), config(fields));
      ASSERT_TRUE(m);
      EXPECT_EQ(m->bits, bits);
      EXPECT_EQ(m->group_size, group);
      EXPECT_EQ(m->n_rows, 3);
      EXPECT_EQ(m->n_cols, 256);
      EXPECT_EQ(m->scale_dtype, DType::bf16);
      EXPECT_EQ(m->mode, AffineMode::affine);
    }
  }
}

TEST(MlxQuantization, FindsFloatModes) {
  struct Case {
    const char* mode;
    AffineMode wanted;
    int bits;
    int group;
  };
  for (const Case& c :
       {Case{"mxfp4", AffineMode::mxfp4, 4, 32}, Case{"mxfp8", AffineMode::mxfp8, 8, 32},
        Case{"nvfp4", AffineMode::nvfp4, 4, 16}}) {
    Tensors tensors = module(2, c.bits, c.group, DType::u8);
    tensors.erase("m.biases");
    const auto m =
        find(tensors, config("\"mode\":\"" + std::string(c.mode) + "\""));  // defaults
    ASSERT_TRUE(m) << c.mode;
    EXPECT_EQ(m->mode, c.wanted);
    EXPECT_EQ(m->group_size, c.group);
    EXPECT_TRUE(m->biases.empty());
    EXPECT_TRUE(find(tensors, "{}")) << "MX-7: a float mode's shapes tell it";
  }
}

TEST(MlxQuantization, HonoursOverridesAndPlainModules) {
  Tensors tensors = module(2, 6, 64);
  tensors["plain.weight"] = {DType::f32, {2, 8}, zeros(64)};
  const std::string text =
      config(std::string(k4Bits64) + R"(,"m":{"group_size":64,"bits":6},"plain":false)");
  const Model model(tensors, text);
  const MlxQuantization mlx(model.checkpoint());
  ASSERT_TRUE(mlx.find("m.weight"));
  EXPECT_EQ(mlx.find("m.weight")->bits, 6);
  EXPECT_FALSE(mlx.find("plain.weight"));
  EXPECT_FALSE(mlx.find("absent.weight"));
  EXPECT_EQ(mlx.tensors_of("m.weight"),
            (std::vector<std::string>{"m.weight", "m.scales", "m.biases"}));
  EXPECT_TRUE(mlx.tensors_of("plain.weight").empty());
  // Under text_config, and with `true` for the global setting.
  EXPECT_TRUE(
      find(module(2, 4, 64),
           R"({"text_config":)" + config(std::string(k4Bits64) + R"(,"m":true)") + "}"));
}

TEST(MlxQuantization, InfersWhatConfigGetsWrongWhenUnique) {     // MX-7
  EXPECT_EQ(find(module(2, 5, 32), config(k4Bits64))->bits, 5);  // 5 x 32 = 160: one way
  EXPECT_EQ(find(module(2, 3, 32), "{}")->bits, 3);
  expect_refused("ambiguous", [] { find(module(2, 4, 64), "{}"); },
                 {"'m.weight'", "(MX-7)"});
}

TEST(MlxQuantization, StackedExpertsAreOneMatrix) {
  const Tensors tensors = {{"m.weight", {DType::u32, {3, 2, 8}, zeros(192)}},
                           {"m.scales", {DType::f32, {3, 2, 1}, zeros(24)}},
                           {"m.biases", {DType::f32, {3, 2, 1}, zeros(24)}}};
  const auto m = find(tensors, config(k4Bits64));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->n_rows, 6);
  EXPECT_EQ(m->n_cols, 64);
}

struct Refusal {
  const char* what;
  Tensors tensors;
  std::string config;
  std::vector<std::string> words;
};

Tensors with(Tensors tensors, const std::string& name, Stored stored) {
  tensors[name] = std::move(stored);
  return tensors;
}
Tensors without(Tensors tensors, const std::string& name) {
  tensors.erase(name);
  return tensors;
}

TEST(MlxQuantization, RefusesContradictions) {
  const Tensors good = module(2, 4, 64);
  const std::string text = config(k4Bits64);
  Tensors nan_scale = good;
  nan_scale["m.scales"].bytes.replace(6, 2, le(uint16_t(0x7e00)));
  Tensors infinite_bias = good;
  infinite_bias["m.biases"].bytes.replace(0, 2, le(uint16_t(0xfc00)));
  Tensors mx = without(module(2, 4, 32, DType::u8), "m.biases");
  Tensors mx_nan = mx;
  mx_nan["m.scales"].bytes[3] = '\xff';
  Tensors mx8_nan = without(module(2, 8, 32, DType::u8), "m.biases");
  mx8_nan["m.weight"].bytes[5] = '\x7f';
  const std::vector<Refusal> cases = {
      {"words do not fit",
       with(good, "m.weight", {DType::u32, {2, 31}, zeros(248)}),
       text,
       {"'m.weight'", "[2, 31]", "(MX-1)"}},
      {"other rows",
       with(good, "m.scales", {DType::f16, {1, 4}, zeros(8)}),
       text,
       {"(MX-2)"}},
      {"other biases",
       with(good, "m.biases", {DType::f16, {2, 3}, zeros(12)}),
       text,
       {"(MX-2)"}},
      {"other bias type",
       with(good, "m.biases", {DType::bf16, {2, 4}, zeros(16)}),
       text,
       {"(MX-2)"}},
      {"vectors",
       {{"m.weight", {DType::u32, {8}, zeros(32)}},
        {"m.scales", {DType::f16, {1}, zeros(2)}},
        {"m.biases", {DType::f16, {1}, zeros(2)}}},
       text,
       {"(MX-2)"}},
      {"no biases", without(good, "m.biases"), text, {"(MX-1)"}},
      {"biases in a float mode",
       with(mx, "m.biases", {DType::u8, {2, 8}, zeros(16)}),
       config(R"("mode":"mxfp4")"),
       {"(MX-1)"}},
      {"7 bits", good, config(R"("group_size":64,"bits":7)"), {"7 bits", "(MX-3)"}},
      {"group 48", good, config(R"("group_size":48,"bits":4)"), {"(MX-3)"}},
      {"unknown mode", good, config(R"("mode":"kquant")"), {"'kquant'", "(MX-3)"}},
      {"bits -4", good, config(R"("group_size":64,"bits":-4)"), {"-4", "(MX-3)"}},
      {"bits 4.0", good, config(R"("group_size":64,"bits":4.0)"), {"(MX-3)"}},
      {"mode number", good, config(R"("mode":4)"), {"(MX-3)"}},
      {"override is a string",
       good,
       config(std::string(k4Bits64) + R"(,"m":"yes")"),
       {"'m'"}},
      {"said to be plain",
       good,
       config(std::string(k4Bits64) + R"(,"m":false)"),
       {"(MX-7)"}},
      {"quantization is a list", good, R"({"quantization":[4]})", {"'quantization'"}},
      {"NaN scale", nan_scale, text, {"'m.weight'", "scale 3", "(MX-5)"}},
      {"infinite bias", infinite_bias, text, {"bias 0", "(MX-5)"}},
      {"E8M0 NaN", mx_nan, config(R"("mode":"mxfp4")"), {"scale 3", "(MX-5)"}},
      {"E4M3 NaN", mx8_nan, config(R"("mode":"mxfp8")"), {"code 5", "(MX-5)"}},
      {"scales alone", without(good, "m.weight"), text, {"missing", "(MX-6)"}},
      {"float weight",
       with(good, "m.weight", {DType::f32, {2, 8}, zeros(64)}),
       text,
       {"f32", "(MX-6)"}},
  };
  for (const Refusal& c : cases)
    expect_refused(
        c.what, [&] { find(c.tensors, c.config); }, c.words);
}

// MLX's own tensors and values, through a file (tests/tools/make_quant_golden.py).
TEST(MlxQuantization, GivesMlxsValuesThroughAFile) {
  const GoldenFile golden("quant_golden.safetensors");
  const auto stored = [&](const std::string& name, DType type) {
    const auto bytes = golden.bytes(name);
    return Stored{type, golden.shape(name),
                  std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
  };
  const std::string key = "mlx_affine.b5.g64.f16.";
  const Tensors tensors = {{"m.weight", stored(key + "weight", DType::u32)},
                           {"m.scales", stored(key + "scales", DType::f16)},
                           {"m.biases", stored(key + "biases", DType::f16)}};
  const Model model(tensors, config(R"("group_size":64,"bits":5)"));
  const auto m = MlxQuantization(model.checkpoint()).find("m.weight");
  ASSERT_TRUE(m);
  const std::vector<float> wanted = golden.floats(key + "values");
  std::vector<float> row(size_t(m->n_cols));
  for (int r = 0; r < m->n_rows; ++r) {
    dequantize_affine_row(*m, r, row);
    for (size_t i = 0; i < row.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(row[i]),
                std::bit_cast<uint32_t>(wanted[size_t(r) * row.size() + i]));
  }
}

}  // namespace
}  // namespace ingot
