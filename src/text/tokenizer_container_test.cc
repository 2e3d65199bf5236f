// Every container of one vocabulary gives equal ids: GGUF metadata, vocab.json with
// merges.txt, and tokenizer.model, each against what tokenizer.json's goldens say.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/utf8.h"
#include "text/gguf_vocabulary.h"
#include "text/sentencepiece.h"
#include "text/tokenizer_definition.h"
#include "text/tokenizer_testing.h"

namespace ingot {
namespace {

using Ids = std::vector<int>;
using testing::HasSubstr;

// The pre-tokenizer's name in GGUF; none for SentencePiece vocabularies.
const std::map<std::string, std::string> kPreNames = {
    {"gpt2", "gpt-2"},  {"deepseek_v3", "deepseek-v3"}, {"llama3_1", "llama-bpe"},
    {"qwen3", "qwen2"}, {"gptoss", "gpt-4o"},           {"llama2", ""},
    {"gemma3", ""},
};

// What a converter writes, made from tokenizer.json.
std::map<std::string, MetadataValue, std::less<>> gguf_metadata(const std::string& name) {
  const nlohmann::json json = read_json(tokenizer_directory(name) / "tokenizer.json");
  const bool sentencepiece = kPreNames.at(name).empty();
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
  const auto put = [&](const std::string& text, size_t id, int type) {
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      types.resize(id + 1, 5);
    }
    tokens[id] = text;
    types[id] = type;
  };
  for (const auto& [text, id] : json["model"]["vocab"].items()) {
    const bool byte = sentencepiece && text.size() == 6 && text.starts_with("<0x");
    put(text, id, byte ? 6 : 1);
  }
  for (const auto& token : json["added_tokens"])
    put(token["content"], token["id"], token["special"].get<bool>() ? 3 : 4);

  std::map<std::string, MetadataValue, std::less<>> metadata;
  std::vector<double> scores;
  if (sentencepiece) {
    // As in the model that was converted: merges in order of falling score, user-defined
    // tokens before all.
    std::map<std::string, double> by_merges;
    for (const auto& merge : json["model"]["merges"]) {
      std::string text = merge.is_string()
                             ? merge.get<std::string>()
                             : merge[0].get<std::string>() + merge[1].get<std::string>();
      std::erase(text, ' ');
      by_merges.try_emplace(text, -1.0 - double(by_merges.size()));
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto at = by_merges.find(tokens[i]);
      scores.push_back(types[i] == 4 ? 0.0 : at == by_merges.end() ? -1e6 : at->second);
    }
    metadata["tokenizer.ggml.scores"] = scores;
    metadata["tokenizer.ggml.add_space_prefix"] = name == "llama2";
    metadata["tokenizer.ggml.unknown_token_id"] =
        uint64_t(json["model"]["vocab"][json["model"]["unk_token"].get<std::string>()]);
  } else {
    std::vector<std::string> merges;
    for (const auto& merge : json["model"]["merges"])
      merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : merge[0].get<std::string>() + " " +
                                               merge[1].get<std::string>());
    metadata["tokenizer.ggml.merges"] = merges;
    metadata["tokenizer.ggml.pre"] = kPreNames.at(name);
  }
  metadata["tokenizer.ggml.model"] = std::string(sentencepiece ? "llama" : "gpt2");
  metadata["tokenizer.ggml.tokens"] = tokens;
  metadata["tokenizer.ggml.token_type"] = types;
  for (const auto& step : {json["post_processor"]}) {
    const auto steps = step.is_object() && step.contains("processors")
                           ? step["processors"]
                           : nlohmann::json::array({step});
    for (const auto& s : steps) {
      if (!s.is_object() || !s.contains("special_tokens")) continue;
      metadata["tokenizer.ggml.bos_token_id"] =
          s["special_tokens"].begin().value()["ids"][0].get<uint64_t>();
    }
  }
  return metadata;
}

class EveryContainer : public testing::TestWithParam<const char*> {};

void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
  const nlohmann::json golden = read_json(tokenizer_directory(name) / "golden.json");
  size_t n = 0;
  for (const auto& c : golden["encode"]) {
    const Ids ids = c["ids"];
    const Ids special = c["ids_special"].is_null() ? ids : c["ids_special"].get<Ids>();
    EXPECT_EQ(tokenizer.encode(c["text"].get<std::string>()), ids) << c["text"].dump();
    EXPECT_EQ(tokenizer.encode(c["text"].get<std::string>(), {.add_special = true}),
              special);
    EXPECT_EQ(tokenizer.decode(ids, false), c["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, true), c["decoded_skip"].get<std::string>());
    ++n;
  }
  EXPECT_EQ(n, 541u);
}

TEST_P(EveryContainer, GgufGivesTheGoldenIds) {
  const auto metadata = gguf_metadata(GetParam());
  expect_golden(Tokenizer::from_gguf(gguf_vocabulary(metadata, "m.gguf"), "m.gguf"),
                GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, EveryContainer, testing::ValuesIn(kTokenizerNames),
                         [](const auto& info) { return std::string(info.param); });

std::filesystem::path fresh_directory(const std::string& name) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("ingot_" + name);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

void write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// vocab.json and merges.txt as the slow tokenizers keep them.
std::filesystem::path write_vocab_and_merges(const std::string& name) {
  const nlohmann::json json = read_json(tokenizer_directory(name) / "tokenizer.json");
  const auto path = fresh_directory("pair_" + name);
  write(path / "vocab.json", json["model"]["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : json["model"]["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  write(path / "merges.txt", merges);
  nlohmann::json config = read_json(tokenizer_directory(name) / "tokenizer_config.json");
  for (const auto& token : json["added_tokens"]) {
    nlohmann::json entry = token;
    entry.erase("id");
    if (name != "gpt2") config["added_tokens_decoder"][token["id"].dump()] = entry;
  }
  write(path / "tokenizer_config.json", config.dump());
  return path;
}

TEST(VocabAndMerges, GiveTheGoldenIds) {
  for (const char* name : {"gpt2", "qwen3"})
    expect_golden(Tokenizer::from_directory(write_vocab_and_merges(name)), name);
}

TEST(VocabAndMerges, RefuseAClassThatSplitsUnknown) {
  const auto path = write_vocab_and_merges("gpt2");
  write(path / "tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  try {
    Tokenizer::from_directory(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tokenizer_class: \"RobertaTokenizer\""));
  }
}

std::string base64_decoded(std::string_view text) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | uint32_t(kLetters.find(c));
    n_bits += 6;
    if (n_bits >= 8) out += char(uint8_t(bits >> (n_bits -= 8)));
  }
  return out;
}

// Models trained, and texts encoded, by the SentencePiece library itself
// (tests/tokenizers/make_sentencepiece.py).
TEST(SentencePiece, AgreesWithTheLibrary) {
  const nlohmann::json data =
      read_json(std::filesystem::path(INGOT_TOKENIZERS) / "sentencepiece.json");
  size_t n = 0;
  for (const auto& m : data["models"]) {
    SCOPED_TRACE(m["options"].dump());
    const Tokenizer tokenizer(tokenizer_definition_from_sentencepiece(
        parse_sentencepiece(base64_decoded(m["model"].get<std::string>()), "m"), "m"));
    for (size_t i = 0; i < data["texts"].size(); ++i, ++n) {
      const std::string text = data["texts"][i];
      EXPECT_EQ(tokenizer.encode(text), m["ids"][i].get<Ids>()) << printable_text(text);
    }
  }
  EXPECT_GT(n, 1000u);
}

TEST(SentencePiece, TokenizerModelGivesTheGoldenIds) {
  const nlohmann::json data =
      read_json(std::filesystem::path(INGOT_TOKENIZERS) / "sentencepiece.json");
  const auto path = fresh_directory("spm");
  write(path / "tokenizer.model", base64_decoded(data["llama2"].get<std::string>()));
  const Tokenizer bare = Tokenizer::from_directory(path);  // no configuration beside it
  expect_golden(bare, "llama2");
  for (size_t i = 0; i < data["texts"].size(); ++i) {
    const std::string text = data["texts"][i];
    EXPECT_EQ(bare.encode(text), data["llama2_ids"][i].get<Ids>())
        << printable_text(text);
  }
  std::filesystem::copy(tokenizer_directory("llama2") / "tokenizer_config.json", path);
  const Tokenizer configured = Tokenizer::from_directory(path);
  expect_golden(configured, "llama2");
  EXPECT_TRUE(configured.adds_bos());
  EXPECT_EQ(configured.end_of_generation_ids(), Ids{2});
}

std::string gguf_error(std::map<std::string, MetadataValue, std::less<>> metadata) {
  try {
    Tokenizer::from_gguf(gguf_vocabulary(metadata, "m.gguf"), "m.gguf");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GgufVocabulary, RefusesByKey) {
  std::map<std::string, MetadataValue, std::less<>> good = {
      {"tokenizer.ggml.model", std::string("gpt2")},
      {"tokenizer.ggml.pre", std::string("gpt-2")},
      {"tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"}},
      {"tokenizer.ggml.merges", std::vector<std::string>{"a b"}}};
  EXPECT_EQ(gguf_error(good), "");
  const auto with = [&](const char* key, MetadataValue value) {
    auto changed = good;
    changed[std::string("tokenizer.ggml.") + key] = std::move(value);
    return gguf_error(changed);
  };
  const auto without = [&](const char* key) {
    auto changed = good;
    changed.erase(std::string("tokenizer.ggml.") + key);
    return gguf_error(changed);
  };
  EXPECT_THAT(without("model"), HasSubstr("tokenizer.ggml.model: missing"));
  EXPECT_THAT(without("pre"), HasSubstr("tokenizer.ggml.pre: missing"));
  EXPECT_THAT(without("tokens"), HasSubstr("tokenizer.ggml.tokens: missing"));
  EXPECT_THAT(without("merges"), HasSubstr("tokenizer.ggml.merges: missing"));
  EXPECT_THAT(with("pre", std::string("future")), HasSubstr("\"future\" is not known"));
  EXPECT_THAT(with("model", std::string("t5")), HasSubstr("\"t5\" is not known"));
  EXPECT_THAT(with("model", std::string("llama")), HasSubstr("scores: missing"));
  EXPECT_THAT(with("model", int64_t{3}), HasSubstr("wanted a string"));
  EXPECT_THAT(with("merges", std::vector<std::string>{"a c"}),
              HasSubstr("merges[0]: \"c\""));
  EXPECT_THAT(with("merges", std::vector<std::string>{""}), HasSubstr("merges[0]"));
  EXPECT_THAT(with("token_type", std::vector<int64_t>{1}),
              HasSubstr("1 entries, wanted 3"));
  EXPECT_THAT(with("token_type", std::vector<int64_t>{1, 7, 1}),
              HasSubstr("entry 1 is 7"));
  EXPECT_THAT(with("bos_token_id", uint64_t{3}), HasSubstr("bos_token_id: wanted an id"));
  EXPECT_THAT(with("tokens", std::vector<std::string>{"a", "b\xff", "ab"}),
              HasSubstr("wanted UTF-8"));
  EXPECT_THAT(with("scores", std::vector<double>{1}), HasSubstr("scores: 1 entries"));
}

TEST(GgufVocabulary, KnowsWhatEndsAnAnswer) {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "gpt-2";
  vocabulary.tokens = {"a", "</s>", "<|im_end|>", "<|end|>", "x", "ax"};
  vocabulary.token_types = {GgufTokenType::normal,  GgufTokenType::normal,
                            GgufTokenType::control, GgufTokenType::control,
                            GgufTokenType::normal,  GgufTokenType::normal};
  vocabulary.merges = {"a x"};
  vocabulary.eos_id = 4;
  EXPECT_EQ(Tokenizer::from_gguf(vocabulary, "m").end_of_generation_ids(),
            (Ids{2, 3, 4}));
  vocabulary.tokens[4] = "<|return|>";
  vocabulary.tokens[0] = "<|call|>";
  vocabulary.tokens[5] = "<|call|>x";
  vocabulary.merges = {"<|call|> x"};
  vocabulary.tokens.push_back("x");
  vocabulary.token_types.push_back(GgufTokenType::normal);
  EXPECT_EQ(Tokenizer::from_gguf(vocabulary, "m").end_of_generation_ids(),
            (Ids{0, 2, 4}));
}

}  // namespace
}  // namespace ingot
