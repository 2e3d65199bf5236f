#include "text/pretokenize.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "text/byte_level.h"

namespace ingot {
namespace {

// A match, or the gap between two.
struct Part {
  size_t begin;
  size_t end;
  bool is_match;
};

// Matches and gaps in turn, covering the text.
std::vector<Part> cover(std::string_view text, const std::vector<TextRange>& matches,
                        bool invert) {
  std::vector<Part> parts;
  parts.reserve(matches.size() * 2 + 1);
  size_t done = 0;
  for (const TextRange& match : matches) {
    if (done < match.begin) parts.push_back({done, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), invert});
  return parts;
}

void glue_equal_kinds(std::vector<Part>& parts) {
  size_t n = 0;
  bool before = false;
  for (const Part& part : parts) {
    if (n > 0 && part.is_match == before) {
      parts[n - 1].end = part.end;
    } else {
      parts[n++] = part;
    }
    before = part.is_match;
  }
  parts.resize(n);
}

// A match joins what is before it; a match right after a match stays alone.
void merge_with_previous(std::vector<Part>& parts) {
  size_t n = 0;
  bool before = false;
  for (const Part& part : parts) {
    if (n > 0 && part.is_match && !before) {
      parts[n - 1].end = part.end;
    } else {
      parts[n++] = part;
    }
    before = part.is_match;
  }
  parts.resize(n);
}

void merge_with_next(std::vector<Part>& parts) {
  size_t first = parts.size();
  bool after = false;
  for (size_t i = parts.size(); i-- > 0;) {
    const Part part = parts[i];
    if (first < parts.size() && part.is_match && !after) {
      parts[first].begin = part.begin;
    } else {
      parts[--first] = part;
    }
    after = part.is_match;
  }
  parts.erase(parts.begin(), parts.begin() + std::ptrdiff_t(first));
}

void apply_behavior(std::vector<Part>& parts, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::isolated:
      break;
    case SplitBehavior::removed:
      std::erase_if(parts, [](const Part& part) { return part.is_match; });
      break;
    case SplitBehavior::contiguous:
      glue_equal_kinds(parts);
      break;
    case SplitBehavior::merged_with_previous:
      merge_with_previous(parts);
      break;
    case SplitBehavior::merged_with_next:
      merge_with_next(parts);
      break;
  }
}

// Splits every piece at what `find` finds in it.
template <typename Find>
void split_pieces(Pieces& pieces, SplitBehavior behavior, bool invert, const Find& find) {
  std::vector<Piece> result;
  std::vector<TextRange> matches;
  for (const Piece& piece : pieces.list) {
    const std::string_view text =
        std::string_view(pieces.text).substr(piece.begin, piece.end - piece.begin);
    matches.clear();
    find(text, matches);
    const auto keep = [&](size_t begin, size_t end) {
      if (begin == end) return;
      result.push_back(
          {piece.begin + begin, piece.begin + end, piece.at_start && begin == 0});
    };
    if (behavior == SplitBehavior::isolated) {  // matches and gaps alike stay
      size_t done = 0;
      for (const TextRange& match : matches) {
        keep(done, match.begin);
        keep(match.begin, match.end);
        done = match.end;
      }
      keep(done, text.size());
      continue;
    }
    std::vector<Part> parts = cover(text, matches, invert);
    apply_behavior(parts, behavior);
    for (const Part& part : parts) keep(part.begin, part.end);
  }
  pieces.list = std::move(result);
}

// Finds every letter for which `is_wanted` holds.
template <typename Wanted>
void find_letters(std::string_view text, std::vector<TextRange>& matches,
                  const Wanted& is_wanted) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    const size_t end = i + size_t(step.length);
    if (is_wanted(step.code_point)) matches.push_back({i, end});
    i = end;
  }
}

bool is_of_kind(char32_t c, const LetterSplitStep& step) {
  switch (step.kind) {
    case LetterKind::digit:
      return is_numeric(c);
    case LetterKind::punctuation:
    case LetterKind::bert_punctuation:
      return is_punctuation(c);
    case LetterKind::space:
      return is_space(c);
    case LetterKind::delimiter:
      return c == step.delimiter;
  }
  return false;
}

// \w+ or [^\w\s]+
void find_words(std::string_view text, std::vector<TextRange>& matches) {
  int before = 0;  // 0 space, 1 word, 2 other
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    const size_t end = i + size_t(step.length);
    const int kind = is_word(step.code_point) ? 1 : is_space(step.code_point) ? 0 : 2;
    if (kind != 0 && kind == before) {
      matches.back().end = end;
    } else if (kind != 0) {
      matches.push_back({i, end});
    }
    before = kind;
    i = end;
  }
}

void find_chunks(std::string_view text, std::vector<TextRange>& matches, size_t length) {
  size_t n = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = i + size_t(decode_utf8(text, i).length);
    if (n % length == 0) {
      matches.push_back({i, end});
    } else {
      matches.back().end = end;
    }
    ++n;
    i = end;
  }
}

// Rebuilds the text piece by piece; `rewrite` gives each piece's new text.
template <typename Rewrite>
void rewrite_pieces(Pieces& pieces, const Rewrite& rewrite) {
  std::string text;
  text.reserve(pieces.text.size() + pieces.text.size() / 8);
  for (Piece& piece : pieces.list) {
    const size_t begin = text.size();
    rewrite(std::string_view(pieces.text).substr(piece.begin, piece.end - piece.begin),
            piece.at_start, text);
    piece.begin = begin;
    piece.end = text.size();
  }
  pieces.text = std::move(text);
}

void metaspace(Pieces& pieces, const MetaspaceStep& step) {
  std::string mark;
  append_utf8(mark, step.replacement);
  rewrite_pieces(pieces, [&](std::string_view old, bool at_start, std::string& out) {
    const bool marked = old.starts_with(mark) || old.starts_with(' ');
    const bool wanted = step.prepend == PrependScheme::always ||
                        (step.prepend == PrependScheme::first && at_start);
    if (wanted && !marked) out += mark;
    for (const char c : old) {
      if (c == ' ') {
        out += mark;
      } else {
        out += c;
      }
    }
  });
  if (!step.split) return;
  split_pieces(pieces, SplitBehavior::merged_with_next, false,
               [&](std::string_view text, std::vector<TextRange>& matches) {
                 find_letters(text, matches,
                              [&](char32_t c) { return c == step.replacement; });
               });
}

void byte_level(Pieces& pieces, const ByteLevelStep& step, SpanUnit unit) {
  if (step.add_prefix_space) {
    rewrite_pieces(pieces, [](std::string_view old, bool, std::string& out) {
      if (!old.starts_with(' ')) out += ' ';
      out += old;
    });
  }
  if (step.use_regex) {
    split_pieces(pieces, SplitBehavior::isolated, false,
                 [](std::string_view text, std::vector<TextRange>& matches) {
                   find_known(KnownPattern::gpt2, text, matches);
                 });
  }
  if (unit == SpanUnit::bytes) return;
  rewrite_pieces(pieces, [](std::string_view old, bool, std::string& out) {
    out += to_byte_letters(old);
  });
}

}  // namespace

PreTokenizer::PreTokenizer(std::vector<PreTokenizerStep> steps, std::string_view source)
    : steps_(std::move(steps)) {
  const auto is_byte_level = [](const PreTokenizerStep& step) {
    return std::holds_alternative<ByteLevelStep>(step);
  };
  for (const PreTokenizerStep& step : steps_) {
    if (const auto* split = std::get_if<SplitStep>(&step))
      matchers_.emplace_back(split->pattern,
                             fmt::format("{}: pre_tokenizer: Split", source));
  }
  if (!steps_.empty() && is_byte_level(steps_.back()) &&
      std::ranges::count_if(steps_, is_byte_level) == 1)
    unit_ = SpanUnit::bytes;
}

Pieces PreTokenizer::split(std::string span, bool at_start) const {
  Pieces pieces{std::move(span), {}};
  if (!pieces.text.empty()) pieces.list.push_back({0, pieces.text.size(), at_start});
  size_t n_matchers = 0;
  for (const PreTokenizerStep& step : steps_) {
    if (const auto* split = std::get_if<SplitStep>(&step)) {
      const PatternMatcher& matcher = matchers_[n_matchers++];
      split_pieces(pieces, split->behavior, split->invert,
                   [&](std::string_view text, std::vector<TextRange>& matches) {
                     matcher.find_all(text, matches);
                   });
    } else if (const auto* bytes = std::get_if<ByteLevelStep>(&step)) {
      byte_level(pieces, *bytes, unit_);
    } else if (const auto* space = std::get_if<MetaspaceStep>(&step)) {
      metaspace(pieces, *space);
    } else if (const auto* letters = std::get_if<LetterSplitStep>(&step)) {
      split_pieces(pieces, letters->behavior, false,
                   [&](std::string_view text, std::vector<TextRange>& matches) {
                     find_letters(text, matches,
                                  [&](char32_t c) { return is_of_kind(c, *letters); });
                   });
    } else if (std::holds_alternative<WordSplitStep>(step)) {
      split_pieces(pieces, SplitBehavior::removed, true, find_words);
    } else {
      const size_t length = std::get<FixedLengthStep>(step).length;
      split_pieces(pieces, SplitBehavior::isolated, false,
                   [&](std::string_view text, std::vector<TextRange>& matches) {
                     find_chunks(text, matches, length);
                   });
    }
  }
  return pieces;
}

}  // namespace ingot
