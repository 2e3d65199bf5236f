#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/utf8.h"
#include "text/byte_level.h"

namespace ingot {
namespace {

// A span of so many bytes, most words, needs no memory from the heap.
constexpr size_t kFewBytes = 48;

std::string fallback_text(int byte) { return fmt::format("<0x{:02X}>", byte); }

BpeDefinition without_control_tokens(BpeDefinition definition) {
  std::erase_if(definition.merges, [&](const MergeRule& rule) {
    return std::ranges::binary_search(definition.control_ids, rule.result);
  });
  return definition;
}

}  // namespace

BpeModel::BpeModel(BpeDefinition definition, SpanUnit unit, std::string source)
    : definition_(without_control_tokens(std::move(definition))),
      source_(std::move(source)),
      merges_(definition_.merges) {
  const Vocabulary& vocabulary = definition_.vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    byte_symbols_[size_t(byte)] =
        vocabulary.find(byte_letter(uint8_t(byte))).value_or(-1);
    every_byte_has_a_symbol_ &= byte_symbols_[size_t(byte)] >= 0;
    fallback_ids_[size_t(byte)] = definition_.byte_fallback
                                      ? vocabulary.find(fallback_text(byte)).value_or(-1)
                                      : -1;
  }
  if (!definition_.unk_token.empty()) unk_id_ = vocabulary.find(definition_.unk_token);
  for (size_t i = 0; i < definition_.loose_letters.size(); ++i)
    CHECK(loose_letters_.add(definition_.loose_letters[i], int(i)));
  if (unit == SpanUnit::characters) find_joined_letters();
  definition_.merges = {};  // merges_ has them
}

// A token made by merges has, at each place between two of its letters, been joined there
// by one rule, whose left token ends with the letter before and whose right token begins
// with the letter after.  So letters that no rule brings together are never in one token.
void BpeModel::find_joined_letters() {
  if (!definition_.continuing_subword_prefix.empty() ||
      !definition_.end_of_word_suffix.empty())
    return;  // tokens do not begin and end with letters of the text
  struct Ends {
    int first = -1;
    int last = -1;
  };
  std::vector<Ends> ends(size_t(vocabulary().size()) + definition_.loose_letters.size());
  const auto letter_id = [&](std::string_view letter) {
    if (const auto id = vocabulary().find(letter)) return *id;
    const auto loose = loose_letters_.find(letter);
    return loose ? vocabulary().size() + *loose : -1;
  };
  const auto find_ends = [&](int token) {
    Ends& found = ends[size_t(token)];
    if (token >= vocabulary().size()) found = {token, token};
    if (found.first >= 0) return found;
    const std::string_view text = *vocabulary().text(token);
    if (text.empty()) return found;
    size_t last = text.size() - 1;
    while (last > 0 && (uint8_t(text[last]) & 0xc0) == 0x80) --last;
    found.first = letter_id(text.substr(0, size_t(decode_utf8(text, 0).length)));
    found.last = letter_id(text.substr(last));
    return found;
  };
  std::vector<bool> is_fallback(ends.size());
  for (const int id : fallback_ids_) {
    if (id >= 0) is_fallback[size_t(id)] = true;
  }
  std::vector<MergeRule> joined;
  joined.reserve(definition_.merges.size());
  for (const MergeRule& rule : definition_.merges) {
    // A byte token is a symbol of its own; its text's letters say nothing.
    if (is_fallback[size_t(rule.left)] || is_fallback[size_t(rule.right)]) return;
    const int left = find_ends(rule.left).last;
    const int right = find_ends(rule.right).first;
    if (left >= 0 && right >= 0) joined.push_back({left, right, 0, 0});
  }
  const auto pair = [](const MergeRule& rule) {
    return std::pair(rule.left, rule.right);
  };
  std::ranges::sort(joined, {}, pair);
  // Not std::ranges::unique: clang 14 cannot compile this library's.
  const auto same = [&](const auto& a, const auto& b) { return pair(a) == pair(b); };
  joined.erase(std::unique(joined.begin(), joined.end(), same), joined.end());
  joined_letters_.emplace(joined);
}

// Appends one letter of the span as symbols.  An unknown letter waits in pending_unk (-1:
// none), so that fuse_unk can join it to the next; byte tokens pass it by, as in the
// reference.
void BpeModel::append_letter(std::string_view letter, std::vector<int>& symbols,
                             int& pending_unk) const {
  if (const auto id = vocabulary().find(letter)) {
    if (pending_unk >= 0) symbols.push_back(std::exchange(pending_unk, -1));
    symbols.push_back(*id);
    return;
  }
  if (const auto loose = loose_letters_.find(letter)) {
    if (pending_unk >= 0) symbols.push_back(std::exchange(pending_unk, -1));
    symbols.push_back(vocabulary().size() + *loose);
    return;
  }
  const auto fallback = [&](char byte) { return fallback_ids_[uint8_t(byte)]; };
  if (definition_.byte_fallback &&
      std::ranges::all_of(letter, [&](char byte) { return fallback(byte) >= 0; })) {
    for (const char byte : letter) symbols.push_back(fallback(byte));
    return;
  }
  if (definition_.unk_token.empty()) return;  // the letter disappears
  if (!unk_id_)
    fail("{}: model.unk_token: \"{}\" is not in the vocabulary, wanted for \"{}\"",
         source_, printable_text(definition_.unk_token), printable_text(letter));
  if (pending_unk >= 0 && !definition_.fuse_unk) symbols.push_back(pending_unk);
  pending_unk = *unk_id_;
}

// The token that is the whole span, for ignore_merges.
std::optional<int> BpeModel::whole_span(std::string_view span) const {
  const auto id = vocabulary().find(span);
  if (id && std::ranges::binary_search(definition_.control_ids, *id)) return std::nullopt;
  return id;
}

void BpeModel::encode(std::string_view span, std::vector<int>& ids) const {
  if (definition_.ignore_merges) {
    if (const auto id = whole_span(span)) {
      ids.push_back(*id);
      return;
    }
  }
  std::vector<int> symbols;
  symbols.reserve(span.size());
  int pending_unk = -1;
  const bool decorated = !definition_.continuing_subword_prefix.empty() ||
                         !definition_.end_of_word_suffix.empty();
  std::string decorated_letter;
  for (size_t i = 0; i < span.size();) {
    const auto length = size_t(decode_utf8(span, i).length);
    std::string_view letter = span.substr(i, length);
    if (decorated) {
      decorated_letter = i > 0 ? definition_.continuing_subword_prefix : "";
      decorated_letter += letter;
      if (i + length == span.size()) decorated_letter += definition_.end_of_word_suffix;
      letter = decorated_letter;
    }
    append_letter(letter, symbols, pending_unk);
    i += length;
  }
  if (pending_unk >= 0) symbols.push_back(pending_unk);

  // Cut where nothing can join, and merge each part.
  for (size_t begin = 0; begin < symbols.size();) {
    size_t end = begin + 1;
    while (end < symbols.size() &&
           (!joined_letters_ || joined_letters_->find(symbols[end - 1], symbols[end])))
      ++end;
    append_merged(std::span(symbols).subspan(begin, end - begin), ids);
    begin = end;
  }
}

void BpeModel::encode_bytes(std::string_view bytes, std::vector<int>& ids) const {
  const bool plain = every_byte_has_a_symbol_ && !definition_.ignore_merges &&
                     definition_.continuing_subword_prefix.empty() &&
                     definition_.end_of_word_suffix.empty();
  if (!plain) {
    // ignore_merges asks for the whole span first; spans are short, so spell it out.
    const std::string letters = to_byte_letters(bytes);
    const bool only_whole = every_byte_has_a_symbol_ &&
                            definition_.continuing_subword_prefix.empty() &&
                            definition_.end_of_word_suffix.empty();
    if (!only_whole) return encode(letters, ids);
    if (const auto id = whole_span(letters)) {
      ids.push_back(*id);
      return;
    }
  }
  if (bytes.size() <= kFewBytes) {
    std::array<int, kFewBytes> symbols;
    for (size_t i = 0; i < bytes.size(); ++i)
      symbols[i] = byte_symbols_[uint8_t(bytes[i])];
    return append_merged(std::span(symbols).first(bytes.size()), ids);
  }
  std::vector<int> symbols(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) symbols[i] = byte_symbols_[uint8_t(bytes[i])];
  append_merged(symbols, ids);
}

void BpeModel::append_merged(std::span<int> symbols, std::vector<int>& ids) const {
  const size_t n = merge_symbols(symbols, merges_);
  for (const int symbol : symbols.first(n)) {
    if (symbol < vocabulary().size()) {
      ids.push_back(symbol);
    } else {
      append_loose(symbol, ids);
    }
  }
}

void BpeModel::append_loose(int symbol, std::vector<int>& ids) const {
  const size_t index = size_t(symbol - vocabulary().size());
  const std::string& letter = definition_.loose_letters[index];
  const bool bytes = std::ranges::all_of(
      letter, [&](char byte) { return fallback_ids_[uint8_t(byte)] >= 0; });
  if (bytes) {
    for (const char byte : letter) ids.push_back(fallback_ids_[uint8_t(byte)]);
  } else if (unk_id_ &&
             (ids.empty() || ids.back() != *unk_id_ || !definition_.fuse_unk)) {
    ids.push_back(*unk_id_);
  }
}

namespace {

// Fills a definition with rules; takes the places to cut tokens a few hundred at a time.
class RulesByScore {
 public:
  RulesByScore(BpeDefinition& definition, const std::vector<bool>& mergeable)
      : definition_(definition),
        vocabulary_(definition.vocabulary),
        mergeable_(mergeable) {}

  void add_cuts(int token, std::string_view text, int rank) {
    for (size_t cut = size_t(decode_utf8(text, 0).length); cut < text.size();
         cut += size_t(decode_utf8(text, cut).length)) {
      parts_.push_back(text.substr(0, cut));
      parts_.push_back(text.substr(cut));
      made_.push_back({0, 0, token, rank});
    }
    if (made_.size() >= kManyCuts) flush();
  }

  void finish() {
    flush();
    definition_.loose_letters.resize(loose_.size());
    for (const auto& [letter, id] : loose_)
      definition_.loose_letters[size_t(id - vocabulary_.size())] = letter;
  }

 private:
  static constexpr size_t kManyCuts = 256;

  void flush() {
    throw_if_interrupted();  // a large vocabulary takes a while
    found_.resize(parts_.size());
    vocabulary_.find_each(parts_, found_);
    for (size_t i = 0; i < made_.size(); ++i) {
      MergeRule& rule = made_[i];
      rule.left = part_id(parts_[2 * i], found_[2 * i]);
      if (rule.left < 0) continue;
      rule.right = part_id(parts_[2 * i + 1], found_[2 * i + 1]);
      if (rule.right >= 0) definition_.merges.push_back(rule);
    }
    parts_.clear();
    made_.clear();
  }

  // Of a part that is a token that may be made, or a single letter of any kind; else -1.
  int part_id(std::string_view part, int found) {
    if (found >= 0 && mergeable_[size_t(found)]) return found;
    if (size_t(decode_utf8(part, 0).length) != part.size()) return -1;
    if (found >= 0) return found;
    const int fresh = vocabulary_.size() + int(loose_.size());
    return loose_.try_emplace(std::string(part), fresh).first->second;
  }

  BpeDefinition& definition_;
  const Vocabulary& vocabulary_;
  const std::vector<bool>& mergeable_;
  std::vector<MergeRule> made_;          // not yet known: left and right
  std::vector<std::string_view> parts_;  // of each of made_, left and right
  std::vector<int> found_;
  std::map<std::string, int, std::less<>> loose_;
};

}  // namespace

void merge_rules_by_score(BpeDefinition& definition, std::span<const float> scores,
                          const std::vector<bool>& mergeable) {
  const Vocabulary& vocabulary = definition.vocabulary;
  const int n_tokens = vocabulary.size();
  CHECK(scores.size() == size_t(n_tokens) && mergeable.size() == size_t(n_tokens));

  std::vector<float> levels(scores.begin(), scores.end());
  std::ranges::sort(levels, std::greater<>());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());

  RulesByScore rules(definition, mergeable);
  for (int id = 0; id < n_tokens; ++id) {
    const auto text = vocabulary.text(id);
    if (!text || text->empty() || !mergeable[size_t(id)] || vocabulary.find(*text) != id)
      continue;
    const auto rank =
        std::ranges::lower_bound(levels, scores[size_t(id)], std::greater<>());
    rules.add_cuts(id, *text, int(rank - levels.begin()));
  }
  rules.finish();
}

}  // namespace ingot
