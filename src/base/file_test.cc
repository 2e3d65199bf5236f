#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = (fs::temp_directory_path() / "ingot-file-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override {
    fs::permissions(root_, fs::perms::owner_all);
    fs::remove_all(root_);
  }
  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name, std::ios::binary) << text;
    return root_ / name;
  }
  size_t n_entries() const {
    return size_t(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  fs::path root_;
};

template <typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(FileTest, MappedFileShowsTheBytes) {
  const fs::path path = write("a", "hello");
  MappedFile first(path);
  EXPECT_EQ(std::memcmp(first.bytes().data(), "hello", 5), 0);
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().size(), 5u);
  MappedFile third(write("b", ""));
  EXPECT_TRUE(third.bytes().empty());
  third = std::move(second);
  EXPECT_EQ(third.bytes().size(), 5u);
  EXPECT_EQ(third.path(), path);
}

TEST_F(FileTest, DroppedBytesStayReadable) {
  const std::string text(100'000, 'q');
  const MappedFile file(write("a", text));
  file.drop(1, 99'000);
  EXPECT_EQ(std::memcmp(file.bytes().data(), text.data(), text.size()), 0);
}

TEST_F(FileTest, WhatCannotBeMappedIsNamed) {
  EXPECT_THAT(message_of([&] { MappedFile file(root_ / "absent"); }),
              HasSubstr("absent: cannot be opened: No such file"));
  EXPECT_THAT(message_of([&] { MappedFile file(root_); }),
              HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { MappedFile file(root_ / "fifo"); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message_of([&] { MappedFile file(std::string("a\0b", 3)); }),
              HasSubstr("a\\x00b: a NUL byte"));
  EXPECT_THAT(message_of([&] { MappedFile file(root_ / "x\ny\xff"); }),
              HasSubstr("x\\x0ay\\xff: cannot be opened"));
}

TEST_F(FileTest, ReadFileHasALimit) {
  const fs::path path = write("a", std::string(100'000, 'z'));
  EXPECT_EQ(read_file(path), std::string(100'000, 'z'));
  EXPECT_EQ(read_file(path, 100'000).size(), 100'000u);
  EXPECT_THAT(message_of([&] { read_file(path, 99'999); }),
              HasSubstr("larger than 99999 bytes"));
  EXPECT_THAT(message_of([&] { read_file(root_); }), HasSubstr("Is a directory"));
}

// A file that shrinks under a mapping ends the process with one line that names it.
TEST_F(FileTest, TruncationWhileMappedIsOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path path = write("model.gguf", std::string(65'536, 'm'));
  EXPECT_EXIT(
      {
        install_truncation_handler();
        const MappedFile other(write("other", "o"));
        const MappedFile file(path);
        fs::resize_file(path, 100);
        volatile std::byte sink = file.bytes()[60'000];
        static_cast<void>(sink);
      },
      testing::ExitedWithCode(1),
      "ingot: .*model.gguf: truncated while it was being read");
}

TEST_F(FileTest, AtomicFileAppearsOnlyWhole) {
  const fs::path path = write("out", "old");
  {
    AtomicFile file(path);
    file.write("new and long");
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(n_entries(), 1u);
  AtomicFile file(path);
  file.write("new");
  file.commit();
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(n_entries(), 1u);
}

TEST_F(FileTest, NoSpaceLeavesNothingBehind) {
  const fs::path path = root_ / "out";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 50'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = message_of([&] {
    AtomicFile file(path);
    for (int i = 0; i < 100; ++i) file.write(std::string(1000, 'x'));
    file.commit();
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, HasSubstr("out: cannot be written: File too large"));
  EXPECT_EQ(n_entries(), 0u);
}

// /dev/full takes an open and refuses every write with "no space left", as a full disk
// does.
TEST_F(FileTest, FullDiskIsNamed) {
  const fs::path path = root_ / "out";
  const std::string message = message_of([&] {
    AtomicFile file(path);
    // Put /dev/full where the temporary file's descriptor is.
    int temporary = -1;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
      if (fs::is_symlink(entry.path()) &&
          fs::read_symlink(entry.path()).string().find("out.tmp-") != std::string::npos)
        temporary = std::stoi(entry.path().filename());
    ASSERT_GE(temporary, 0);
    const int full = ::open("/dev/full", O_WRONLY);
    ASSERT_GE(full, 0);
    ::dup2(full, temporary);
    ::close(full);
    file.write("x");
  });
  EXPECT_THAT(message, HasSubstr("out: cannot be written: No space left on device"));
  EXPECT_EQ(n_entries(), 0u);
}

TEST_F(FileTest, UnwritableFolderIsNamed) {
  EXPECT_THAT(message_of([&] { AtomicFile file(root_ / "no/such/out"); }),
              HasSubstr("no/such/out: cannot be written: No such file or directory"));
  fs::permissions(root_, fs::perms::owner_read | fs::perms::owner_exec);
  const uid_t user = ::geteuid();
  EXPECT_EQ(::seteuid(user == 0 ? 65534 : user),
            0);  // root writes into read-only folders
  const std::string message = message_of([&] { AtomicFile file(root_ / "out"); });
  EXPECT_EQ(::seteuid(user), 0);
  EXPECT_THAT(message, HasSubstr("out: cannot be written: Permission denied"));
}

}  // namespace
}  // namespace ingot
