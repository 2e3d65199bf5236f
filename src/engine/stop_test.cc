// Stop strings: any split of the text gives what a search of the whole text gives.
#include <gtest/gtest.h>

#include <random>

#include "engine/generate.h"

namespace ingot {
namespace {

// The first stop string to be complete counts, the longest of two that end together.
std::string brute_force(const std::string& text, const std::vector<std::string>& stops,
                        bool* stopped) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops)
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    *stopped = longest > 0;
    if (*stopped) return text.substr(0, end - longest);
  }
  *stopped = false;
  return text;
}

TEST(StopFilter, HoldsBackOnlyWhatMayBeAStop) {
  StopFilter filter({"END"});
  EXPECT_EQ(filter.push("abE"), "ab");
  EXPECT_EQ(filter.push("N"), "");
  EXPECT_EQ(filter.push("x"), "ENx");
  EXPECT_EQ(filter.push("END and more"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, EverySplitEqualsTheWholeText) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t n = random() % 24; n > 0; --n) text += char('a' + random() % 3);
    std::vector<std::string> stops;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      std::string stop;
      for (size_t k = 1 + random() % 4; k > 0; --k) stop += char('a' + random() % 3);
      stops.push_back(stop);
    }
    bool want_stopped = false;
    const std::string want = brute_force(text, stops, &want_stopped);
    StopFilter filter(stops);
    std::string got;
    for (size_t at = 0; at < text.size() && !filter.stopped();) {
      const size_t n = 1 + random() % 5;
      got += filter.push(std::string_view(text).substr(at, n));
      at += n;
    }
    got += filter.finish();
    ASSERT_EQ(got, want) << "seed 7 round " << round << " text " << text;
    ASSERT_EQ(filter.stopped(), want_stopped);
  }
}

}  // namespace
}  // namespace ingot
