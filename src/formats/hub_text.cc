#include "formats/hub_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace ingot {
namespace {

// Edits (insert, delete, change) between two short texts.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

bool is_near(std::string_view wanted, std::string_view name) {
  if (wanted.empty() || wanted.size() > 255) return false;
  if (name.find(wanted) != std::string_view::npos) return true;
  if (wanted.find(name) != std::string_view::npos) return true;
  return edit_distance(wanted, name) <= std::max<size_t>(2, wanted.size() / 4);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Exactly five decimal digits at `at`; -1 otherwise.
int five_digits(std::string_view text, size_t at) {
  int value = 0;
  for (size_t i = at; i < at + 5; ++i) {
    if (i >= text.size() || text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

}  // namespace

std::string human_bytes(uint64_t n_bytes) {
  const auto n = double(n_bytes);
  if (n >= 1e9) return fmt::format("{:.1f} GB", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.1f} MB", n / 1e6);
  if (n >= 1e3) return fmt::format("{:.1f} kB", n / 1e3);
  return fmt::format("{} B", n_bytes);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

std::string hex_escape(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c > ' ' - 1 && c < 0x7F && c != '%')
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string hex_unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    out += escape ? char(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return out;
}

std::string near_names_hint(std::string_view wanted,
                            const std::vector<std::string>& names) {
  constexpr size_t kMostNames = 3;
  const std::string wanted_lower = lower_case(wanted);
  std::string list;
  size_t n = 0;
  for (const std::string& name : names) {
    if (n == kMostNames || !is_near(wanted_lower, lower_case(name))) continue;
    list += fmt::format("{}'{}'", n == 0 ? "" : " or ", name);
    ++n;
  }
  return n == 0 ? std::string() : fmt::format("did you mean {}?", list);
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

SplitName parse_split_name(std::string_view file_name, std::string_view extension) {
  // "-00001-of-00003" before the extension.
  constexpr size_t kTail = 15;
  SplitName name;
  if (!file_name.ends_with(extension)) return name;
  const std::string_view stem = file_name.substr(0, file_name.size() - extension.size());
  if (stem.size() <= kTail) return name;
  const std::string_view tail = stem.substr(stem.size() - kTail);
  const int part = five_digits(tail, 1);
  const int n_parts = five_digits(tail, 10);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return name;
  if (part < 1 || n_parts < 1 || part > n_parts) return name;
  return {std::string(stem.substr(0, stem.size() - kTail)), part, n_parts};
}

std::string split_part_name(const SplitName& name, int part, std::string_view extension) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.prefix, part, name.n_parts, extension);
}

}  // namespace ingot
