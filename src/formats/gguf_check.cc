#include "formats/gguf_check.h"

#include <cmath>

#include "base/error.h"
#include "formats/gguf_keys.h"
#include "formats/quote.h"

namespace ingot {
namespace {

constexpr uint64_t kMaxLayers = 512;
constexpr uint64_t kMaxHeadDim = 4096;
constexpr uint64_t kMaxContext = uint64_t(1) << 27;
constexpr uint64_t kMaxVocabulary = uint64_t(1) << 22;
constexpr uint64_t kMaxExperts = 1024;
constexpr size_t kMaxTokenBytes = 64 * 1024;
constexpr size_t kMaxTemplateBytes = 1024 * 1024;
constexpr uint64_t kByteToken = 6;  // in tokenizer.ggml.token_type

struct Range {
  uint64_t least;
  uint64_t most;
};

// The keys of one architecture: "llama.block_count" is model.count("block_count", ...).
class ModelKeys {
 public:
  ModelKeys(const GgufKeys& keys, const std::string& architecture)
      : keys_(keys), prefix_(architecture + ".") {}

  const GgufKeys& keys() const { return keys_; }
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }

  std::optional<uint64_t> count(std::string_view name, Range range,
                                std::string_view rule) const {
    const std::optional<uint64_t> n = keys_.find_count(key(name));
    if (n && (*n < range.least || *n > range.most))
      fail("{}: key '{}' is {}, wanted {} to {} ({})", keys_.source(), key(name), *n,
           range.least, range.most, rule);
    return n;
  }

 private:
  const GgufKeys& keys_;
  std::string prefix_;
};

void check_layers(const ModelKeys& model, const Checkpoint& checkpoint) {  // GG-41
  const std::optional<uint64_t> n_layers =
      model.count("block_count", {1, kMaxLayers}, "GG-41");
  if (!n_layers) return;
  model.count("nextn_predict_layers", {0, *n_layers - 1}, "GG-41");
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!name.starts_with("blk.")) continue;
    size_t at = 4;
    uint64_t layer = 0;
    while (at < name.size() && name[at] >= '0' && name[at] <= '9' && layer <= kMaxLayers)
      layer = layer * 10 + uint64_t(name[at++] - '0');
    if (at == 4 || at == name.size() || name[at] != '.' || layer >= *n_layers)
      fail("{}: tensor {}: no layer of a model with block_count {} (GG-41)",
           model.keys().source(), in_quotes(name), *n_layers);
  }
}

// Value of layer i, from one number for all or an array.
uint64_t at_layer(const GgufKeys::Counts& counts, size_t i) {
  return counts.per_layer ? counts.values[i] : counts.values[0];
}

void check_heads(const ModelKeys& model) {  // GG-42
  const std::optional<uint64_t> n_layers =
      model.keys().find_count(model.key("block_count"));
  for (const char* name :
       {"attention.head_count", "attention.head_count_kv", "feed_forward_length"}) {
    const std::optional<GgufKeys::Counts> counts =
        model.keys().find_counts(model.key(name));
    if (!counts) continue;
    if (counts->per_layer && (!n_layers || counts->values.size() != *n_layers))
      fail("{}: key '{}' has {} values, wanted one for each of {} layers (GG-42)",
           model.keys().source(), model.key(name), counts->values.size(),
           n_layers.value_or(0));
    // In an array, a zero is a layer without attention.
    if (!counts->per_layer && counts->values[0] == 0)
      fail("{}: key '{}' is 0, wanted at least 1 (GG-42)", model.keys().source(),
           model.key(name));
  }
  const auto heads = model.keys().find_counts(model.key("attention.head_count"));
  const auto kv_heads = model.keys().find_counts(model.key("attention.head_count_kv"));
  if (!heads || !kv_heads) return;
  const size_t n = heads->per_layer || kv_heads->per_layer ? size_t(*n_layers) : 1;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t n_kv = at_layer(*kv_heads, i);
    if (n_kv != 0 && at_layer(*heads, i) % n_kv != 0)
      fail("{}: key '{}' is {}, wanted a divisor of {} heads (GG-42)",
           model.keys().source(), model.key("attention.head_count_kv"), n_kv,
           at_layer(*heads, i));
  }
}

void check_head_dim(const ModelKeys& model) {  // GG-43
  const Range range{1, kMaxHeadDim};
  const auto key_length = model.count("attention.key_length", range, "GG-43");
  model.count("attention.value_length", range, "GG-43");
  const auto rope_dims = model.count("rope.dimension_count", range, "GG-43");
  const auto width = model.count("embedding_length", {1, uint64_t(1) << 31}, "GG-43");
  const auto heads = model.keys().find_counts(model.key("attention.head_count"));
  std::optional<uint64_t> head_dim = key_length;
  if (!key_length && width && heads && !heads->per_layer) {
    if (*width % heads->values[0] != 0)
      fail("{}: key '{}' is {}, wanted a multiple of {} heads (GG-43)",
           model.keys().source(), model.key("embedding_length"), *width,
           heads->values[0]);
    head_dim = *width / heads->values[0];
  }
  if (rope_dims && (*rope_dims % 2 != 0 || (head_dim && *rope_dims > *head_dim)))
    fail("{}: key '{}' is {}, wanted an even number up to the head size {} (GG-43)",
         model.keys().source(), model.key("rope.dimension_count"), *rope_dims,
         head_dim.value_or(kMaxHeadDim));
}

void check_experts(const ModelKeys& model) {  // GG-45
  const uint64_t n = model.count("expert_count", {0, kMaxExperts}, "GG-45").value_or(0);
  const uint64_t used =
      model.count("expert_used_count", {0, kMaxExperts}, "GG-45").value_or(0);
  if (used > n || (n == 0) != (used == 0))
    fail(
        "{}: {} experts and {} used for a token, wanted both or none, and no more used "
        "than "
        "there are (GG-45)",
        model.keys().source(), n, used);
}

void check_floats(const ModelKeys& model, const Metadata& metadata) {  // GG-48
  const std::string prefix = model.key("");
  for (const auto& [key, value] : metadata) {
    const auto* number = std::get_if<double>(&value);
    if (number == nullptr || !key.starts_with(prefix)) continue;
    const std::string_view name = std::string_view(key).substr(prefix.size());
    const bool is_epsilon = name.ends_with("_epsilon");
    const bool is_positive = is_epsilon || name.starts_with("rope.freq_base") ||
                             name == "rope.scaling.factor" || name == "rope.scale_linear";
    if (!std::isfinite(*number) || (is_positive && *number <= 0) ||
        (is_epsilon && *number > 0.1))
      fail("{}: key '{}' is {}, wanted a {} (GG-48)", model.keys().source(), key, *number,
           is_epsilon    ? "number in (0, 0.1]"
           : is_positive ? "number above 0"
                         : "finite number");
  }
}

bool is_byte_token(std::string_view token) {  // <0xHH>
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  return token.size() == 6 && token.starts_with("<0x") && token[5] == '>' &&
         kHex.find(token[3]) != std::string_view::npos &&
         kHex.find(token[4]) != std::string_view::npos;
}

void check_tokens(const GgufKeys& keys, const std::vector<std::string>& tokens) {
  for (size_t id = 0; id < tokens.size(); ++id)
    if (tokens[id].size() > kMaxTokenBytes)
      fail("{}: token {} has {} bytes, the limit is {} (GG-50)", keys.source(), id,
           tokens[id].size(), kMaxTokenBytes);
  const auto types = keys.find_counts("tokenizer.ggml.token_type");
  if (!types) return;
  if (!types->per_layer || types->values.size() != tokens.size())
    fail(
        "{}: key 'tokenizer.ggml.token_type' has {} values, wanted one for each of {} "
        "tokens "
        "(GG-49)",
        keys.source(), types->values.size(), tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id)
    if (types->values[id] == kByteToken && !is_byte_token(tokens[id]))
      fail("{}: token {} is {}, a byte token is written <0xHH> (GG-49)", keys.source(),
           id, in_quotes(tokens[id]));
}

void check_vocabulary(const GgufKeys& keys, const Metadata& metadata) {  // GG-49, GG-50
  const std::string* kind_of_tokenizer = keys.find_string("tokenizer.ggml.model");
  const auto* tokens = keys.find_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr) {
    const bool none = kind_of_tokenizer == nullptr || *kind_of_tokenizer == "none" ||
                      *kind_of_tokenizer == "no_vocab";
    if (!none) fail("{}: key 'tokenizer.ggml.tokens' is missing (GG-49)", keys.source());
    return;
  }
  if (tokens->empty() || tokens->size() > kMaxVocabulary)
    fail("{}: a vocabulary of {} tokens, wanted 1 to {} (GG-44)", keys.source(),
         tokens->size(), kMaxVocabulary);
  check_tokens(keys, *tokens);
  if (const auto it = metadata.find("tokenizer.ggml.scores"); it != metadata.end()) {
    const auto* scores = std::get_if<std::vector<double>>(&it->second);
    if (scores == nullptr || scores->size() != tokens->size())
      fail(
          "{}: key 'tokenizer.ggml.scores' is {} of {} values, wanted one float for each "
          "of {} "
          "tokens (GG-49)",
          keys.source(), kind(it->second), scores == nullptr ? 0 : scores->size(),
          tokens->size());
  }
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with("tokenizer.ggml.") || !key.ends_with("_token_id")) continue;
    if (const uint64_t id = *keys.find_count(key); id >= tokens->size())
      fail("{}: key '{}' is {}, the vocabulary has {} tokens (GG-49)", keys.source(), key,
           id, tokens->size());
  }
  const auto* merges = keys.find_strings("tokenizer.ggml.merges");
  if (merges == nullptr) return;
  for (size_t i = 0; i < merges->size(); ++i)
    if (const size_t space = (*merges)[i].find(' ', 1); space == std::string::npos)
      fail("{}: merge {} is {}, wanted two parts with a space between (GG-49)",
           keys.source(), i, in_quotes((*merges)[i]));
}

void check_templates(const GgufKeys& keys, const Metadata& metadata) {  // GG-51
  for (const auto& [key, value] : metadata) {
    if (key != "tokenizer.chat_template" && !key.starts_with("tokenizer.chat_template."))
      continue;
    if (const size_t n = keys.find_string(key)->size(); n > kMaxTemplateBytes)
      fail("{}: key {} has {} bytes, the limit is {} (GG-51)", keys.source(),
           in_quotes(key), n, kMaxTemplateBytes);
  }
}

// GG-46, as far as it needs no recipe: one embedding row a token.
void check_embedding(const ModelKeys& model, const Checkpoint& checkpoint) {
  const StoredTensor* embedding = checkpoint.find("token_embd.weight");
  if (embedding == nullptr) return;
  const auto* tokens = model.keys().find_strings("tokenizer.ggml.tokens");
  const auto stated = model.count("vocab_size", {1, kMaxVocabulary}, "GG-44");
  const uint64_t n_rows = uint64_t(embedding->view.rows());
  const uint64_t wanted = tokens != nullptr ? tokens->size() : stated.value_or(n_rows);
  if (n_rows != wanted)
    fail("{}: tensor 'token_embd.weight' is {}, the vocabulary has {} tokens (GG-46)",
         model.keys().source(), to_string(embedding->view.shape), wanted);
}

}  // namespace

void check_gguf_model(const Checkpoint& checkpoint, std::string_view source) {
  const GgufKeys keys(checkpoint.metadata, source);
  const std::string* architecture = keys.find_string("general.architecture");
  if (architecture == nullptr || architecture->empty())
    fail("{}: key 'general.architecture' is missing (GG-40)", source);
  const ModelKeys model(keys, *architecture);
  check_layers(model, checkpoint);
  check_heads(model);
  check_head_dim(model);
  model.count("context_length", {1, kMaxContext}, "GG-44");
  check_experts(model);
  check_floats(model, checkpoint.metadata);
  check_vocabulary(keys, checkpoint.metadata);
  check_templates(keys, checkpoint.metadata);
  check_embedding(model, checkpoint);
}

}  // namespace ingot
