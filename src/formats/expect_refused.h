// For tests: a call that must end in a one-line Error that says where and why.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ingot {

// `call` must throw Error whose one line holds every one of `words`.
inline void expect_refused(std::string_view what, const std::function<void()>& call,
                           const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << what << ": accepted, wanted a refusal with " << words.front();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << what << ": " << message;
    EXPECT_LT(message.size(), 700u) << what << ": " << message;
    for (const std::string& word : words)
      EXPECT_NE(message.find(word), std::string::npos)
          << what << ": wanted '" << word << "' in: " << message;
  }
}

struct RefusedFile {
  const char* what;
  std::string file;
  std::vector<std::string> words;
};

// Each file must be refused by `parse`, in a line that begins with `source`.
template <typename Parse>
void expect_all_refused(const std::vector<RefusedFile>& cases, const std::string& source,
                        const Parse& parse) {
  for (const RefusedFile& c : cases) {
    std::vector<std::string> words = c.words;
    words.push_back(source + ": ");
    expect_refused(
        c.what, [&] { parse(c.file); }, words);
  }
}

}  // namespace ingot
