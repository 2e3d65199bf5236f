#include "text/unicode.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/utf8.h"

namespace ingot {
namespace {

struct CategoryRange {
  char32_t first;
  char32_t last;
  std::string_view category;
};
constexpr CategoryRange kNewer[] = {
#include "text/unicode_newer.inc"
};

struct Range {
  char32_t first;
  char32_t last;
};

// Punctuation that `Punctuation` does not split on: its tables (Unicode 8) lack it.
constexpr Range kUnknownPunctuation[] = {
    {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
    {0xc84, 0xc84},     {0x1b4e, 0x1b4f},   {0x1b7d, 0x1b7f},   {0x2e43, 0x2e4f},
    {0x2e52, 0x2e5d},   {0x10d6e, 0x10d6e}, {0x10ead, 0x10ead}, {0x10f55, 0x10f59},
    {0x10f86, 0x10f89}, {0x113d4, 0x113d5}, {0x113d7, 0x113d8}, {0x1144b, 0x1144f},
    {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
    {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
    {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11be1, 0x11be1},
    {0x11c41, 0x11c45}, {0x11c70, 0x11c71}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f},
    {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2}, {0x16d6d, 0x16d6f}, {0x16e97, 0x16e9a},
    {0x16fe2, 0x16fe2}, {0x1e5ff, 0x1e5ff}, {0x1e95e, 0x1e95f},
};

// Code points that the reference's normal forms (Unicode 9) leave alone and utf8proc
// decomposes, composes or reorders.
constexpr Range kUnknownToNormalForms[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},
    {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},
    {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x10781, 0x10785}, {0x10787, 0x107b0},
    {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11938, 0x11938},
    {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34},
    {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e030, 0x1e06d},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
};

bool contains(std::span<const Range> ranges, char32_t c) {
  const auto at = std::ranges::lower_bound(ranges, c, {}, &Range::last);
  return at != ranges.end() && at->first <= c;
}

const CategoryRange* find_newer(char32_t c) {
  const auto at = std::ranges::lower_bound(kNewer, c, {}, &CategoryRange::last);
  return at != std::end(kNewer) && at->first <= c ? at : nullptr;
}

uint8_t class_of(char32_t c) {
  const std::string_view category = general_category(c);
  uint8_t bits = 0;
  switch (category[0]) {
    case 'L':
      bits = kLetter;
      if (category[1] != 'l') bits |= kUpperLike;
      if (category[1] != 'u' && category[1] != 't') bits |= kLowerLike;
      break;
    case 'M':
      bits = kMark | kUpperLike | kLowerLike;
      break;
    case 'N':
      bits = kNumber;
      break;
    case 'P':
    case 'S':
      bits = kPunctSymbol;
      break;
    default:
      break;
  }
  if (is_space(c)) bits |= kSpace;
  if (c == '\r' || c == '\n') bits |= kNewline;
  return bits;
}

std::array<uint8_t, 0x300> make_early_classes() {
  std::array<uint8_t, 0x300> classes{};
  for (size_t c = 0; c < classes.size(); ++c) classes[c] = class_of(char32_t(c));
  return classes;
}

struct FreeDeleter {
  void operator()(utf8proc_uint8_t* p) const { std::free(p); }
};

int form_options(NormalForm form) {
  switch (form) {
    case NormalForm::nfc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalForm::nfd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalForm::nfkc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::nfkd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   utf8proc_ssize_t(text.size()), &mapped,
                                   utf8proc_option_t(form_options(form)));
  const std::unique_ptr<utf8proc_uint8_t, FreeDeleter> owned(mapped);
  CHECK(length >= 0);  // fails only on ill-formed text and without memory
  out.append(reinterpret_cast<const char*>(mapped), size_t(length));
}

char32_t lower_of(char32_t c) {
  // Letters of Unicode 16 and 17, unknown to utf8proc 2.8.
  if (c >= 0x10d50 && c <= 0x10d65) return c + 32;
  if (c >= 0x16ea0 && c <= 0x16eb8) return c + 27;
  switch (c) {
    case 0x1c89:
    case 0xa7cc:
    case 0xa7ce:
    case 0xa7d2:
    case 0xa7d4:
    case 0xa7da:
      return c + 1;
    case 0xa7cb:
      return 0x264;
    case 0xa7dc:
      return 0x19b;
    default:
      return char32_t(utf8proc_tolower(utf8proc_int32_t(c)));
  }
}

}  // namespace

std::string_view general_category(char32_t c) {
  if (c >= 0x800) {  // the younger table begins at U+0897
    if (const CategoryRange* newer = find_newer(c)) return newer->category;
  }
  return utf8proc_category_string(utf8proc_int32_t(c));
}

uint8_t letter_class(char32_t c) {
  static const std::array<uint8_t, 0x300> early = make_early_classes();
  return c < early.size() ? early[c] : class_of(c);
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == 0x20 || (c >= 0x09 && c <= 0x0d);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_numeric(char32_t c) {
  // The two ranges are Unicode 17: Rust's own tables are a version further.
  return (letter_class(c) & kNumber) != 0 || (c >= 0x11de0 && c <= 0x11de9) ||
         (c >= 0x16ff4 && c <= 0x16ff6);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) ||
           (c >= 0x5b && c <= 0x60) || (c >= 0x7b && c <= 0x7e);
  if (c == 0x166d || c == 0x111c9) return true;  // P in Unicode 8, S and M since
  return general_category(c)[0] == 'P' && !contains(kUnknownPunctuation, c);
}

bool is_word(char32_t c) {
  if ((letter_class(c) & (kLetter | kMark)) != 0) return true;
  const std::string_view category = general_category(c);
  if (category == "Nd" || category == "Nl" || category == "Pc") return true;
  return c == 0x200c || c == 0x200d ||    // Join_Control
         (c >= 0x24b6 && c <= 0x24e9) ||  // symbols that are Alphabetic
         (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

bool is_mark(char32_t c) { return (letter_class(c) & kMark) != 0; }

std::string normalized(std::string_view text, NormalForm form) {
  // Bytes below 0xcc begin code points below U+0300; those are stable under NFC.
  const unsigned limit = form == NormalForm::nfc ? 0xcc : 0x80;
  if (std::ranges::all_of(text, [&](char c) { return uint8_t(c) < limit; }))
    return std::string(text);
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    // A code point that the reference does not know is a starter that joins with nothing,
    // so the stretches on both sides of it are normalized on their own.
    if (step.code_point >= 0x300 && (contains(kUnknownToNormalForms, step.code_point) ||
                                     find_newer(step.code_point))) {
      append_normalized(out, text.substr(begin, i - begin), form);
      out += text.substr(i, size_t(step.length));
      begin = i + size_t(step.length);
    }
    i += size_t(step.length);
  }
  append_normalized(out, text.substr(begin), form);
  return out;
}

std::string lowercased(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    if (step.code_point == 0x130) {
      out += "i\xcc\x87";  // the one letter whose lower case is two code points
    } else {
      append_utf8(out, lower_of(step.code_point));
    }
    i += size_t(step.length);
  }
  return out;
}

std::string without_marks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    if (!is_mark(step.code_point)) out += text.substr(i, size_t(step.length));
    i += size_t(step.length);
  }
  return out;
}

std::string newer_ranges(std::string_view category) {
  std::string out;
  for (const CategoryRange& range : kNewer) {
    if (!range.category.starts_with(category)) continue;
    out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", uint32_t(range.first),
                       uint32_t(range.last));
  }
  return out;
}

}  // namespace ingot
