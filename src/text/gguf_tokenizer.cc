// GGUF's vocabulary to a TokenizerDefinition (tokenizers.md 14, 15): what the file leaves
// out is filled in so that ids equal those of the model's tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/gguf_vocabulary.h"
#include "text/merges.h"
#include "text/split_patterns.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace ingot {
namespace {

enum class Digits { as_the_pattern, one_by_one_first };

struct PreTokenizerName {
  std::string_view name;
  KnownPattern pattern;
  Digits digits = Digits::as_the_pattern;
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;
};
constexpr PreTokenizerName kPreTokenizers[] = {
    {.name = "gpt-2", .pattern = KnownPattern::gpt2},
    {.name = "gpt2", .pattern = KnownPattern::gpt2},
    {.name = "smollm", .pattern = KnownPattern::gpt2, .digits = Digits::one_by_one_first},
    {.name = "llama-bpe",
     .pattern = KnownPattern::llama3,
     .ignore_merges = true,
     .add_bos = true},
    {.name = "llama3",
     .pattern = KnownPattern::llama3,
     .ignore_merges = true,
     .add_bos = true},
    {.name = "llama-v3",
     .pattern = KnownPattern::llama3,
     .ignore_merges = true,
     .add_bos = true},
    {.name = "qwen2", .pattern = KnownPattern::qwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .pattern = KnownPattern::qwen2},
    {.name = "qwen35", .pattern = KnownPattern::qwen3_5, .nfc = true},
    {.name = "gpt-4o", .pattern = KnownPattern::o200k, .ignore_merges = true},
    {.name = "tekken",
     .pattern = KnownPattern::tekken,
     .ignore_merges = true,
     .add_bos = true},
    {.name = "deepseek-v3", .pattern = KnownPattern::deepseek_v3},
    {.name = "glm4", .pattern = KnownPattern::llama3},
    {.name = "chatglm-bpe", .pattern = KnownPattern::llama3},
};

// Tokens that end an answer, known by their text (architectures.md 18).  The second list
// holds those that are also plain letters of many byte-level vocabularies: they count
// only where the file marks them as more than that.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>", "<|im_end|>",       "<|end|>",
    "<|return|>", "<|call|>",         "<|flush|>",
    "<|calls|>",  "<end_of_turn>",    "<|endoftext|>",
    "<|eom_id|>", "<|end_of_text|>",  "<end_of_utterance>",
    "<turn|>",    "<|tool_response>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[e~["};
constexpr std::string_view kMarkedEndTexts[] = {"</s>",  "<EOT>", "_<EOT>",
                                                "[EOT]", "[EOS]", "<eos>"};

bool is_added(GgufTokenType type) {
  return type == GgufTokenType::control || type == GgufTokenType::user_defined ||
         type == GgufTokenType::unknown;
}

void add_end_ids(const GgufVocabulary& vocabulary, std::vector<int>& ids) {
  // Only tokens that begin as the known ones do; a scan for each would take long.
  std::unordered_map<std::string_view, int> marked;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    if (!token.empty() &&
        std::string_view("<[_").find(token[0]) != std::string_view::npos)
      marked.try_emplace(token, int(i));
  }
  const auto find = [&](std::string_view text) {
    const auto at = marked.find(text);
    return at == marked.end() ? -1 : at->second;
  };
  for (const auto& id : {vocabulary.eos_id, vocabulary.eot_id, vocabulary.eom_id}) {
    if (id) ids.push_back(*id);
  }
  const bool harmony = find("<|return|>") >= 0 && find("<|call|>") >= 0;
  for (const std::string_view text : kEndTexts) {
    // gpt-oss ends every message, not only the answer, with <|end|>.
    if (text == "<|end|>" && harmony) continue;
    if (const int id = find(text); id >= 0) ids.push_back(id);
  }
  for (const std::string_view text : kMarkedEndTexts) {
    if (text == "</s>" && find("<|tool_response>") >= 0) continue;
    const int id = find(text);
    if (id >= 0 && is_added(vocabulary.token_types[size_t(id)])) ids.push_back(id);
  }
  ids.insert(ids.end(), vocabulary.fim_end_ids.begin(), vocabulary.fim_end_ids.end());
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

void add_tokens(const GgufVocabulary& vocabulary, TokenizerDefinition& definition) {
  size_t n_bytes = 0;
  for (const std::string& token : vocabulary.tokens) n_bytes += token.size();
  definition.model.vocabulary.reserve(vocabulary.tokens.size(), n_bytes);
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const GgufTokenType type = vocabulary.token_types[i];
    if (type == GgufTokenType::unused) continue;  // padding: never matched, never shown
    // Cannot fail: every id is added once.
    static_cast<void>(definition.model.vocabulary.add(vocabulary.tokens[i], int(i)));
    if (!is_added(type)) continue;
    AddedToken token;
    token.content = vocabulary.tokens[i];
    token.id = int(i);
    token.special = type != GgufTokenType::user_defined;
    definition.added_tokens.push_back(std::move(token));
  }
}

void describe_byte_level(const GgufVocabulary& vocabulary,
                         TokenizerDefinition& definition, bool& add_bos) {
  if (vocabulary.pre.empty())
    fail(
        "{}: tokenizer.ggml.pre: missing, wanted the name of the pre-tokenizer: without "
        "it "
        "the ids would be a guess",
        definition.source);
  const auto* pre =
      std::ranges::find(kPreTokenizers, vocabulary.pre, &PreTokenizerName::name);
  if (pre == std::end(kPreTokenizers)) {
    std::string known;
    for (const PreTokenizerName& name : kPreTokenizers)
      known += (known.empty() ? "" : ", ") + std::string(name.name);
    fail("{}: tokenizer.ggml.pre: \"{}\" is not known, wanted one of {}",
         definition.source, printable_text(vocabulary.pre), known);
  }
  const auto split = [&](std::string_view text) {
    definition.pre_tokenizers.emplace_back(
        SplitStep{.pattern = {.text = std::string(text), .is_regex = true}});
  };
  if (pre->nfc) definition.normalizers.emplace_back(UnicodeFormStep{NormalForm::nfc});
  if (pre->digits == Digits::one_by_one_first)
    definition.pre_tokenizers.emplace_back(LetterSplitStep{});
  if (pre->pattern == KnownPattern::deepseek_v3) {
    split(R"(\p{N}{1,3})");
    split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+");
  }
  split(pattern_text(pre->pattern));
  definition.pre_tokenizers.emplace_back(
      ByteLevelStep{.add_prefix_space = false, .use_regex = false});
  definition.decoders = {ByteLevelDecoder{}};
  definition.model.ignore_merges = pre->ignore_merges;
  add_bos = pre->add_bos;

  if (vocabulary.merges.empty())
    fail("{}: tokenizer.ggml.merges: missing or empty", definition.source);
  MergeReader reader(definition.model, definition.source + ": tokenizer.ggml.merges");
  for (size_t i = 0; i < vocabulary.merges.size(); ++i)
    reader.add_gguf(vocabulary.merges[i], i);
}

// Converters write the spaces of user-defined tokens as spaces; the vocabulary they come
// from has U+2581, which a text may hold too.  Both are matched.
void add_marked_spaces(TokenizerDefinition& definition) {
  const size_t n_tokens = definition.added_tokens.size();
  for (size_t i = 0; i < n_tokens; ++i) {
    AddedToken token = definition.added_tokens[i];
    if (token.special || token.content.find(' ') == std::string::npos) continue;
    std::string marked;
    for (const char c : token.content) {
      if (c == ' ') {
        marked += "\u2581";
      } else {
        marked += c;
      }
    }
    token.content = std::move(marked);
    definition.added_tokens.push_back(std::move(token));
  }
}

void describe_sentencepiece(const GgufVocabulary& vocabulary,
                            TokenizerDefinition& definition) {
  if (vocabulary.scores.empty())
    fail("{}: tokenizer.ggml.scores: missing, wanted one for each token",
         definition.source);
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  if (prefix) definition.normalizers.emplace_back(PrependStep{"\u2581"});
  definition.normalizers.push_back(replace_spaces());
  definition.decoders = sentencepiece_decoders(prefix);
  add_marked_spaces(definition);

  BpeDefinition& model = definition.model;
  model.byte_fallback = true;
  model.fuse_unk = true;
  std::vector<bool> mergeable(size_t(model.vocabulary.size()));
  std::vector<float> scores(vocabulary.scores);
  scores.resize(mergeable.size());
  for (size_t i = 0; i < mergeable.size(); ++i) {
    const GgufTokenType type = vocabulary.token_types[i];
    mergeable[i] = type == GgufTokenType::normal || type == GgufTokenType::user_defined;
    if (!std::isfinite(scores[i]))
      fail("{}: tokenizer.ggml.scores: entry {} is no finite number", definition.source,
           i);
    if (type == GgufTokenType::unknown && model.unk_token.empty())
      model.unk_token = vocabulary.tokens[i];
  }
  if (vocabulary.unknown_id)
    model.unk_token = vocabulary.tokens[size_t(*vocabulary.unknown_id)];
  merge_rules_by_score(model, scores, mergeable);
}

void name_special_tokens(const GgufVocabulary& vocabulary,
                         TokenizerDefinition& definition) {
  const std::pair<const char*, std::optional<int>> named[] = {
      {"bos_token", vocabulary.bos_id},
      {"eos_token", vocabulary.eos_id},
      {"unk_token", vocabulary.unknown_id},
      {"pad_token", vocabulary.padding_id},
  };
  for (const auto& [name, id] : named) {
    if (id) definition.special_token_texts[name] = vocabulary.tokens[size_t(*id)];
  }
  definition.bos_id = vocabulary.bos_id;
  definition.eos_id = vocabulary.eos_id;
  add_end_ids(vocabulary, definition.end_of_generation_ids);
}

TokenizerDefinition definition_from_gguf(const GgufVocabulary& vocabulary,
                                         std::string_view source) {
  TokenizerDefinition definition;
  if (!vocabulary.huggingface_json.empty()) {
    definition = tokenizer_definition_from_json(
        vocabulary.huggingface_json,
        fmt::format("{}: tokenizer.huggingface.json", source));
    name_special_tokens(vocabulary, definition);
    return definition;
  }
  definition.source = source;
  definition.has_decoder = true;
  add_tokens(vocabulary, definition);
  bool add_bos = false;
  if (vocabulary.model == "gpt2") {
    describe_byte_level(vocabulary, definition, add_bos);
  } else if (vocabulary.model == "llama") {
    describe_sentencepiece(vocabulary, definition);
    add_bos = true;
  } else {
    fail("{}: tokenizer.ggml.model: \"{}\" is not known, wanted gpt2 or llama", source,
         printable_text(vocabulary.model));
  }
  name_special_tokens(vocabulary, definition);
  add_bos = vocabulary.add_bos.value_or(add_bos);
  if (add_bos && vocabulary.bos_id) definition.prefix_ids = {*vocabulary.bos_id};
  if (vocabulary.add_eos.value_or(false) && vocabulary.eos_id)
    definition.suffix_ids = {*vocabulary.eos_id};
  return definition;
}

}  // namespace

Tokenizer Tokenizer::from_gguf(const GgufVocabulary& vocabulary,
                               std::string_view source) {
  return Tokenizer(definition_from_gguf(vocabulary, source));
}

}  // namespace ingot
