// A model directory's tokenizer, in whichever files it comes (tokenizers.md 1).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "text/json_fields.h"
#include "text/merges.h"
#include "text/sentencepiece.h"
#include "text/split_patterns.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// A small JSON file that may be absent.  Holds the parser, which owns what root() shows.
class OptionalJson {
 public:
  explicit OptionalJson(const fs::path& path) {
    if (!fs::exists(path)) return;
    text_ = read_file(path);
    simdjson::dom::element document;
    auto error = parser_.parse(text_).get(document);
    if (error == simdjson::NUMBER_ERROR) {
      // model_max_length is 10^30 in many files, which no machine integer holds: a parser
      // that falls back to doubles writes it anew.
      const auto loose =
          nlohmann::json::parse(text_, nullptr, /*allow_exceptions=*/false);
      if (!loose.is_discarded()) {
        text_ = loose.dump();
        error = parser_.parse(text_).get(document);
      }
    }
    if (error) fail("{}: not JSON: {}", printable(path), simdjson::error_message(error));
    root_.emplace(document, printable(path) + ":");
  }
  const JsonField* root() const { return root_ ? &*root_ : nullptr; }

 private:
  std::string text_;
  simdjson::dom::parser parser_;
  std::optional<JsonField> root_;
};

// A special token's text: a string, or an object with its `content`; nothing otherwise.
std::optional<std::string> token_text(const JsonField& field) {
  std::string_view text;
  if (field.element().get(text) == simdjson::SUCCESS) return std::string(text);
  if (field.element().is_object() && field.has("content"))
    return std::string(field.at("content").string());
  return std::nullopt;
}

// bos_token and the like, and their ids.
void read_special_tokens(const JsonField* config, TokenizerDefinition& definition) {
  if (config == nullptr) return;
  for (const auto& [key, value] : config->object()) {
    if (!key.ends_with("_token") || value.is_null()) continue;
    if (const auto text = token_text({value, fmt::format("{} {}", config->place(), key)}))
      definition.special_token_texts[std::string(key)] = *text;
  }
  const auto id_of = [&](std::string_view key) -> std::optional<int> {
    const auto text = definition.special_token_texts.find(key);
    if (text == definition.special_token_texts.end()) return std::nullopt;
    const auto added =
        std::ranges::find(definition.added_tokens, text->second, &AddedToken::content);
    if (added != definition.added_tokens.end()) return added->id;
    return definition.model.vocabulary.find(text->second);
  };
  if (const auto bos = id_of("bos_token")) definition.bos_id = bos;
  if (const auto eos = id_of("eos_token")) {
    definition.eos_id = eos;
    definition.end_of_generation_ids = {*eos};
  }
}

bool is_known(const TokenizerDefinition& definition, std::string_view content) {
  return std::ranges::find(definition.added_tokens, content, &AddedToken::content) !=
         definition.added_tokens.end();
}

// Added tokens as slow tokenizers keep them: tokenizer_config.json's added_tokens_decoder
// and added_tokens.json.
void read_added_tokens(const fs::path& directory, const JsonField* config,
                       TokenizerDefinition& definition) {
  if (config != nullptr && config->has("added_tokens_decoder")) {
    const JsonField table = config->at("added_tokens_decoder");
    for (const auto& [key, value] : table.object()) {
      const JsonField field(value, fmt::format("{}.{}", table.place(), key));
      AddedToken token;
      for (const char digit : key) {
        const bool is_digit = digit >= '0' && digit <= '9';
        token.id = is_digit && token.id >= 0 ? token.id * 10 + (digit - '0') : -1;
        if (token.id < 0 || token.id > kMaxTokenId)
          fail("{}: wanted an id from 0 to {}", field.place(), kMaxTokenId);
      }
      token.content = field.at("content").string();
      token.single_word = field.flag("single_word", false);
      token.lstrip = field.flag("lstrip", false);
      token.rstrip = field.flag("rstrip", false);
      token.special = field.flag("special", false);
      token.normalized = field.flag("normalized", !token.special);
      std::erase_if(definition.added_tokens, [&](const AddedToken& known) {
        return known.content == token.content;
      });
      definition.added_tokens.push_back(std::move(token));
    }
  }
  const OptionalJson added(directory / "added_tokens.json");
  if (added.root() == nullptr) return;
  for (const auto& [text, id] : added.root()->object()) {
    if (is_known(definition, text)) continue;
    AddedToken token;
    token.content = text;
    const JsonField field(id, fmt::format("{} {}", added.root()->place(), text));
    token.id = int(field.integer(0, kMaxTokenId));
    token.normalized = true;
    definition.added_tokens.push_back(std::move(token));
  }
}

void read_vocab_and_merges(const fs::path& directory, TokenizerDefinition& definition) {
  const fs::path vocab_path = directory / "vocab.json";
  const fs::path merges_path = directory / "merges.txt";
  const OptionalJson vocab(vocab_path);
  for (const auto& [text, id] : vocab.root()->object()) {
    int64_t value = -1;
    if (id.get(value) != simdjson::SUCCESS || value < 0 || value > kMaxTokenId)
      fail("{}: \"{}\" has no id from 0 to {}", printable(vocab_path),
           printable_text(text), kMaxTokenId);
    if (!definition.model.vocabulary.add(text, int(value)))
      fail("{}: \"{}\" has id {}, which another token has already", printable(vocab_path),
           printable_text(text), value);
  }
  const std::string merges = read_file(merges_path);
  if (!is_valid_utf8(merges)) fail("{}: not UTF-8", printable(merges_path));
  MergeReader reader(definition.model, printable(merges_path) + ": line");
  size_t n_lines = 0;
  for (size_t begin = 0; begin < merges.size();) {
    const size_t end = std::min(merges.find('\n', begin), merges.size());
    std::string_view line = std::string_view(merges).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++n_lines;
    if (!line.empty()) reader.add_line(line, n_lines);
    begin = end + 1;
  }
}

// vocab.json and merges.txt say nothing about splitting; the tokenizer's class does.
TokenizerDefinition definition_from_vocab_and_merges(const fs::path& directory,
                                                     const JsonField* config) {
  TokenizerDefinition definition;
  definition.source = printable(directory);
  read_vocab_and_merges(directory, definition);
  std::string name = config == nullptr ? "" : config->text("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const bool add_prefix_space =
      config != nullptr && config->flag("add_prefix_space", false);
  if (name.empty() || name == "GPT2Tokenizer") {
    definition.pre_tokenizers.emplace_back(
        ByteLevelStep{.add_prefix_space = add_prefix_space, .use_regex = true});
  } else if (name == "Qwen2Tokenizer") {
    definition.normalizers.emplace_back(UnicodeFormStep{NormalForm::nfc});
    definition.pre_tokenizers.emplace_back(
        SplitStep{.pattern = {.text = std::string(pattern_text(KnownPattern::qwen2)),
                              .is_regex = true}});
    definition.pre_tokenizers.emplace_back(
        ByteLevelStep{.add_prefix_space = add_prefix_space, .use_regex = false});
  } else {
    fail(
        "{}: tokenizer_config.json: tokenizer_class: \"{}\" with vocab.json and "
        "merges.txt, "
        "wanted GPT2Tokenizer or Qwen2Tokenizer, or a tokenizer.json",
        printable(directory), printable_text(name));
  }
  definition.has_decoder = true;
  definition.decoders = {ByteLevelDecoder{}};

  // Both classes take this for the special token that no file names.
  definition.special_token_texts["eos_token"] = "<|endoftext|>";
  if (name != "Qwen2Tokenizer")
    definition.special_token_texts["bos_token"] = "<|endoftext|>";
  read_special_tokens(config, definition);
  for (const auto& [key, text] : definition.special_token_texts) {
    const auto id = definition.model.vocabulary.find(text);
    if (id && !is_known(definition, text))
      definition.added_tokens.push_back({.content = text, .id = *id, .special = true});
  }
  read_added_tokens(directory, config, definition);
  return definition;
}

TokenizerDefinition definition_from_tokenizer_model(const fs::path& directory,
                                                    const JsonField* config) {
  const fs::path path = directory / "tokenizer.model";
  const std::string bytes = read_file(path);
  const SentencePieceModel model = parse_sentencepiece(bytes, printable(path));
  TokenizerDefinition definition =
      tokenizer_definition_from_sentencepiece(model, printable(path));
  read_added_tokens(directory, config, definition);
  if (config == nullptr) return definition;
  if (!config->flag("legacy", true) && model.add_dummy_prefix) {
    // Newer conversions put the space in front of the whole text, not of every span.
    std::erase_if(definition.normalizers, [](const NormalizerStep& step) {
      return std::holds_alternative<PrependStep>(step);
    });
    definition.pre_tokenizers.emplace_back(
        MetaspaceStep{.prepend = PrependScheme::first, .split = false});
  }
  return definition;
}

// add_bos_token and add_eos_token, for containers without a post-processor.
void read_added_ends(const JsonField* config, TokenizerDefinition& definition) {
  const bool bos = config == nullptr
                       ? !definition.prefix_ids.empty()
                       : config->flag("add_bos_token", !definition.prefix_ids.empty());
  const bool eos = config != nullptr && config->flag("add_eos_token", false);
  definition.prefix_ids.clear();
  if (bos && definition.bos_id) definition.prefix_ids = {*definition.bos_id};
  if (eos && definition.eos_id) definition.suffix_ids = {*definition.eos_id};
}

}  // namespace

Tokenizer Tokenizer::from_directory(const fs::path& directory) {
  const OptionalJson config_file(directory / "tokenizer_config.json");
  const JsonField* config = config_file.root();
  TokenizerDefinition definition;
  if (const fs::path json = directory / "tokenizer.json"; fs::exists(json)) {
    definition = tokenizer_definition_from_json(read_file(json), printable(json));
    read_special_tokens(config, definition);
    return Tokenizer(std::move(definition));
  }
  if (fs::exists(directory / "vocab.json") && fs::exists(directory / "merges.txt")) {
    definition = definition_from_vocab_and_merges(directory, config);
  } else if (fs::exists(directory / "tokenizer.model")) {
    definition = definition_from_tokenizer_model(directory, config);
  } else {
    fail(
        "{}: no tokenizer in it, wanted tokenizer.json, vocab.json and merges.txt, or "
        "tokenizer.model",
        printable(directory));
  }
  read_special_tokens(config, definition);
  read_added_ends(config, definition);
  return Tokenizer(std::move(definition));
}

}  // namespace ingot
