#include "text/gguf_vocabulary.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/vocabulary.h"

namespace ingot {
namespace {

using Metadata = std::map<std::string, MetadataValue, std::less<>>;

// The tokenizer's keys, with messages that name file and key.
class Keys {
 public:
  Keys(const Metadata& metadata, std::string_view source)
      : metadata_(metadata), source_(source) {}

  template <typename T>
  const T* find(const std::string& name, std::string_view wanted) const {
    const auto at = metadata_.find("tokenizer." + name);
    if (at == metadata_.end()) return nullptr;
    const T* value = std::get_if<T>(&at->second);
    if (value == nullptr) fail("{}: tokenizer.{}: wanted {}", source_, name, wanted);
    return value;
  }
  std::string text(const std::string& name) const {
    const auto* value = find<std::string>(name, "a string");
    return value == nullptr ? "" : *value;
  }
  std::optional<bool> flag(const std::string& name) const {
    const auto* value = find<bool>(name, "true or false");
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  std::optional<int> id(const std::string& name, size_t n_tokens) const {
    const auto at = metadata_.find("tokenizer.ggml." + name);
    if (at == metadata_.end()) return std::nullopt;
    int64_t value = -1;
    if (const auto* i = std::get_if<int64_t>(&at->second)) value = *i;
    if (const auto* u = std::get_if<uint64_t>(&at->second))
      value = *u > uint64_t(kMaxTokenId) ? -1 : int64_t(*u);
    if (value < 0 || size_t(value) >= n_tokens)
      fail("{}: tokenizer.ggml.{}: wanted an id below {}, the number of tokens", source_,
           name, n_tokens);
    return int(value);
  }
  std::vector<int64_t> integers(const std::string& name) const {
    const auto at = metadata_.find("tokenizer." + name);
    if (at == metadata_.end()) return {};
    if (const auto* i = std::get_if<std::vector<int64_t>>(&at->second)) return *i;
    if (const auto* u = std::get_if<std::vector<uint64_t>>(&at->second))
      return {u->begin(), u->end()};
    fail("{}: tokenizer.{}: wanted a list of integers", source_, name);
  }
  [[noreturn]] void refuse(std::string_view name, std::string_view what) const {
    fail("{}: tokenizer.ggml.{}: {}", source_, name, what);
  }

 private:
  const Metadata& metadata_;
  std::string_view source_;
};

void read_tokens(const Keys& keys, GgufVocabulary& vocabulary) {
  const auto* tokens =
      keys.find<std::vector<std::string>>("ggml.tokens", "a list of strings");
  if (tokens == nullptr || tokens->empty()) keys.refuse("tokens", "missing or empty");
  if (tokens->size() > size_t(kMaxTokenId) + 1)
    keys.refuse("tokens", fmt::format("{} of them, at most {} wanted", tokens->size(),
                                      kMaxTokenId + 1));
  vocabulary.tokens = *tokens;
  for (size_t i = 0; i < tokens->size(); ++i) {
    if (!is_valid_utf8((*tokens)[i]))
      keys.refuse("tokens", fmt::format("token {} is \"{}\", wanted UTF-8", i,
                                        printable_text((*tokens)[i])));
  }
  vocabulary.token_types.assign(tokens->size(), GgufTokenType::normal);
  const std::vector<int64_t> types = keys.integers("ggml.token_type");
  if (!types.empty() && types.size() != tokens->size())
    keys.refuse("token_type", fmt::format("{} entries, wanted {}, one for each token",
                                          types.size(), tokens->size()));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 1 || types[i] > 6)
      keys.refuse("token_type",
                  fmt::format("entry {} is {}, wanted 1 to 6", i, types[i]));
    vocabulary.token_types[i] = GgufTokenType(int(types[i]));
  }
}

void read_scores(const Keys& keys, GgufVocabulary& vocabulary) {
  const auto* scores =
      keys.find<std::vector<double>>("ggml.scores", "a list of floating-point numbers");
  if (scores == nullptr) return;
  if (scores->size() != vocabulary.tokens.size())
    keys.refuse("scores", fmt::format("{} entries, wanted {}, one for each token",
                                      scores->size(), vocabulary.tokens.size()));
  vocabulary.scores.assign(scores->begin(), scores->end());
}

}  // namespace

GgufVocabulary gguf_vocabulary(const Metadata& metadata, std::string_view source) {
  const Keys keys(metadata, source);
  GgufVocabulary vocabulary;
  vocabulary.huggingface_json = keys.text("huggingface.json");
  vocabulary.model = keys.text("ggml.model");
  if (vocabulary.model.empty())
    keys.refuse("model", "missing, wanted \"gpt2\" or \"llama\"");
  vocabulary.pre = keys.text("ggml.pre");
  read_tokens(keys, vocabulary);
  read_scores(keys, vocabulary);
  if (const auto* merges =
          keys.find<std::vector<std::string>>("ggml.merges", "a list of strings"))
    vocabulary.merges = *merges;

  const size_t n_tokens = vocabulary.tokens.size();
  vocabulary.bos_id = keys.id("bos_token_id", n_tokens);
  vocabulary.eos_id = keys.id("eos_token_id", n_tokens);
  vocabulary.eot_id = keys.id("eot_token_id", n_tokens);
  vocabulary.eom_id = keys.id("eom_token_id", n_tokens);
  vocabulary.unknown_id = keys.id("unknown_token_id", n_tokens);
  vocabulary.padding_id = keys.id("padding_token_id", n_tokens);
  for (const char* name : {"fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"}) {
    if (const auto id = keys.id(name, n_tokens)) vocabulary.fim_end_ids.push_back(*id);
  }
  vocabulary.add_bos = keys.flag("ggml.add_bos_token");
  vocabulary.add_eos = keys.flag("ggml.add_eos_token");
  vocabulary.add_space_prefix = keys.flag("ggml.add_space_prefix");
  return vocabulary;
}

}  // namespace ingot
