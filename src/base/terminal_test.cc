// What a person sees: progress on a terminal, silence elsewhere, warnings that cannot
// move the cursor, and Ctrl-C.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"

namespace ingot {
namespace {

using testing::HasSubstr;

// Standard error is `fd` while this lives.
class StandardErrorIs {
 public:
  explicit StandardErrorIs(int fd) : saved_(::dup(STDERR_FILENO)) {
    ::dup2(fd, STDERR_FILENO);
  }
  ~StandardErrorIs() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  StandardErrorIs(const StandardErrorIs&) = delete;
  StandardErrorIs& operator=(const StandardErrorIs&) = delete;

 private:
  int saved_;
};

std::string read_what_is_there(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  pollfd ready{fd, POLLIN, 0};
  while (::poll(&ready, 1, 100) == 1) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n <= 0) break;
    text.append(buffer.data(), size_t(n));
  }
  return text;
}

TEST(Progress, DrawsOnATerminalAndClearsTheLine) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  const int side = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(side, 0);
  {
    const StandardErrorIs redirected(side);
    Progress progress("loading", 200'000'000, ProgressUnit::bytes);
    progress.update(50'000'000);
    progress.update(200'000'000);
  }
  const std::string text = read_what_is_there(terminal);
  EXPECT_THAT(text,
              HasSubstr("loading [#######.......................]  25 % of 200.0 MB"));
  EXPECT_THAT(text, HasSubstr("100 %"));
  EXPECT_THAT(text, testing::EndsWith("\r\x1b[K"));
  ::close(side);
  ::close(terminal);
}

TEST(Progress, IsSilentElsewhere) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  {
    const StandardErrorIs redirected(ends[1]);
    Progress progress("loading", 10, ProgressUnit::items);
    progress.update(5);
  }
  ::close(ends[1]);
  EXPECT_EQ(read_what_is_there(ends[0]), "");
  ::close(ends[0]);
}

TEST(Log, AWarningIsOnePrintableLine) {
  testing::internal::CaptureStderr();
  log_warning("tensor '{}'", "a\n\x1b[2J");
  log_info("not shown at this level {}", 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ingot: warning: tensor 'a\\x0a\\x1b[2J'\n");
}

TEST(Interrupt, OneAsksTwoEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        if (interrupted()) std::_Exit(3);
        std::raise(SIGINT);
        if (!interrupted()) std::_Exit(4);
        try {
          throw_if_interrupted();
          std::_Exit(5);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::interrupted) std::_Exit(6);
        }
        clear_interrupt();
        throw_if_interrupted();
        std::raise(SIGTERM);
        std::raise(SIGINT);
        std::_Exit(7);
      },
      testing::ExitedWithCode(130), "");
}

TEST(Error, CarriesMessageHintAndKind) {
  try {
    fail("{}: found {}, wanted {}", "a.gguf", 3, 4);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a.gguf: found 3, wanted 4");
    EXPECT_EQ(error.kind(), ErrorKind::job);
    EXPECT_EQ(error.hint(), "");
  }
  EXPECT_THROW(fail_usage("x"), Error);
}

}  // namespace
}  // namespace ingot
