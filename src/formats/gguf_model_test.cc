// formats.md 2.5 and the metadata part of 2.10, and split files (2.3), through files on
// disk as a user would open them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/check_values.h"
#include "formats/checkpoint.h"
#include "formats/expect_refused.h"
#include "formats/test_files.h"

namespace ingot {
namespace {

constexpr uint32_t kF32 = 0;

// A model of 2 layers, 8 heads and 3 tokens; tests replace or add pairs.
std::vector<std::string> base_pairs() {
  return {kv_string("general.architecture", "arch"),
          kv_u32("arch.block_count", 2),
          kv_u32("arch.embedding_length", 64),
          kv_u32("arch.context_length", 128),
          kv_u32("arch.attention.head_count", 8),
          kv_u32("arch.attention.head_count_kv", 2),
          kv_f32("arch.attention.layer_norm_rms_epsilon", 1e-5f),
          kv_string("tokenizer.ggml.model", "gpt2"),
          kv_strings("tokenizer.ggml.tokens", {"a", "b", "<0x0A>"}),
          kv_strings("tokenizer.ggml.merges", {"a b"})};
}

std::string key_of(const std::string& pair) {
  uint64_t n = 0;
  std::memcpy(&n, pair.data(), 8);
  return pair.substr(8, n);
}

// The base model with `changes` in place of pairs of the same key, or added.
std::string model(const std::vector<std::string>& changes,
                  std::vector<std::string> infos = {}) {
  std::vector<std::string> pairs = base_pairs();
  for (const std::string& change : changes) {
    bool replaced = false;
    for (std::string& pair : pairs) {
      if (key_of(pair) != key_of(change)) continue;
      pair = change;
      replaced = true;
    }
    if (!replaced) pairs.push_back(change);
  }
  return gguf_file(
      {.pairs = pairs, .infos = infos, .data_bytes = infos.empty() ? 0u : 4096u});
}

Checkpoint open(const std::string& bytes) {
  const TemporaryDirectory directory;
  return open_checkpoint(directory.write("m.gguf", bytes));
}

void refused(const char* what, const std::string& file, std::vector<std::string> words) {
  words.push_back("m.gguf: ");
  expect_refused(
      what, [&] { open(file); }, words);
}

std::string per_layer(std::string_view key, const std::vector<uint32_t>& values) {
  std::string elements;
  for (const uint32_t v : values) elements += le(v);
  return kv_array(key, 4, values.size(), elements);
}

TEST(GgufModel, AcceptsTheBaseAndItsVariants) {
  EXPECT_EQ(open(model({})).metadata.size(), 10u);
  open(model({gguf_kv("arch.block_count", 5, le(int32_t(2)))}));  // another integer type
  open(model({gguf_kv("arch.block_count", 10, le(uint64_t(2)))}));
  open(model({per_layer("arch.attention.head_count_kv", {2, 4})}));
  open(model(
      {per_layer("arch.attention.head_count_kv", {0, 4})}));  // one without attention
  open(model({}, {gguf_info("blk.1.attn_q.weight", {8, 8}, kF32, 0)}));
}

TEST(GgufModel, RefusesBrokenArchitectures) {  // GG-40, GG-47
  const std::string file = gguf_file({.pairs = {kv_u32("arch.block_count", 2)}});
  refused("no architecture", file, {"general.architecture", "(GG-40)"});
  refused("architecture is a number", model({kv_u32("general.architecture", 1)}),
          {"general.architecture", "(GG-47)"});
}

TEST(GgufModel, RefusesBrokenLayers) {  // GG-41
  for (const uint32_t n : {0u, 513u, 0x80000000u})
    refused("block_count", model({kv_u32("arch.block_count", n)}),
            {"arch.block_count", std::to_string(n), "(GG-41)"});
  refused("block_count as string", model({kv_string("arch.block_count", "2")}),
          {"arch.block_count", "a string", "(GG-47)"});
  refused("block_count negative",
          model({gguf_kv("arch.block_count", 5, le(int32_t(-2)))}), {"-2", "(GG-47)"});
  refused("block_count a float", model({kv_f32("arch.block_count", 2)}), {"(GG-47)"});
  refused("all layers MTP", model({kv_u32("arch.nextn_predict_layers", 2)}), {"(GG-41)"});
  for (const char* name : {"blk.2.attn_q.weight", "blk.99999999999999999999.x.weight",
                           "blk.x.weight", "blk.1"})
    refused("tensor of no layer", model({}, {gguf_info(name, {8}, kF32, 0)}),
            {name, "(GG-41)"});
}

TEST(GgufModel, RefusesBrokenHeads) {  // GG-42, GG-43
  refused("head_count 0", model({kv_u32("arch.attention.head_count", 0)}), {"(GG-42)"});
  refused("head_count_kv 0", model({kv_u32("arch.attention.head_count_kv", 0)}),
          {"(GG-42)"});
  refused("3 for 8", model({kv_u32("arch.attention.head_count_kv", 3)}),
          {"3", "8", "(GG-42)"});
  refused("3 for 8 in one layer",
          model({per_layer("arch.attention.head_count_kv", {2, 3})}), {"(GG-42)"});
  refused("short array", model({per_layer("arch.attention.head_count_kv", {2})}),
          {"1 values", "2 layers", "(GG-42)"});
  refused("width", model({kv_u32("arch.embedding_length", 63)}), {"63", "(GG-43)"});
  open(model(
      {kv_u32("arch.embedding_length", 63), kv_u32("arch.attention.key_length", 32)}));
  for (const uint32_t n : {0u, 4097u})
    refused("key_length", model({kv_u32("arch.attention.key_length", n)}), {"(GG-43)"});
  refused("odd rope dims", model({kv_u32("arch.rope.dimension_count", 7)}), {"(GG-43)"});
  refused("rope dims past the head", model({kv_u32("arch.rope.dimension_count", 10)}),
          {"10", "8", "(GG-43)"});
}

TEST(GgufModel, RefusesBrokenSizes) {  // GG-44, GG-45, GG-48
  for (const uint32_t n : {0u, (1u << 27) + 1})
    refused("context", model({kv_u32("arch.context_length", n)}), {"(GG-44)"});
  refused("used > experts",
          model({kv_u32("arch.expert_count", 4), kv_u32("arch.expert_used_count", 5)}),
          {"(GG-45)"});
  refused("none used", model({kv_u32("arch.expert_count", 4)}), {"(GG-45)"});
  refused("1025 experts",
          model({kv_u32("arch.expert_count", 1025), kv_u32("arch.expert_used_count", 1)}),
          {"1025", "(GG-45)"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float eps : {nan, 0.0f, -1.0f, 0.2f, INFINITY})
    refused("eps", model({kv_f32("arch.attention.layer_norm_rms_epsilon", eps)}),
            {"layer_norm_rms_epsilon", "(GG-48)"});
  for (const float base : {0.0f, -1.0f, nan})
    refused("rope base", model({kv_f32("arch.rope.freq_base", base)}), {"(GG-48)"});
  refused("rope factor", model({kv_f32("arch.rope.scaling.factor", 0.0f)}), {"(GG-48)"});
}

TEST(GgufModel, RefusesBrokenVocabularies) {  // GG-44, GG-46, GG-49, GG-50
  refused("not strings", model({per_layer("tokenizer.ggml.tokens", {1, 2})}),
          {"(GG-47)"});
  std::vector<std::string> without = base_pairs();
  std::erase_if(without,
                [](const auto& p) { return key_of(p) == "tokenizer.ggml.tokens"; });
  refused("no tokens", gguf_file({.pairs = without}),
          {"tokenizer.ggml.tokens", "(GG-49)"});
  refused("no token at all", model({kv_strings("tokenizer.ggml.tokens", {})}),
          {"(GG-44)"});
  refused("scores shorter",
          model({kv_array("tokenizer.ggml.scores", 6, 2, std::string(8, '\0'))}),
          {"scores", "(GG-49)"});
  refused("scores not floats",
          model({kv_array("tokenizer.ggml.scores", 5, 3, std::string(12, '\0'))}),
          {"scores", "(GG-49)"});
  refused("types shorter", model({per_layer("tokenizer.ggml.token_type", {1, 1})}),
          {"(GG-49)"});
  for (const char* text : {"<0x-1>", "<0xZZ>", "<0x0>", "0x0A", "<0x00A>", "<0x 1>"})
    refused("byte token",
            model({kv_strings("tokenizer.ggml.tokens", {"a", "b", text}),
                   per_layer("tokenizer.ggml.token_type", {1, 1, 6})}),
            {"<0xHH>", "(GG-49)"});
  open(model({per_layer("tokenizer.ggml.token_type", {1, 1, 6})}));
  for (const char* merge : {"ab", " ab", ""})
    refused("merge", model({kv_strings("tokenizer.ggml.merges", {merge})}), {"(GG-49)"});
  refused("special id", model({kv_u32("tokenizer.ggml.eos_token_id", 3)}),
          {"eos_token_id", "3", "(GG-49)"});
  open(model({kv_u32("tokenizer.ggml.eos_token_id", 2)}));
  refused(
      "long token",
      model({kv_strings("tokenizer.ggml.tokens", {"a", "b", std::string(65'537, 'x')})}),
      {"65537", "(GG-50)"});
  refused("template",
          model({kv_string("tokenizer.chat_template", std::string((1 << 20) + 1, 'x'))}),
          {"1048577", "(GG-51)"});
  refused("embedding rows", model({}, {gguf_info("token_embd.weight", {8, 4}, kF32, 0)}),
          {"token_embd.weight", "[4, 8]", "3", "(GG-46)"});
  open(model({}, {gguf_info("token_embd.weight", {8, 3}, kF32, 0)}));
}

TEST(GgufModel, CheckValuesNamesTheTensor) {                        // GG-22
  std::string file = model({}, {gguf_info("w", {32, 1}, 8, 0)});    // Q8_0
  file.replace(file.size() - 4096, 2, std::string("\x00\x7e", 2));  // its scale: NaN
  const TemporaryDirectory directory;
  const Checkpoint checkpoint = open_checkpoint(directory.write("m.gguf", file));
  expect_refused("NaN scale", [&] { check_values("w", checkpoint.require("w")); },
                 {"m.gguf: ", "'w'", "(GG-22)"});
  EXPECT_THROW(checkpoint.require("absent"), Error);
}

// ---- split files
// --------------------------------------------------------------------------

std::string split_keys(uint32_t no, uint32_t count, int32_t n_tensors) {
  return gguf_kv("split.no", 2, le(uint16_t(no))) +
         gguf_kv("split.count", 2, le(uint16_t(count))) +
         gguf_kv("split.tensors.count", 5, le(n_tensors));
}

std::string part(uint32_t no, uint32_t count, const std::string& tensor,
                 int32_t n_tensors = 2) {
  std::vector<std::string> pairs;
  if (no == 0) pairs = base_pairs();
  const size_t n = pairs.size() + 3;
  pairs.push_back(split_keys(no, count, n_tensors));
  return gguf_file({.pairs = pairs,
                    .infos = {gguf_info(tensor, {8}, kF32, 0)},
                    .n_pairs = n,
                    .data_bytes = 32});
}

struct SplitCase {
  const char* what;
  std::string first;
  std::string second;
  std::vector<std::string> words;
};

TEST(GgufSplit, OpensAllParts) {
  const TemporaryDirectory directory;
  const auto first = directory.write("m-00001-of-00002.gguf", part(0, 2, "a"));
  directory.write("m-00002-of-00002.gguf", part(1, 2, "b"));
  const Checkpoint checkpoint = open_checkpoint(first);
  EXPECT_EQ(checkpoint.tensors.size(), 2u);
  EXPECT_EQ(checkpoint.files.size(), 2u);
  EXPECT_EQ(checkpoint.require("b").file->path().filename(), "m-00002-of-00002.gguf");
  expect_refused("part 2",
                 [&] { open_checkpoint(directory.path() / "m-00002-of-00002.gguf"); },
                 {"part 2 of 2", "(2.3)"});
}

TEST(GgufSplit, AcceptsWhatMergingLeavesBehind) {
  for (const uint32_t count : {0u, 1u})
    EXPECT_EQ(open(part(0, count, "a", 1)).tensors.size(), 1u);
}

TEST(GgufSplit, RefusesContradictions) {
  const std::vector<SplitCase> cases = {
      {"no != i", part(0, 2, "a"), part(2, 2, "b"), {"split.no", "(2.3)"}},
      {"count differs", part(0, 2, "a"), part(1, 3, "b"), {"split.count", "(2.3)"}},
      {"tensor in two parts", part(0, 2, "a"), part(1, 2, "a"), {"'a'", "(GG-21)"}},
      {"tensor count",
       part(0, 2, "a", 3),
       part(1, 2, "b", 3),
       {"split.tensors.count", "3", "(2.3)"}},
      {"no keys in part 2",
       part(0, 2, "a"),
       model({}, {gguf_info("b", {8}, kF32, 0)}),
       {"split.no", "(2.3)"}},
      {"first says it is second",
       part(1, 2, "a"),
       part(1, 2, "b"),
       {"split.no", "(2.3)"}},
      {"first says 3 parts", part(0, 3, "a"), part(1, 3, "b"), {"00003", "(2.3)"}},
      {"second part missing", part(0, 2, "a"), "", {"m-00002-of-00002.gguf", "(2.3)"}},
      {"name alone", model({}), "", {"split.count", "(2.3)"}},
      {"count 0", part(0, 0, "a"), "", {"split.count", "(2.3)"}},
  };
  for (const SplitCase& c : cases) {
    const TemporaryDirectory directory;
    const auto first = directory.write("m-00001-of-00002.gguf", c.first);
    if (!c.second.empty()) directory.write("m-00002-of-00002.gguf", c.second);
    expect_refused(
        c.what, [&] { open_checkpoint(first); }, c.words);
  }
  refused("wrong name", part(0, 2, "a"), {"-00001-of-00002.gguf", "(2.3)"});
}

}  // namespace
}  // namespace ingot
