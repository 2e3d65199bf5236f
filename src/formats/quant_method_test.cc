// Which quantization_config is read, and by what name the others are refused.
#include "formats/quant_method.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/expect_refused.h"

namespace ingot {
namespace {

using nlohmann::json;

QuantConfig read(const std::string& fields) {
  return read_quant_config(json::parse(R"({"quantization_config":{)" + fields + "}}"),
                           "DIR/config.json: ");
}

TEST(QuantMethod, ReadsWhatEachMethodStates) {
  const QuantConfig gptq = read(
      R"("quant_method":"gptq","bits":3,"group_size":-1,"sym":true,
         "checkpoint_format":"gptq_v2")");
  EXPECT_EQ(gptq.method, QuantMethod::gptq);
  EXPECT_EQ(gptq.bits, 3);
  EXPECT_EQ(gptq.group_size, -1);
  EXPECT_EQ(gptq.gptq_version, 2);
  EXPECT_TRUE(gptq.symmetric);
  const QuantConfig awq = read(
      R"("quant_method":"AWQ","w_bit":4,"q_group_size":64,"zero_point":true,
         "version":"GEMM","modules_to_not_convert":["gate"])");
  EXPECT_EQ(awq.method, QuantMethod::awq);
  EXPECT_EQ(awq.group_size, 64);
  EXPECT_EQ(awq.not_converted, std::vector<std::string>{"gate"});
  const QuantConfig fp8 = read(
      R"("quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",
         "weight_block_size":[128,64],"modules_to_not_convert":null)");
  EXPECT_EQ(fp8.method, QuantMethod::fp8);
  EXPECT_EQ(fp8.block_rows, 128);
  EXPECT_EQ(fp8.block_cols, 64);
  EXPECT_EQ(read(R"("quant_method":"mxfp4")").method, QuantMethod::mxfp4);
  EXPECT_EQ(read_quant_config(json::object(), "").method, QuantMethod::none);
  EXPECT_EQ(read_quant_config(json::parse(R"({"quantization":{"bits":4},
                              "quantization_config":{"bits":4}})"),
                              "")
                .method,
            QuantMethod::mlx);
}

TEST(QuantMethod, RefusesOtherMethodsByName) {
  for (const char* method : {"bitnet", "aqlm", "quip", "hqq", "eetq", "torchao", "higgs",
                             "spqr", "vptq", "bitsandbytes", "modelopt", "fbgemm_fp8"})
    expect_refused(method,
                   [&] { read("\"quant_method\":\"" + std::string(method) + "\""); },
                   {"DIR/config.json: ", "'quantization_config.quant_method'",
                    "'" + std::string(method) + "'", "wanted fp8, gptq"});
}

struct Refusal {
  const char* fields;
  std::vector<std::string> words;
};

TEST(QuantMethod, RefusesOptionsThatChangeTheTensors) {
  const Refusal refusals[] = {
      {R"("bits":4)", {"quant_method' is missing"}},
      {R"("quant_method":7)", {"quant_method' is 7"}},
      {R"("quant_method":"gptq","bits":5)", {"quantization_config.bits' is 5"}},
      {R"("quant_method":"gptq","bits":"4")", {"bits'", "wanted 2, 3, 4 or 8"}},
      {R"("quant_method":"gptq","bits":99999999999999999999)", {"bits'"}},
      {R"("quant_method":"gptq","bits":4,"group_size":0)", {"group_size' is 0"}},
      {R"("quant_method":"gptq","bits":4,"group_size":-2)", {"group_size' is -2"}},
      {R"("quant_method":"gptq","checkpoint_format":"marlin")",
       {"checkpoint_format' is 'marlin'", "gptq or gptq_v2"}},
      {R"("quant_method":"gptq","is_marlin_format":true)", {"is_marlin_format'"}},
      {R"("quant_method":"gptq","pack_dtype":"int64")", {"pack_dtype' is 'int64'"}},
      {R"("quant_method":"awq","bits":8)", {"bits' is 8", "wanted 4"}},
      {R"("quant_method":"awq","version":"gemv")", {"version' is 'gemv'", "wanted gemm"}},
      {R"("quant_method":"awq","zero_point":false)", {"zero_point'"}},
      {R"("quant_method":"fp8","fmt":"e5m2")", {"fmt' is 'e5m2'"}},
      {R"("quant_method":"fp8","weight_block_size":[128])", {"weight_block_size'"}},
      {R"("quant_method":"fp8","weight_block_size":[0,128])", {"weight_block_size'"}},
      {R"("quant_method":"fp8","modules_to_not_convert":"lm_head")",
       {"modules_to_not_convert'"}},
      {R"("quant_method":"compressed-tensors","format":"marlin-24","config_groups":{})",
       {"format' is 'marlin-24'"}},
      {R"("quant_method":"compressed-tensors","format":"nvfp4-pack-quantized")",
       {"format' is 'nvfp4-pack-quantized'"}},
      {R"("quant_method":"compressed-tensors","format":"pack-quantized")",
       {"config_groups' is missing"}},
      {R"("quant_method":"compressed-tensors","format":"pack-quantized",
          "config_groups":{"g":{}})",
       {"config_groups.g.weights' is missing"}},
      {R"("quant_method":"compressed-tensors","format":"pack-quantized",
          "config_groups":{"g":{"weights":{"num_bits":1}}})",
       {"config_groups.g.weights.num_bits' is 1"}},
      {R"("quant_method":"compressed-tensors","format":"float-quantized",
          "config_groups":{"g":{"weights":{"num_bits":4,"type":"float"}}})",
       {"num_bits' is 4"}},
  };
  for (const Refusal& r : refusals)
    expect_refused(
        r.fields, [&] { read(r.fields); }, r.words);
  expect_refused(
      "an array",
      [] { read_quant_config(json::parse(R"({"quantization_config":[]})"), "F: "); },
      {"F: field 'quantization_config' is an array"});
}

TEST(QuantMethod, ReadsQuantizeConfig) {
  EXPECT_EQ(read_quantize_config(json::parse(R"({"bits":4})"), "F: ").method,
            QuantMethod::gptq);
  EXPECT_EQ(read_quantize_config(json::parse(R"({"zero_point":true})"), "F: ").method,
            QuantMethod::awq);
  expect_refused("bits",
                 [] { read_quantize_config(json::parse(R"({"bits":5})"), "F: "); },
                 {"F: field 'bits' is 5"});
}

}  // namespace
}  // namespace ingot
