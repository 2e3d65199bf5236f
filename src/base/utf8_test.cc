#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace ingot {
namespace {

using namespace std::string_literals;

// Encoding straight from the bit pattern of RFC 3629, for every scalar value.
TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(text, c);
    const size_t wanted = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    ASSERT_EQ(text.size(), wanted);
    const Utf8Step step = decode_utf8(text, 0);
    ASSERT_TRUE(step.valid);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(size_t(step.length), wanted);
  }
}

TEST(Utf8, IllFormedIsRefused) {
  for (const std::string& bad :
       {"\x80"s, "\xbf"s, "\xc0\x80"s, "\xc1\xbf"s,             // stray, overlong
        "\xe0\x80\x80"s, "\xe0\x9f\xbf"s, "\xf0\x8f\xbf\xbf"s,  // overlong
        "\xed\xa0\x80"s, "\xed\xbf\xbf"s,                       // surrogates
        "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s,      // past U+10FFFF
        "\xe2\x82"s, "\xf0\x9f\x98"s, "a\xc3"s, "\xc3("s}) {
    EXPECT_FALSE(is_valid_utf8(bad)) << printable_text(bad);
  }
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("a\0b"s));
  EXPECT_TRUE(is_valid_utf8("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));
}

// The example of table 3-8 in the Unicode standard (chapter 3.9), and what Python's
// bytes.decode("utf-8", "replace") gives for the others.
TEST(Utf8, MaximalSubpartsBecomeOneReplacementEach) {
  const auto kBad = "\xef\xbf\xbd"s;
  EXPECT_EQ(lossy_utf8("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
            "a" + kBad + kBad + kBad + "b" + kBad + "c" + kBad + kBad + "d");
  EXPECT_EQ(lossy_utf8("\xc0\xaf"), kBad + kBad);
  EXPECT_EQ(lossy_utf8("\xed\xa0\x80"), kBad + kBad + kBad);
  EXPECT_EQ(lossy_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"),
            kBad + kBad + kBad + kBad + kBad + "A" + kBad + kBad + "B");
  EXPECT_EQ(lossy_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"),
            kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(lossy_utf8("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(Utf8, TruncatedOnlyWhenMoreBytesCouldHelp) {
  EXPECT_TRUE(decode_utf8("\xf0\x9f\x98", 0).truncated);
  EXPECT_TRUE(decode_utf8("x\xe2", 1).truncated);
  EXPECT_FALSE(decode_utf8("\xe0\x80", 0).truncated);
  EXPECT_FALSE(decode_utf8("\xc3(", 0).truncated);
  EXPECT_FALSE(decode_utf8("\xff", 0).truncated);
  EXPECT_EQ(decode_utf8("\xf0\x9f\x98", 0).length, 3);
}

TEST(Utf8, PrintableHidesControlsAndBadBytes) {
  EXPECT_EQ(printable_text("a\nb\x1b[2J\x7f\xff"), "a\\x0ab\\x1b[2J\\x7f\\xff");
  EXPECT_EQ(printable_text("\xc2\x9b"), "\\xc2\\x9b");  // C1 control sequence introducer
  EXPECT_EQ(printable_text("gr\xc3\xbc\xc3\x9f \xe2\x82\xac"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac");
  EXPECT_EQ(printable_text("a\0b"s), "a\\x00b");
}

TEST(Utf8, RandomBytesAlwaysBecomeValid) {
  std::mt19937 random(3);
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& c : bytes)
      c = char(random() % 4 == 0 ? random() : 0x80 | (random() & 0x7f));
    ASSERT_TRUE(is_valid_utf8(lossy_utf8(bytes)));
    ASSERT_TRUE(is_valid_utf8(printable_text(bytes)));
    ASSERT_EQ(is_valid_utf8(bytes), lossy_utf8(bytes) == bytes);
  }
}

}  // namespace
}  // namespace ingot
