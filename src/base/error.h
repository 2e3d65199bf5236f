// The user's fault, as an exception: a bad file, a bad flag, a full disk.  Thrown
// anywhere, caught in app/ and in the server's request handler, nowhere else.
// Our own bugs are CHECK (check.h); an expected outcome is an optional or an enum.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ingot {

enum class ErrorKind {
  job,          // exit code 1: bad model, out of memory, no space
  usage,        // exit code 2: a flag or argument is wrong
  interrupted,  // exit code 130: the user pressed Ctrl-C
};

// what() is one line, "FILE: what was found, what was wanted"; hint() may add a second
// line that says what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = {},
                 ErrorKind kind = ErrorKind::job)
      : std::runtime_error(message), hint_(std::move(hint)), kind_(kind) {}

  const std::string& hint() const { return hint_; }
  ErrorKind kind() const { return kind_; }

 private:
  std::string hint_;
  ErrorKind kind_;
};

// throw Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// throw Error of kind usage with a formatted message.
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...), {}, ErrorKind::usage);
}

}  // namespace ingot
