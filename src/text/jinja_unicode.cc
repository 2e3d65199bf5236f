#include "text/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

#include "base/utf8.h"

namespace ingot::jinja {
namespace {

struct Range {
  char32_t first, last;
};
struct Expansion {
  char32_t from;
  const char16_t* upper;
  const char16_t* title;
};

// Digit characters that are not decimal (category No).
constexpr Range kOtherDigits[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};
// Other_Uppercase of Unicode's PropList.
constexpr Range kOtherUpper[] = {
    {0x2160, 0x216F},   {0x24B6, 0x24CF},   {0x1F130, 0x1F149},
    {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
};
// Other_Lowercase.
constexpr Range kOtherLower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
    {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},
    {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C},   {0x2170, 0x217F},   {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},
    {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
};
// Upper and title case that are longer than one character (SpecialCasing).
constexpr Expansion kExpansions[] = {
    {0xDF, u"SS", u"Ss"},
    {0x149, u"\u02BCN", u"\u02BCN"},
    {0x1F0, u"J\u030C", u"J\u030C"},
    {0x390, u"\u0399\u0308\u0301", u"\u0399\u0308\u0301"},
    {0x3B0, u"\u03A5\u0308\u0301", u"\u03A5\u0308\u0301"},
    {0x587, u"\u0535\u0552", u"\u0535\u0582"},
    {0x1E96, u"H\u0331", u"H\u0331"},
    {0x1E97, u"T\u0308", u"T\u0308"},
    {0x1E98, u"W\u030A", u"W\u030A"},
    {0x1E99, u"Y\u030A", u"Y\u030A"},
    {0x1E9A, u"A\u02BE", u"A\u02BE"},
    {0x1F50, u"\u03A5\u0313", u"\u03A5\u0313"},
    {0x1F52, u"\u03A5\u0313\u0300", u"\u03A5\u0313\u0300"},
    {0x1F54, u"\u03A5\u0313\u0301", u"\u03A5\u0313\u0301"},
    {0x1F56, u"\u03A5\u0313\u0342", u"\u03A5\u0313\u0342"},
    {0x1F80, u"\u1F08\u0399", u"\u1F88"},
    {0x1F81, u"\u1F09\u0399", u"\u1F89"},
    {0x1F82, u"\u1F0A\u0399", u"\u1F8A"},
    {0x1F83, u"\u1F0B\u0399", u"\u1F8B"},
    {0x1F84, u"\u1F0C\u0399", u"\u1F8C"},
    {0x1F85, u"\u1F0D\u0399", u"\u1F8D"},
    {0x1F86, u"\u1F0E\u0399", u"\u1F8E"},
    {0x1F87, u"\u1F0F\u0399", u"\u1F8F"},
    {0x1F88, u"\u1F08\u0399", u"\u1F88"},
    {0x1F89, u"\u1F09\u0399", u"\u1F89"},
    {0x1F8A, u"\u1F0A\u0399", u"\u1F8A"},
    {0x1F8B, u"\u1F0B\u0399", u"\u1F8B"},
    {0x1F8C, u"\u1F0C\u0399", u"\u1F8C"},
    {0x1F8D, u"\u1F0D\u0399", u"\u1F8D"},
    {0x1F8E, u"\u1F0E\u0399", u"\u1F8E"},
    {0x1F8F, u"\u1F0F\u0399", u"\u1F8F"},
    {0x1F90, u"\u1F28\u0399", u"\u1F98"},
    {0x1F91, u"\u1F29\u0399", u"\u1F99"},
    {0x1F92, u"\u1F2A\u0399", u"\u1F9A"},
    {0x1F93, u"\u1F2B\u0399", u"\u1F9B"},
    {0x1F94, u"\u1F2C\u0399", u"\u1F9C"},
    {0x1F95, u"\u1F2D\u0399", u"\u1F9D"},
    {0x1F96, u"\u1F2E\u0399", u"\u1F9E"},
    {0x1F97, u"\u1F2F\u0399", u"\u1F9F"},
    {0x1F98, u"\u1F28\u0399", u"\u1F98"},
    {0x1F99, u"\u1F29\u0399", u"\u1F99"},
    {0x1F9A, u"\u1F2A\u0399", u"\u1F9A"},
    {0x1F9B, u"\u1F2B\u0399", u"\u1F9B"},
    {0x1F9C, u"\u1F2C\u0399", u"\u1F9C"},
    {0x1F9D, u"\u1F2D\u0399", u"\u1F9D"},
    {0x1F9E, u"\u1F2E\u0399", u"\u1F9E"},
    {0x1F9F, u"\u1F2F\u0399", u"\u1F9F"},
    {0x1FA0, u"\u1F68\u0399", u"\u1FA8"},
    {0x1FA1, u"\u1F69\u0399", u"\u1FA9"},
    {0x1FA2, u"\u1F6A\u0399", u"\u1FAA"},
    {0x1FA3, u"\u1F6B\u0399", u"\u1FAB"},
    {0x1FA4, u"\u1F6C\u0399", u"\u1FAC"},
    {0x1FA5, u"\u1F6D\u0399", u"\u1FAD"},
    {0x1FA6, u"\u1F6E\u0399", u"\u1FAE"},
    {0x1FA7, u"\u1F6F\u0399", u"\u1FAF"},
    {0x1FA8, u"\u1F68\u0399", u"\u1FA8"},
    {0x1FA9, u"\u1F69\u0399", u"\u1FA9"},
    {0x1FAA, u"\u1F6A\u0399", u"\u1FAA"},
    {0x1FAB, u"\u1F6B\u0399", u"\u1FAB"},
    {0x1FAC, u"\u1F6C\u0399", u"\u1FAC"},
    {0x1FAD, u"\u1F6D\u0399", u"\u1FAD"},
    {0x1FAE, u"\u1F6E\u0399", u"\u1FAE"},
    {0x1FAF, u"\u1F6F\u0399", u"\u1FAF"},
    {0x1FB2, u"\u1FBA\u0399", u"\u1FBA\u0345"},
    {0x1FB3, u"\u0391\u0399", u"\u1FBC"},
    {0x1FB4, u"\u0386\u0399", u"\u0386\u0345"},
    {0x1FB6, u"\u0391\u0342", u"\u0391\u0342"},
    {0x1FB7, u"\u0391\u0342\u0399", u"\u0391\u0342\u0345"},
    {0x1FBC, u"\u0391\u0399", u"\u1FBC"},
    {0x1FC2, u"\u1FCA\u0399", u"\u1FCA\u0345"},
    {0x1FC3, u"\u0397\u0399", u"\u1FCC"},
    {0x1FC4, u"\u0389\u0399", u"\u0389\u0345"},
    {0x1FC6, u"\u0397\u0342", u"\u0397\u0342"},
    {0x1FC7, u"\u0397\u0342\u0399", u"\u0397\u0342\u0345"},
    {0x1FCC, u"\u0397\u0399", u"\u1FCC"},
    {0x1FD2, u"\u0399\u0308\u0300", u"\u0399\u0308\u0300"},
    {0x1FD3, u"\u0399\u0308\u0301", u"\u0399\u0308\u0301"},
    {0x1FD6, u"\u0399\u0342", u"\u0399\u0342"},
    {0x1FD7, u"\u0399\u0308\u0342", u"\u0399\u0308\u0342"},
    {0x1FE2, u"\u03A5\u0308\u0300", u"\u03A5\u0308\u0300"},
    {0x1FE3, u"\u03A5\u0308\u0301", u"\u03A5\u0308\u0301"},
    {0x1FE4, u"\u03A1\u0313", u"\u03A1\u0313"},
    {0x1FE6, u"\u03A5\u0342", u"\u03A5\u0342"},
    {0x1FE7, u"\u03A5\u0308\u0342", u"\u03A5\u0308\u0342"},
    {0x1FF2, u"\u1FFA\u0399", u"\u1FFA\u0345"},
    {0x1FF3, u"\u03A9\u0399", u"\u1FFC"},
    {0x1FF4, u"\u038F\u0399", u"\u038F\u0345"},
    {0x1FF6, u"\u03A9\u0342", u"\u03A9\u0342"},
    {0x1FF7, u"\u03A9\u0342\u0399", u"\u03A9\u0342\u0345"},
    {0x1FFC, u"\u03A9\u0399", u"\u1FFC"},
    {0xFB00, u"FF", u"Ff"},
    {0xFB01, u"FI", u"Fi"},
    {0xFB02, u"FL", u"Fl"},
    {0xFB03, u"FFI", u"Ffi"},
    {0xFB04, u"FFL", u"Ffl"},
    {0xFB05, u"ST", u"St"},
    {0xFB06, u"ST", u"St"},
    {0xFB13, u"\u0544\u0546", u"\u0544\u0576"},
    {0xFB14, u"\u0544\u0535", u"\u0544\u0565"},
    {0xFB15, u"\u0544\u053B", u"\u0544\u056B"},
    {0xFB16, u"\u054E\u0546", u"\u054E\u0576"},
    {0xFB17, u"\u0544\u053D", u"\u0544\u056D"},
};

bool in_ranges(std::span<const Range> ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const Range& r) { return r.first <= c && c <= r.last; });
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

const Expansion* expansion_of(char32_t c) {
  if (c < 0xDF) return nullptr;
  auto found = std::find_if(std::begin(kExpansions), std::end(kExpansions),
                            [c](const Expansion& e) { return e.from == c; });
  return found == std::end(kExpansions) ? nullptr : found;
}

void append_units(std::string& out, const char16_t* units) {
  for (; *units != 0; ++units) append_utf8(out, *units);
}

void append_upper(std::string& out, char32_t c) {
  if (const Expansion* e = expansion_of(c)) return append_units(out, e->upper);
  append_utf8(out,
              static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}
void append_title(std::string& out, char32_t c) {
  if (const Expansion* e = expansion_of(c)) return append_units(out, e->title);
  append_utf8(out,
              static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 ||
             c == 0x2019 || c == 0x2024 || c == 0x2027;
  }
}

// A capital sigma at a word's end becomes the final form.
bool is_final_sigma(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::string& out, std::u32string_view text, size_t at) {
  const char32_t c = text[at];
  if (c == 0x3A3) return append_utf8(out, is_final_sigma(text, at) ? 0x3C2 : 0x3C3);
  if (c == 0x130) return append_units(out, u"i\u0307");
  append_utf8(out,
              static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::u32string decode(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    out.push_back(step.code_point);
    i += static_cast<size_t>(step.length);
  }
  return out;
}

}  // namespace

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = decode_utf8(text, at);
    if (!is_space(step.code_point)) break;
    at += static_cast<size_t>(step.length);
  }
  return at;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u)
      --begin;
    if (!is_space(decode_utf8(text, begin).code_point)) break;
    end = begin;
  }
  return text.size() - end;
}

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL ||
         k == UTF8PROC_CATEGORY_LT || k == UTF8PROC_CATEGORY_LM ||
         k == UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit_character(char32_t c) {
  return is_decimal(c) || (c > 0x7F && in_ranges(kOtherDigits, c));
}
bool is_numeric(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL ||
         k == UTF8PROC_CATEGORY_NO;
}
bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || (c > 0x7F && in_ranges(kOtherUpper, c));
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || (c > 0x7F && in_ranges(kOtherLower, c));
}
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_name_start(char32_t c) { return c == '_' || is_alpha(c); }
bool is_name_character(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

std::string to_upper(std::string_view text) {
  std::string out;
  for (char32_t c : decode(text)) append_upper(out, c);
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  const std::u32string points = decode(text);
  for (size_t i = 0; i < points.size(); ++i) append_lower(out, points, i);
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  const std::u32string points = decode(text);
  bool in_word = false;
  for (size_t i = 0; i < points.size(); ++i) {
    if (in_word) {
      append_lower(out, points, i);
    } else {
      append_title(out, points[i]);
    }
    in_word = is_cased(points[i]);
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  const std::u32string points = decode(text);
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == 0) {
      append_title(out, points[i]);
    } else {
      append_lower(out, points, i);
    }
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  const std::u32string points = decode(text);
  for (size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      append_lower(out, points, i);
    } else if (is_lower(points[i])) {
      append_upper(out, points[i]);
    } else {
      append_utf8(out, points[i]);
    }
  }
  return out;
}

}  // namespace ingot::jinja
