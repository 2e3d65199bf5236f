// Reliability R5: how the time of encode grows with the length of the text.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <time.h>

#include <cmath>
#include <random>

#include "base/utf8.h"
#include "text/tokenizer_testing.h"

namespace ingot {
namespace {

using Random = std::mt19937_64;

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
constexpr size_t kLongest = size_t(1) << 20;
#else
constexpr size_t kLongest = size_t(1) << 16;
#endif
constexpr size_t kShortest = size_t(1) << 10;
constexpr double kMaxExponent = 1.1;
// Another process can only make a time longer, so the shortest of a few is the true one;
// a figure over the bar is measured again so many times.
constexpr int kMostRounds = 6;

template <size_t N>
const char* one_of(const char* const (&list)[N], Random& random) {
  return list[random() % N];
}

// ---- what the texts are made of ----
std::string repeated(const char* unit, size_t n_characters) {
  std::string text;
  for (size_t i = 0; i < n_characters; ++i) text += unit;
  return text;
}
template <char32_t kFirst, char32_t kLast>
std::string any_of_range(size_t n_characters, Random& random) {
  std::string text;
  for (size_t i = 0; i < n_characters; ++i)
    append_utf8(text, kFirst + char32_t(random() % (kLast - kFirst + 1)));
  return text;
}
std::string letter(size_t n, Random&) { return repeated("a", n); }
std::string spaces(size_t n, Random&) { return repeated(" ", n); }
std::string lines(size_t n, Random&) { return repeated("\n", n); }
std::string dashes(size_t n, Random&) { return repeated("-", n); }
std::string ideograph(size_t n, Random&) { return repeated("\u4e2d", n); }

std::string prose(size_t n_characters, Random& random) {
  static const char* const kWords[] = {
      "the",    "river", "of",       "a",     "letter",   "had",      "been",
      "under",  "stone", "for",      "years", "and",      "nobody's", "grandmother",
      "asked,", "why",   "it",       "still", "remained", "there.",   "Someone",
      "wrote:", "now",   "we",       "know",  "that",     "however",  "unlikely",
      "1874",   "was",   "Lisbon's", "first", "quiet",    "winter;",  "rain"};
  std::string text;
  while (text.size() < n_characters) {
    text += one_of(kWords, random);
    text += random() % 60 == 0 ? "\n\n" : " ";
  }
  return text.substr(0, n_characters);
}
std::string code(size_t n_characters, Random& random) {
  static const char* const kLines[] = {
      "int total = 0;\n",
      "for (size_t i = 0; i < values.size(); ++i) {\n",
      "  total += values[i] * 0x1f;\n",
      "}\n\n",
      "\treturn self.cache.get(key, None)\n",
      "        if (node == nullptr || node->left != kEmpty) continue;\n",
      "// ---------------------------------------------------------------------\n",
      "const std::map<std::string, std::vector<double>>& table() const;\n"};
  std::string text;
  while (text.size() < n_characters) text += one_of(kLines, random);
  return text.substr(0, n_characters);
}
std::string any_unicode(size_t n_characters, Random& random) {
  std::string text;
  for (size_t i = 0; i < n_characters; ++i) {
    char32_t c = 0xd800;
    while (c >= 0xd800 && c < 0xe000) c = char32_t(1 + random() % 0x10ffff);
    append_utf8(text, c);
  }
  return text;
}
std::string accents(size_t n_characters, Random& random) {
  std::string text;
  for (size_t i = 0; i < n_characters; ++i)
    append_utf8(text, i % 2 == 0 ? 'a' + char32_t(random() % 26)
                                 : 0x300 + char32_t(random() % 0x30));
  return text;
}

struct Generator {
  const char* name;
  std::string (*make)(size_t n_characters, Random& random);
};
constexpr Generator kGenerators[] = {
    {"prose", prose},
    {"code", code},
    {"one letter", letter},
    {"spaces", spaces},
    {"line ends", lines},
    {"dashes", dashes},
    {"one ideograph", ideograph},
    {"letters", any_of_range<'a', 'z'>},
    {"digits", any_of_range<'0', '9'>},
    {"ASCII", any_of_range<1, 127>},
    {"ideographs", any_of_range<0x4e00, 0x9fa5>},
    {"kana", any_of_range<0x3041, 0x3096>},
    {"emoji", any_of_range<0x1f300, 0x1f64f>},
    {"accents", accents},
    {"any Unicode", any_unicode},
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

struct Length {
  size_t n_characters;
  // Several for the shorter lengths: what one text leaves in the caches would make the
  // next run of the same text look faster than a text of its length is.
  std::vector<std::string> texts;
  double seconds = INFINITY;  // of one text
};

std::vector<Length> make_lengths(const Generator& generator) {
  Random random(20261201);
  std::vector<Length> lengths;
  for (size_t n = kShortest; n <= kLongest; n *= 4) {
    Length length{n, {}};
    const size_t n_texts = std::max<size_t>(1, (size_t(1) << 15) / n);
    for (size_t i = 0; i < n_texts; ++i)
      length.texts.push_back(generator.make(n, random));
    lengths.push_back(std::move(length));
  }
  return lengths;
}

void measure(const Tokenizer& tokenizer, Length& length) {
  const int repeats = length.n_characters < (size_t(1) << 18) ? 3 : 1;
  for (int i = 0; i < repeats; ++i) {
    const double begin = thread_seconds();
    for (const std::string& text : length.texts)
      EXPECT_FALSE(tokenizer.encode(text).empty());
    const double seconds = thread_seconds() - begin;
    length.seconds = std::min(length.seconds, seconds / double(length.texts.size()));
  }
}

// The slope of log seconds over log length, by least squares.
double exponent(const std::vector<Length>& lengths) {
  double x_mean = 0;
  double y_mean = 0;
  const auto x = [](const Length& length) {
    return std::log(double(length.n_characters));
  };
  const auto y = [](const Length& length) { return std::log(length.seconds); };
  for (const Length& length : lengths) {
    x_mean += x(length) / double(lengths.size());
    y_mean += y(length) / double(lengths.size());
  }
  double xy = 0;
  double xx = 0;
  for (const Length& length : lengths) {
    xy += (x(length) - x_mean) * (y(length) - y_mean);
    xx += (x(length) - x_mean) * (x(length) - x_mean);
  }
  return xy / xx;
}

class Growth : public testing::TestWithParam<const char*> {};

TEST_P(Growth, OfEncodeIsNearLinear) {
  const Tokenizer tokenizer = Tokenizer::from_directory(tokenizer_directory(GetParam()));
  for (const Generator& generator : kGenerators) {
    std::vector<Length> lengths = make_lengths(generator);
    double measured = INFINITY;
    for (int i = 0; i < kMostRounds && measured > kMaxExponent; ++i) {
      for (Length& length : lengths) measure(tokenizer, length);
      measured = exponent(lengths);
    }
    fmt::print("{:12} {:14} exponent {:.3f}, {:5.0f} to {:5.0f} ns a character\n",
               GetParam(), generator.name, measured,
               lengths.front().seconds / double(kShortest) * 1e9,
               lengths.back().seconds / double(kLongest) * 1e9);
    EXPECT_LE(measured, kMaxExponent) << generator.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Growth, testing::ValuesIn(kTokenizerNames),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ingot
