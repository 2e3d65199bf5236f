#include "base/utf8.h"

#include <fmt/format.h>

namespace ingot {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

Utf8Step decode_utf8(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t lead = byte(offset);
  if (lead < 0x80) return {lead, 1, true, false};
  // Table 3-7 of the Unicode standard: the second byte's range depends on the lead.
  int length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  char32_t code_point = 0;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
    code_point = lead & 0x1fu;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    code_point = lead & 0x0fu;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    code_point = lead & 0x07u;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return {0xfffd, 1, false, false};
  }
  for (int i = 1; i < length; ++i) {
    if (offset + size_t(i) >= text.size()) return {0xfffd, i, false, true};
    const uint8_t next = byte(offset + size_t(i));
    if (next < low || next > high) return {0xfffd, i, false, false};
    code_point = (code_point << 6) | (next & 0x3fu);
    low = 0x80;
    high = 0xbf;
  }
  return {code_point, length, true, false};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    if (!step.valid) return false;
    i += size_t(step.length);
  }
  return true;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xc0 | (c >> 6));
    out += char(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += char(0xe0 | (c >> 12));
    out += char(0x80 | ((c >> 6) & 0x3f));
    out += char(0x80 | (c & 0x3f));
  } else {
    out += char(0xf0 | (c >> 18));
    out += char(0x80 | ((c >> 12) & 0x3f));
    out += char(0x80 | ((c >> 6) & 0x3f));
    out += char(0x80 | (c & 0x3f));
  }
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = decode_utf8(bytes, i);
    out += step.valid ? bytes.substr(i, size_t(step.length)) : kReplacement;
    i += size_t(step.length);
  }
  return out;
}

std::string printable_text(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = decode_utf8(bytes, i);
    // C0, delete and C1: each can move a terminal's cursor or worse.
    const bool control =
        step.valid &&
        (step.code_point < 0x20 || (step.code_point >= 0x7f && step.code_point < 0xa0));
    if (step.valid && !control) {
      out += bytes.substr(i, size_t(step.length));
    } else {
      for (int k = 0; k < step.length; ++k)
        out += fmt::format("\\x{:02x}", uint8_t(bytes[i + size_t(k)]));
    }
    i += size_t(step.length);
  }
  return out;
}

}  // namespace ingot
