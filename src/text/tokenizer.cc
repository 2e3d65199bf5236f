#include "text/tokenizer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decode.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer_definition.h"

namespace ingot {
namespace {

// Positions inside a span are 32 bits in places.
constexpr size_t kMaxTextBytes = size_t(1) << 30;

// A text made well-formed, with the plain ranges moved along.
struct Repaired {
  std::string text;
  std::vector<TextRange> plain;
};
Repaired repaired(std::string_view text, std::span<const TextRange> plain) {
  Repaired out;
  const auto append = [&](size_t begin, size_t end) {
    out.text += lossy_utf8(text.substr(begin, end - begin));
  };
  size_t done = 0;
  for (const TextRange& range : plain) {
    append(done, range.begin);
    const size_t begin = out.text.size();
    append(range.begin, range.end);
    out.plain.push_back({begin, out.text.size()});
    done = range.end;
  }
  append(done, text.size());
  return out;
}

BpeDefinition with_control_ids(BpeDefinition model,
                               const std::vector<AddedToken>& added) {
  for (const AddedToken& token : added) {
    if (token.special) model.control_ids.push_back(token.id);
  }
  std::ranges::sort(model.control_ids);
  return model;
}

// The plain ranges that touch [begin, end), relative to begin.
std::vector<TextRange> ranges_within(std::span<const TextRange> plain, size_t begin,
                                     size_t end) {
  std::vector<TextRange> out;
  for (const TextRange& range : plain) {
    if (range.end <= begin || range.begin >= end) continue;
    out.push_back(
        {std::max(range.begin, begin) - begin, std::min(range.end, end) - begin});
  }
  return out;
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(TokenizerDefinition d)
      : normalizer(std::move(d.normalizers), d.source),
        pre_tokenizer(std::move(d.pre_tokenizers), d.source),
        model(with_control_ids(std::move(d.model), d.added_tokens), pre_tokenizer.unit(),
              d.source),
        decoder(std::move(d.decoders), !d.has_decoder, d.source),
        prefix_ids(std::move(d.prefix_ids)),
        suffix_ids(std::move(d.suffix_ids)),
        bos_id(d.bos_id),
        eos_id(d.eos_id),
        end_of_generation_ids(std::move(d.end_of_generation_ids)),
        special_token_texts(std::move(d.special_token_texts)) {
    n_ids = model.vocabulary().size();
    for (AddedToken& token : d.added_tokens) add(std::move(token));
  }

  void add(AddedToken token) {
    if (token.content.empty()) return;
    if (token.normalized) {
      normalized_matcher.add(token, normalizer.apply(token.content));
    } else {
      raw_matcher.add(token, token.content);
    }
    if (token.special) special_texts.insert(token.content);
    n_ids = std::max(n_ids, token.id + 1);
    added_ids.try_emplace(token.content, token.id);
    added_texts.try_emplace(token.id, std::move(token.content));  // the first one shows
  }

  std::optional<std::string_view> token_text(int id) const {
    if (const auto at = added_texts.find(id); at != added_texts.end())
      return std::string_view(at->second);
    return model.vocabulary().text(id);
  }
  bool is_special(std::string_view text) const {
    return special_texts.contains(std::string(text));
  }

  void encode_span(std::string_view text, size_t offset, const EncodeOptions& options,
                   std::vector<int>& ids) const;
  void encode_text(std::string text, bool at_start, std::vector<int>& ids) const;

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  Decoder decoder;
  AddedTokenMatcher raw_matcher;
  AddedTokenMatcher normalized_matcher;
  std::unordered_map<int, std::string> added_texts;
  std::unordered_map<std::string, int> added_ids;
  std::unordered_set<std::string> special_texts;
  int n_ids = 0;
  std::vector<int> prefix_ids;
  std::vector<int> suffix_ids;
  std::optional<int> bos_id;
  std::optional<int> eos_id;
  std::vector<int> end_of_generation_ids;
  std::map<std::string, std::string, std::less<>> special_token_texts;
};

Tokenizer::Tokenizer(TokenizerDefinition definition)
    : parts_(std::make_unique<Parts>(std::move(definition))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&& other) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&& other) noexcept = default;

std::vector<int> Tokenizer::encode(std::string_view text,
                                   const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes)
    fail("a text of {} bytes to tokenize, at most {} wanted", text.size(), kMaxTextBytes);
  if (!is_valid_utf8(text)) {
    const Repaired fixed = repaired(text, options.plain);
    return encode(fixed.text, {.add_special = options.add_special,
                               .parse_special = options.parse_special,
                               .plain = fixed.plain});
  }
  std::vector<int> ids;
  if (options.add_special) ids = parts_->prefix_ids;
  for (const TokenSpan& span : parts_->raw_matcher.split(text, options)) {
    if (span.token >= 0) {
      ids.push_back(span.token);
    } else {
      parts_->encode_span(text.substr(span.begin, span.end - span.begin), span.begin,
                          options, ids);
    }
  }
  if (options.add_special)
    ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  return ids;
}

// A span between raw added tokens, at `offset` in the input: normalize it, then look for
// the added tokens that are matched in normalized text.
void Tokenizer::Parts::encode_span(std::string_view text, size_t offset,
                                   const EncodeOptions& options,
                                   std::vector<int>& ids) const {
  std::string changed = normalizer.apply(std::string(text));
  if (normalized_matcher.empty())
    return encode_text(std::move(changed), offset == 0, ids);
  const std::vector<TextRange> plain =
      ranges_within(options.plain, offset, offset + text.size());
  EncodeOptions here = options;
  here.plain = plain;
  if (!plain.empty() && changed != text) {
    // Where the ranges lie after normalizing is not known: no markers in this span.
    here.plain = {};
    here.parse_special = false;
  }
  for (const TokenSpan& span : normalized_matcher.split(changed, here)) {
    if (span.token >= 0) {
      ids.push_back(span.token);
    } else {
      encode_text(changed.substr(span.begin, span.end - span.begin),
                  offset == 0 && span.begin == 0, ids);
    }
  }
}

void Tokenizer::Parts::encode_text(std::string text, bool at_start,
                                   std::vector<int>& ids) const {
  const Pieces pieces = pre_tokenizer.split(std::move(text), at_start);
  for (const Piece& piece : pieces.list) {
    const std::string_view span =
        std::string_view(pieces.text).substr(piece.begin, piece.end - piece.begin);
    if (pre_tokenizer.unit() == SpanUnit::bytes) {
      model.encode_bytes(span, ids);
    } else {
      model.encode(span, ids);
    }
  }
}

std::string Tokenizer::decode(std::span<const int> ids, bool skip_special) const {
  StreamDetokenizer stream(*this, skip_special);
  std::string text;
  for (const int id : ids) text += stream.push(id);
  return text + stream.finish();
}

int Tokenizer::vocab_size() const { return parts_->n_ids; }

std::optional<int> Tokenizer::token_to_id(std::string_view token) const {
  if (const auto at = parts_->added_ids.find(std::string(token));
      at != parts_->added_ids.end())
    return at->second;
  return parts_->model.vocabulary().find(token);
}

std::optional<std::string_view> Tokenizer::id_to_token(int id) const {
  return parts_->token_text(id);
}

bool Tokenizer::is_special(int id) const {
  const auto text = parts_->token_text(id);
  return text && parts_->is_special(*text);
}

std::string Tokenizer::token_bytes(int id) const {
  const auto text = parts_->token_text(id);
  return text ? parts_->decoder.token_bytes(*text) : std::string();
}

std::optional<int> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int> Tokenizer::eos_id() const { return parts_->eos_id; }
bool Tokenizer::adds_bos() const {
  return !parts_->prefix_ids.empty() && parts_->bos_id == parts_->prefix_ids.front();
}
const std::vector<int>& Tokenizer::end_of_generation_ids() const {
  return parts_->end_of_generation_ids;
}
const std::map<std::string, std::string, std::less<>>& Tokenizer::special_token_texts()
    const {
  return parts_->special_token_texts;
}

struct StreamDetokenizer::State {
  const Tokenizer::Parts* parts;
  bool skip_special;
  Decoder::Stream stream;
};

StreamDetokenizer::StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special)
    : state_(new State{tokenizer.parts_.get(), skip_special,
                       tokenizer.parts_->decoder.start()}) {}
StreamDetokenizer::~StreamDetokenizer() = default;
StreamDetokenizer::StreamDetokenizer(StreamDetokenizer&& other) noexcept = default;
StreamDetokenizer& StreamDetokenizer::operator=(StreamDetokenizer&& other) noexcept =
    default;

std::string StreamDetokenizer::push(int id) {
  const auto text = state_->parts->token_text(id);
  if (!text || (state_->skip_special && state_->parts->is_special(*text))) return {};
  return state_->parts->decoder.push(state_->stream, *text);
}

std::string StreamDetokenizer::finish() {
  std::string rest = state_->parts->decoder.finish(state_->stream);
  state_->stream = state_->parts->decoder.start();
  return rest;
}

NormalizerStep replace_spaces() {
  return ReplaceStep{.pattern = {.text = " ", .is_regex = false},
                     .content = "\xe2\x96\x81"};
}

std::vector<DecoderStep> sentencepiece_decoders(bool strip_first_space) {
  std::vector<DecoderStep> steps = {
      ReplaceDecoder{.pattern = {.text = "\xe2\x96\x81", .is_regex = false},
                     .content = " "},
      ByteFallbackDecoder{}, FuseDecoder{}};
  if (strip_first_space)
    steps.push_back(StripDecoder{.content = ' ', .start = 1, .stop = 0});
  return steps;
}

}  // namespace ingot
