#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"

namespace ingot {
namespace {

char32_t code_point_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (uint8_t(text[begin]) & 0xc0) == 0x80) --begin;
  return decode_utf8(text, begin).code_point;
}

// Requires: the text is well-formed.
size_t spaces_before(std::string_view text, size_t end) {
  while (end > 0) {
    const char32_t c = code_point_before(text, end);
    if (!is_space(c)) break;
    std::string letter;
    append_utf8(letter, c);
    end -= letter.size();
  }
  return end;
}

size_t spaces_after(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Step step = decode_utf8(text, begin);
    if (!is_space(step.code_point)) break;
    begin += size_t(step.length);
  }
  return begin;
}

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word(code_point_before(text, begin))) return true;
  return end < text.size() && is_word(decode_utf8(text, end).code_point);
}

enum class Plainness { no, inside, crossing };

// How [begin, end) lies to the plain ranges; `next` is the first one not yet passed.
Plainness plainness(std::span<const TextRange> plain, size_t& next, size_t begin,
                    size_t end) {
  while (next < plain.size() && plain[next].end <= begin) ++next;
  if (next == plain.size() || plain[next].begin >= end) return Plainness::no;
  const bool inside = plain[next].begin <= begin && end <= plain[next].end;
  return inside ? Plainness::inside : Plainness::crossing;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token, std::string_view pattern) {
  if (pattern.empty()) return;
  first_bytes_[uint8_t(pattern[0])] = true;
  uint32_t node = 0;
  for (const char c : pattern) {
    const auto byte = uint8_t(c);
    if (const uint32_t* known = child(node, byte)) {
      node = *known;
      continue;
    }
    const auto fresh = uint32_t(nodes_.size());
    nodes_.emplace_back();
    auto& children = nodes_[node].children;
    children.insert(std::ranges::lower_bound(children, std::pair(byte, uint32_t{0})),
                    {byte, fresh});
    node = fresh;
  }
  nodes_[node].rule = int(rules_.size());
  rules_.push_back(
      {token.id, token.single_word, token.lstrip, token.rstrip, token.special});
}

const uint32_t* AddedTokenMatcher::child(uint32_t node, uint8_t byte) const {
  const auto& children = nodes_[node].children;
  const auto at =
      std::ranges::lower_bound(children, byte, {}, &std::pair<uint8_t, uint32_t>::first);
  return at != children.end() && at->first == byte ? &at->second : nullptr;
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::string_view text,
                                                       size_t begin) const {
  Match best{begin, begin, -1};
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const uint32_t* next = child(node, uint8_t(text[i]));
    if (next == nullptr) break;
    node = *next;
    if (nodes_[node].rule >= 0) best = {begin, i + 1, nodes_[node].rule};
  }
  return best;
}

std::vector<TokenSpan> AddedTokenMatcher::split(std::string_view text,
                                                const EncodeOptions& options) const {
  std::vector<TokenSpan> spans;
  size_t done = 0;        // text before this is in spans
  size_t next_plain = 0;  // index into options.plain
  for (size_t i = 0; i < text.size() && !rules_.empty();) {
    if (!first_bytes_[uint8_t(text[i])]) {
      ++i;
      continue;
    }
    const Match match = longest_at(text, i);
    if (match.rule < 0) {
      ++i;
      continue;
    }
    const Rule& rule = rules_[size_t(match.rule)];
    i = match.end;  // where the search goes on, whether the match counts or not
    if (match.begin < done) continue;  // taken by the rstrip of the one before
    if (rule.special) {
      if (!options.parse_special) continue;
      const Plainness plain =
          plainness(options.plain, next_plain, match.begin, match.end);
      if (plain == Plainness::crossing) i = match.begin + 1;
      if (plain != Plainness::no) continue;
    }
    if (rule.single_word && touches_word(text, match.begin, match.end)) continue;
    size_t begin = match.begin;
    size_t end = match.end;
    if (rule.lstrip) begin = std::max(spaces_before(text, begin), done);
    if (rule.rstrip) end = spaces_after(text, end);
    if (done < begin) spans.push_back({done, begin, -1});
    spans.push_back({begin, end, rule.id});
    done = end;
  }
  if (done < text.size()) spans.push_back({done, text.size(), -1});
  return spans;
}

}  // namespace ingot
