#include "text/normalize.h"

#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"
#include "text/byte_level.h"

namespace ingot {
namespace {

std::string strip(std::string_view text, const StripStep& step) {
  size_t begin = 0;
  while (step.left && begin < text.size()) {
    const Utf8Step letter = decode_utf8(text, begin);
    if (!is_space(letter.code_point)) break;
    begin += size_t(letter.length);
  }
  size_t end = begin;  // past the last letter that stays
  for (size_t i = begin; i < text.size();) {
    const Utf8Step letter = decode_utf8(text, i);
    i += size_t(letter.length);
    if (!step.right || !is_space(letter.code_point)) end = i;
  }
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

std::string replace_all(std::string_view text, const PatternMatcher& matcher,
                        std::string_view content) {
  std::vector<TextRange> matches;
  matcher.find_all(text, matches);
  if (matches.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size() + matches.size() * content.size());
  size_t done = 0;
  for (const TextRange& match : matches) {
    out += text.substr(done, match.begin - done);
    out += content;
    done = match.end;
  }
  out += text.substr(done);
  return out;
}

Normalizer::Normalizer(std::vector<NormalizerStep> steps, std::string_view source)
    : steps_(std::move(steps)) {
  for (const NormalizerStep& step : steps_) {
    matcher_of_step_.push_back(matchers_.size());
    if (const auto* replace = std::get_if<ReplaceStep>(&step))
      matchers_.emplace_back(replace->pattern,
                             fmt::format("{}: normalizer: Replace", source));
  }
}

std::string Normalizer::apply(std::string text) const {
  for (size_t i = 0; i < steps_.size(); ++i) text = apply_step(i, std::move(text));
  return text;
}

std::string Normalizer::apply_step(size_t index, std::string text) const {
  const NormalizerStep& step = steps_[index];
  if (const auto* form = std::get_if<UnicodeFormStep>(&step))
    return normalized(text, form->form);
  if (const auto* replace = std::get_if<ReplaceStep>(&step))
    return replace_all(text, matchers_[matcher_of_step_[index]], replace->content);
  if (const auto* prepend = std::get_if<PrependStep>(&step))
    return text.empty() ? text : prepend->text + text;
  if (const auto* sides = std::get_if<StripStep>(&step)) return strip(text, *sides);
  if (std::holds_alternative<LowercaseStep>(step)) return lowercased(text);
  if (std::holds_alternative<StripAccentsStep>(step)) return without_marks(text);
  return to_byte_letters(text);  // ByteLettersStep
}

}  // namespace ingot
