#include "text/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/normalize.h"

namespace ingot {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::string join(const std::vector<std::string>& strings) {
  std::string all;
  for (const std::string& s : strings) all += s;
  return all;
}

// "<0xHH>", read as leniently as the reference does: lower case, and "+H".
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return std::nullopt;
  std::string_view digits = token.substr(3, 2);
  if (digits[0] == '+') digits.remove_prefix(1);
  int value = 0;
  for (const char c : digits) {
    if (std::isxdigit(uint8_t(c)) == 0) return std::nullopt;
    value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return char(value);
}

// How many bytes at the front are certain: all but a sequence that more bytes may
// complete.
size_t certain_length(std::string_view bytes) {
  const size_t from = bytes.size() < 3 ? 0 : bytes.size() - 3;
  for (size_t i = from; i < bytes.size(); ++i) {
    if ((uint8_t(bytes[i]) & 0xc0) == 0x80) continue;
    const Utf8Step step = decode_utf8(bytes, i);
    if (!step.valid && step.truncated) return i;
  }
  return bytes.size();
}

void byte_level(Decoder::StepState& state, std::vector<std::string>& strings, bool last) {
  for (const std::string& token : strings) {
    const auto bytes = from_byte_letters(token);
    state.held += bytes ? *bytes : token;
  }
  const size_t length = last ? state.held.size() : certain_length(state.held);
  strings = {lossy_utf8(std::string_view(state.held).substr(0, length))};
  state.held.erase(0, length);
}

// A run of byte tokens is text if all of it is well-formed, else one U+FFFD a byte; so
// the run's end decides.
void byte_fallback(Decoder::StepState& state, std::vector<std::string>& strings,
                   bool last) {
  std::vector<std::string> out;
  const auto end_run = [&] {
    if (state.held.empty()) return;
    if (is_valid_utf8(state.held)) {
      out.push_back(state.held);
    } else {
      std::string marks;
      for (size_t i = 0; i < state.held.size(); ++i) marks += kReplacement;
      out.push_back(std::move(marks));
    }
    state.held.clear();
  };
  for (std::string& token : strings) {
    if (const auto byte = byte_of(token)) {
      state.held += *byte;
    } else {
      end_run();
      out.push_back(std::move(token));
    }
  }
  if (last) end_run();
  strings = std::move(out);
}

// Cuts up to `start` leading and `stop` trailing letters `content` off one string.
std::string strip(std::string_view text, const StripDecoder& step) {
  std::string letter;
  append_utf8(letter, step.content);
  for (size_t i = 0; i < step.start && text.starts_with(letter); ++i)
    text.remove_prefix(letter.size());
  for (size_t i = 0; i < step.stop && text.ends_with(letter); ++i)
    text.remove_suffix(letter.size());
  return std::string(text);
}

// The same on one text that comes in parts.
std::string strip_stream(Decoder::StepState& state, std::string_view text,
                         const StripDecoder& step, bool last) {
  std::string letter;
  append_utf8(letter, step.content);
  while (!state.start_passed && state.n_seen < step.start && text.starts_with(letter)) {
    text.remove_prefix(letter.size());
    ++state.n_seen;
  }
  if (!text.empty()) state.start_passed = true;
  state.held += text;
  size_t keep = state.held.size();
  for (size_t i = 0; i < step.stop; ++i) {
    if (!std::string_view(state.held).substr(0, keep).ends_with(letter)) break;
    keep -= letter.size();
  }
  std::string out = state.held.substr(0, keep);
  state.held.erase(0, keep);
  if (last) state.held.clear();
  return out;
}

std::string metaspace(std::string_view token, const MetaspaceDecoder& step, bool first) {
  std::string mark;
  append_utf8(mark, step.replacement);
  const bool drop = first && step.prepend != PrependScheme::never;
  std::string out;
  for (size_t i = 0; i < token.size();) {
    if (token.substr(i).starts_with(mark)) {
      if (!drop) out += ' ';
      i += mark.size();
    } else {
      out += token[i++];
    }
  }
  return out;
}

}  // namespace

Decoder::Decoder(std::vector<DecoderStep> steps, bool joins_with_spaces,
                 std::string_view source)
    : steps_(std::move(steps)), joins_with_spaces_(joins_with_spaces) {
  bool joined = false;
  for (const DecoderStep& step : steps_) {
    sees_one_text_.push_back(joined);
    joined |= std::holds_alternative<ByteLevelDecoder>(step) ||
              std::holds_alternative<FuseDecoder>(step);
    matcher_of_step_.push_back(matchers_.size());
    if (const auto* replace = std::get_if<ReplaceDecoder>(&step))
      matchers_.emplace_back(replace->pattern,
                             fmt::format("{}: decoder: Replace", source));
  }
}

Decoder::Stream Decoder::start() const {
  Stream stream;
  stream.steps.resize(steps_.size());
  return stream;
}

std::string Decoder::push(Stream& stream, std::string_view token) const {
  Strings strings;
  strings.emplace_back(token);
  return run(stream, std::move(strings), false);
}

std::string Decoder::finish(Stream& stream) const { return run(stream, {}, true); }

std::string Decoder::run(Stream& stream, Strings strings, bool last) const {
  for (size_t i = 0; i < steps_.size(); ++i) run_step(i, stream.steps[i], strings, last);
  if (!joins_with_spaces_) return join(strings);
  std::string out;
  for (const std::string& token : strings) {
    if (std::exchange(stream.joined_one, true)) out += ' ';
    out += token;
  }
  return out;
}

void Decoder::run_step(size_t index, StepState& state, Strings& strings,
                       bool last) const {
  const DecoderStep& step = steps_[index];
  if (std::holds_alternative<FuseDecoder>(step)) return;
  const auto* stripped = std::get_if<StripDecoder>(&step);
  if (sees_one_text_[index]) {
    if (stripped != nullptr) {
      strings = {strip_stream(state, join(strings), *stripped, last)};
      return;
    }
    // Any other step after a joining one needs the whole text.
    state.held += join(strings);
    strings.clear();
    if (!last) return;
    strings.push_back(std::exchange(state.held, {}));
  }
  if (stripped != nullptr) {
    for (std::string& token : strings) token = strip(token, *stripped);
  } else if (const auto* replace = std::get_if<ReplaceDecoder>(&step)) {
    const PatternMatcher& matcher = matchers_[matcher_of_step_[index]];
    for (std::string& token : strings)
      token = replace_all(token, matcher, replace->content);
  } else if (const auto* space = std::get_if<MetaspaceDecoder>(&step)) {
    for (std::string& token : strings)
      token = metaspace(token, *space, state.n_seen++ == 0);
  } else if (std::holds_alternative<ByteFallbackDecoder>(step)) {
    byte_fallback(state, strings, last);
  } else {
    byte_level(state, strings, last);
  }
}

std::string Decoder::token_bytes(std::string_view token) const {
  std::string text(token);
  for (size_t i = 0; i < steps_.size() && !sees_one_text_[i]; ++i) {
    const DecoderStep& step = steps_[i];
    if (const auto* replace = std::get_if<ReplaceDecoder>(&step)) {
      text = replace_all(text, matchers_[matcher_of_step_[i]], replace->content);
    } else if (const auto* space = std::get_if<MetaspaceDecoder>(&step)) {
      text = metaspace(text, *space, false);
    } else if (std::holds_alternative<ByteFallbackDecoder>(step)) {
      if (const auto byte = byte_of(text)) return std::string(1, *byte);
    } else if (std::holds_alternative<ByteLevelDecoder>(step)) {
      if (auto bytes = from_byte_letters(text)) return *bytes;
    }
  }
  return text;
}

}  // namespace ingot
