// Every scheme among safetensors: values bit for bit those of reference/stored_quant.py
// (tests/tools/make_stored_quant_golden.py), and a refusal for each rule.
#include "formats/stored_quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <numeric>

#include "base/half.h"
#include "formats/expect_refused.h"
#include "formats/stored_quant_testing.h"
#include "tensor/golden.h"

namespace ingot {
namespace {

const GoldenFile& golden() {
  static const GoldenFile file("stored_quant_golden.safetensors");
  return file;
}

DType dtype_of(const std::string& name) {
  static const std::map<std::string, DType> types = {
      {"F32", DType::f32}, {"F16", DType::f16},         {"BF16", DType::bf16},
      {"I8", DType::i8},   {"I32", DType::i32},         {"I64", DType::i64},
      {"U8", DType::u8},   {"F8_E4M3", DType::f8_e4m3}, {"F8_E8M0", DType::f8_e8m0}};
  return types.at(name);
}

// A case of the golden file.
struct Case {
  explicit Case(const std::string& name) {
    for (const std::string& key : golden().names()) {
      if (!key.starts_with(name + "/")) continue;
      std::string rest = key.substr(name.size() + 1);
      const auto bytes = golden().bytes(key);
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (rest == "config") {
        config = text;
      } else if (rest.starts_with("=")) {
        values[rest.substr(1)] = golden().floats(key);
      } else {
        std::string type = golden().dtype(key);
        if (const size_t colon = rest.find(':'); colon != std::string::npos) {
          type = rest.substr(colon + 1);
          rest.resize(colon);
        }
        tensors[rest] = {dtype_of(type), golden().shape(key), text};
      }
    }
  }
  TestTensors tensors;
  std::string config;
  std::map<std::string, std::vector<float>> values;
};

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const std::string& key : golden().names())
    if (key.ends_with("/config")) names.push_back(key.substr(0, key.find('/')));
  return names;
}

void expect_same_bits(const std::vector<float>& found, const float* wanted,
                      const std::string& what) {
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(wanted[i]))
        << what << " value " << i << ": found " << found[i] << ", wanted " << wanted[i];
}

class StoredQuantValues : public testing::TestWithParam<std::string> {};

// The whole stack, slice by slice, and odd rows backwards; from one file and from two.
TEST_P(StoredQuantValues, EqualTheReferenceBitForBit) {
  const Case c(GetParam());
  ASSERT_FALSE(c.values.empty());
  for (const bool sharded : {false, true}) {
    const TestModel model(c.tensors, c.config, sharded);
    const StoredQuantization quantised(model.checkpoint());
    for (const auto& [weight, values] : c.values) {
      const StoredWeight* stored = quantised.find(weight);
      ASSERT_NE(stored, nullptr) << weight;
      const auto n_cols = size_t(stored->n_cols);
      const size_t slice_size = size_t(stored->n_rows) * n_cols;
      ASSERT_EQ(values.size(), size_t(stored->n_slices) * slice_size);
      expect_same_bits(dequantize_affine(quantised.read(weight).matrix), values.data(),
                       "whole");
      for (int slice = 0; slice < stored->n_slices; ++slice) {
        const float* wanted = values.data() + size_t(slice) * slice_size;
        expect_same_bits(dequantize_affine(quantised.read(weight, slice).matrix), wanted,
                         "slice " + std::to_string(slice));
        std::vector<int> rows;
        for (int row = stored->n_rows - 1; row >= 0; row -= 2) rows.push_back(row);
        const StoredMatrix some = quantised.read(weight, slice, rows);
        for (size_t i = 0; i < rows.size(); ++i) {
          std::vector<float> row(n_cols);
          dequantize_affine_row(some.matrix, int(i), row);
          expect_same_bits(row, wanted + size_t(rows[i]) * n_cols,
                           "row " + std::to_string(rows[i]));
        }
      }
    }
  }
}

TEST_P(StoredQuantValues, EveryTensorBelongsToAWeight) {
  const Case c(GetParam());
  const TestModel model(c.tensors, c.config);
  const StoredQuantization quantised(model.checkpoint());
  size_t n = 0;
  for (const auto& [weight, stored] : quantised.weights()) {
    for (const std::string& tensor : quantised.tensors_of(weight))
      EXPECT_TRUE(c.tensors.contains(tensor)) << tensor;
    n += stored.tensors.size();
  }
  EXPECT_EQ(n, c.tensors.size());
}

// Losing a companion, wrong dimensions, wrong types: never a wrong value.
TEST_P(StoredQuantValues, WithoutACompanionAreRefused) {
  const Case c(GetParam());
  for (const auto& [name, tensor] : c.tensors) {
    if (name.ends_with("input_scale") || name.ends_with("g_idx")) continue;
    TestTensors without = c.tensors;
    without.erase(name);
    const TestModel model(without, c.config);
    if (name.ends_with(".weight") || name.ends_with(".weight_packed")) continue;
    expect_refused("without " + name,
                   [&] { StoredQuantization quantised(model.checkpoint()); },
                   {"model.safetensors", "tensor 'm.", "wanted", "(QC-"});
  }
}

// A longer tensor is refused, or (FP8 inside its last rectangle, one group for all) makes
// a weight of another size, which the recipe refuses.
TEST_P(StoredQuantValues, OfAnotherShapeAreRefused) {
  const Case c(GetParam());
  const std::string weight = c.values.begin()->first;
  const size_t n_values = c.values.begin()->second.size();
  for (const auto& [name, tensor] : c.tensors) {
    if (tensor.shape.empty() || name.ends_with("input_scale")) continue;
    TestTensors longer = c.tensors;
    TestTensor& t = longer[name];
    t.bytes += t.bytes.substr(0, t.bytes.size() / size_t(t.shape[0]));
    ++t.shape[0];
    const TestModel model(longer, c.config);
    try {
      const StoredQuantization quantised(model.checkpoint());
      const StoredWeight& w = *quantised.find(weight);
      EXPECT_NE(size_t(w.n_slices) * size_t(w.n_rows) * size_t(w.n_cols), n_values)
          << "longer " << name;
    } catch (const Error& error) {
      const std::string message = error.what();
      for (const char* word : {"model.safetensors", "tensor 'm.", "wanted", "(QC-"})
        EXPECT_NE(message.find(word), std::string::npos) << name << ": " << message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StoredQuantValues, testing::ValuesIn(case_names()),
                         [](const auto& info) { return info.param; });

// ---- Refusals by value --------------------------------------------------------------

void read_all(const TestTensors& tensors, std::string_view config) {
  const TestModel model(tensors, config);
  const StoredQuantization quantised(model.checkpoint());
  for (const auto& [weight, stored] : quantised.weights()) quantised.read(weight);
}

void put(TestTensor& t, size_t i, const std::string& element) {
  t.bytes.replace(i * element.size(), element.size(), element);
}

TEST(StoredQuantization, RefusesNaNCodes) {
  for (const char code : {'\x7f', '\xff'}) {
    Case c("fp8_grid_f32");
    c.tensors["m.weight"].bytes[5 * 72 + 7] = code;
    expect_refused("NaN code", [&] { read_all(c.tensors, c.config); },
                   {"'m.weight'", "value 7 of row 5 is NaN"});
  }
}

TEST(StoredQuantization, RefusesScalesThatAreNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  Case fp8("fp8_grid_f32");
  put(fp8.tensors["m.weight_scale_inv"], 4, le(inf));
  expect_refused("inf", [&] { read_all(fp8.tensors, fp8.config); },
                 {"'m.weight_scale_inv'", "scale 4", "(QC-6)"});
  Case e8m0("fp8_rows_of_32_e8m0");
  put(e8m0.tensors["m.weight_scale_inv"], 3, "\xff");
  expect_refused("E8M0 NaN", [&] { read_all(e8m0.tensors, e8m0.config); },
                 {"scale 3", "(QC-6)"});
  Case mx("mxfp4_experts");
  put(mx.tensors["m.gate_up_proj_scales"], 59, "\xff");
  expect_refused("MXFP4", [&] { read_all(mx.tensors, mx.config); },
                 {"'m.gate_up_proj_scales'", "scale 59", "(QC-6)"});
  for (const char* name : {"gptq_4_v1", "awq_gemm"}) {
    Case c(name);
    put(c.tensors["m.scales"], 50, le(f32_to_f16(inf)));
    expect_refused(name, [&] { read_all(c.tensors, c.config); },
                   {"'m.scales'", "scale 50", "(QC-6)"});
  }
  Case packed("ct_pack_4");
  put(packed.tensors["m.weight_scale"], 2, le(f32_to_bf16(inf)));
  expect_refused("packed", [&] { read_all(packed.tensors, packed.config); },
                 {"'m.weight_scale'", "scale 2", "(QC-6)"});
}

TEST(StoredQuantization, RefusesGroupsOutOfRange) {
  for (const int32_t group : {-1, 3, 1 << 30}) {
    Case c("gptq_4_v2_act_order");
    put(c.tensors["m.g_idx"], 11, le(group));
    expect_refused("g_idx", [&] { read_all(c.tensors, c.config); },
                   {"'m.g_idx'", "value 11 is " + std::to_string(group), "[0, 3)"});
  }
  Case c("ct_pack_4_act_order");
  put(c.tensors["m.weight_g_idx"], 0, le(int32_t{3}));
  expect_refused("weight_g_idx", [&] { read_all(c.tensors, c.config); },
                 {"'m.weight_g_idx'", "value 0 is 3"});
}

TEST(StoredQuantization, RefusesModulesSaidToBePlain) {  // QC-3
  Case c("fp8_grid_f32");
  c.config.insert(c.config.rfind("}}"), R"(, "modules_to_not_convert": ["m"])");
  expect_refused("QC-3", [&] { read_all(c.tensors, c.config); },
                 {"'m.weight'", "lists 'm' as not converted", "(QC-3)"});
}

TEST(StoredQuantization, RefusesAnotherGroupSize) {  // QC-5
  Case c("gptq_4_v1");
  c.config.replace(c.config.find("\"group_size\": 32"), 16, "\"group_size\": 48");
  expect_refused("QC-5", [&] { read_all(c.tensors, c.config); },
                 {"'m.scales'", "3 groups for 96 inputs", "groups of 48"});
  Case whole("awq_gemm");
  whole.config.replace(whole.config.find("\"group_size\": 32"), 16, "\"group_size\": -1");
  expect_refused("QC-4", [&] { read_all(whole.tensors, whole.config); },
                 {"'m.scales'", "one group of the whole row"});
}

TEST(StoredQuantization, RefusesTwoFormsOfOneWeight) {
  Case c("awq_gemm");
  c.tensors["m.weight"] = filled(DType::f16, {40, 96}, le(uint16_t{0}));
  expect_refused("both", [&] { read_all(c.tensors, c.config); },
                 {"'m.qweight'", "'m.weight' is there too"});
  Case fp8("fp8_grid_f32");
  fp8.tensors["m.weight_scale"] = filled(DType::f32, {1}, le(1.0f));
  expect_refused("two scales", [&] { read_all(fp8.tensors, fp8.config); },
                 {"'m.weight'", "'m.weight_scale_inv'", "'m.weight_scale'"});
}

TEST(StoredQuantization, RefusesFp8ThatTheConfigIsSilentAbout) {
  const TestTensors lonely = {{"m.weight", filled(DType::f8_e4m3, {4, 8}, "\x38")}};
  expect_refused("no scale", [&] { read_all(lonely, "{}"); },
                 {"'m.weight'", "has no 'm.weight_scale_inv'", "(QC-1)"});
  TestTensors other = {{"m.weight", filled(DType::f8_e5m2, {4, 8}, "\x38")},
                       {"m.weight_scale", filled(DType::f32, {1}, le(1.0f))}};
  expect_refused("e5m2", [&] { read_all(other, "{}"); },
                 {"'m.weight'", "f8_e5m2", "wanted f8_e4m3"});
}

// ---- What the config need not say ---------------------------------------------------

TEST(StoredQuantization, NamesAndShapesTellWithoutAConfig) {
  for (const char* name : {"gptq_3_v1", "awq_gemm", "fp8_channel", "mxfp4_experts"}) {
    const Case c(name);
    const TestModel model(c.tensors, "");
    const StoredQuantization quantised(model.checkpoint());
    for (const auto& [weight, values] : c.values)
      expect_same_bits(dequantize_affine(quantised.read(weight).matrix), values.data(),
                       name);
  }
}

TEST(StoredQuantization, ReadsQuantizeConfigBesideTheWeights) {
  const Case c("gptq_4_v2_act_order");
  const TestModel model(
      c.tensors, R"({"model_type":"x"})", false,
      {{"quantize_config.json",
        R"({"bits":4,"group_size":32,"checkpoint_format":"gptq_v2"})"}});
  const StoredQuantization quantised(model.checkpoint());
  expect_same_bits(dequantize_affine(quantised.read("m.weight").matrix),
                   c.values.at("m.weight").data(), "v2");
}

TEST(StoredQuantization, RefusesModelOptByName) {
  const Case c("fp8_channel");
  const TestModel model(c.tensors, "{}", false, {{"hf_quant_config.json", "{}"}});
  expect_refused("ModelOpt", [&] { StoredQuantization quantised(model.checkpoint()); },
                 {"hf_quant_config.json", "ModelOpt"});
}

TEST(StoredQuantization, ReadsMlxThroughTheSameLookup) {
  const TestTensors tensors = {
      {"m.weight", filled(DType::u32, {3, 2, 8}, le(uint32_t{0x76543210}))},
      {"m.scales", filled(DType::f32, {3, 2, 1}, le(0.5f))},
      {"m.biases", filled(DType::f32, {3, 2, 1}, le(-1.0f))},
      {"plain.weight", filled(DType::f32, {2, 2}, le(1.0f))}};
  const TestModel model(tensors, R"({"quantization":{"group_size":64,"bits":4}})");
  const StoredQuantization quantised(model.checkpoint());
  EXPECT_EQ(quantised.find("plain.weight"), nullptr);
  const StoredWeight* stored = quantised.find("m.weight");
  ASSERT_NE(stored, nullptr);
  EXPECT_EQ(stored->n_slices, 3);
  EXPECT_EQ(stored->n_rows, 2);
  EXPECT_EQ(stored->n_cols, 64);
  const std::vector<float> values =
      dequantize_affine(quantised.read("m.weight", 2).matrix);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], 0.5f * float(i % 8) - 1.0f);
}

TEST(StoredQuantization, HasWeightKnowsPackedNames) {
  for (const std::string& name : case_names()) {
    const Case c(name);
    const TestModel model(c.tensors, c.config);
    for (const auto& [weight, values] : c.values)
      EXPECT_TRUE(has_weight(model.checkpoint(), weight)) << name;
    EXPECT_FALSE(has_weight(model.checkpoint(), "n.weight"));
    EXPECT_FALSE(has_weight(model.checkpoint(), "m"));
  }
}

TEST(StoredQuantization, UnquantisedCheckpointsAreEmpty) {
  const TestModel model({{"m.weight", filled(DType::f32, {2, 2}, le(1.0f))}}, "{}");
  EXPECT_TRUE(StoredQuantization(model.checkpoint()).empty());
}

}  // namespace
}  // namespace ingot
