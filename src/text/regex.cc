#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {
namespace {

struct FreeContext {
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, FreeContext>;

// Enough for any pattern that treats a letter once or twice; a hostile one stops here.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;

std::string error_text(int code) {
  std::array<char, 256> buffer{};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR8*>(buffer.data()),
                          buffer.size());
  return buffer.data();
}

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> code;
  std::string pattern;  // as the file has it, for messages
};

Regex::Regex(std::string_view oniguruma_pattern, std::string_view field)
    : code_(std::make_unique<Code>()) {
  code_->pattern = oniguruma_pattern;
  const std::string translated = pcre2_from_oniguruma(oniguruma_pattern, field);
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t error_offset = 0;
  code_->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR8>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                    &error, &error_offset, context.get()));
  if (!code_->code)
    fail("{}: regular expression \"{}\" is not understood: {}", field,
         printable_text(oniguruma_pattern), error_text(error));
  pcre2_jit_compile(code_->code.get(),
                    PCRE2_JIT_COMPLETE);  // without it, the interpreter
}

Regex::~Regex() = default;
Regex::Regex(Regex&& other) noexcept = default;
Regex& Regex::operator=(Regex&& other) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<TextRange>& matches) const {
  const Owned<pcre2_match_data> data(
      pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  const Owned<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  const auto match_at = [&](size_t offset, uint32_t options) {
    return pcre2_match(code_->code.get(), subject, text.size(), offset,
                       options | PCRE2_NO_UTF_CHECK, data.get(), context.get());
  };
  size_t last_end = text.size() + 1;  // where the last match ended; none yet
  for (size_t offset = 0; offset <= text.size();) {
    int found = match_at(offset, 0);
    // The compiled code has 32 KiB of stack; the interpreter keeps its own on the heap.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match_at(offset, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0)
      fail("regular expression \"{}\" gave up on a text of {} bytes: {}",
           printable_text(code_->pattern), text.size(), error_text(found));
    const size_t* bounds = pcre2_get_ovector_pointer(data.get());
    const size_t begin = bounds[0];
    const size_t end = bounds[1];
    if (begin == end && end == last_end) {
      // An empty match right after a match does not count.
      if (offset == text.size()) return;
      offset += size_t(decode_utf8(text, offset).length);
      continue;
    }
    matches.push_back({begin, end});
    offset = last_end = end;
  }
}

}  // namespace ingot
