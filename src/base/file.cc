#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {
namespace {

// What the SIGBUS handler may look at: fixed storage, no allocation, no lock.  A slot
// whose `end` is 0 matches no address, so `end` is written last and cleared first.
struct MappingSlot {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::array<char, 512> name{};
  std::atomic<bool> taken{false};
};
std::array<MappingSlot, 512> mapping_slots;

int take_slot(const void* data, size_t size, const std::string& name) {
  for (size_t i = 0; i < mapping_slots.size(); ++i) {
    MappingSlot& slot = mapping_slots[i];
    bool expected = false;
    if (!slot.taken.compare_exchange_strong(expected, true)) continue;
    const size_t n = std::min(name.size(), slot.name.size() - 1);
    std::memcpy(slot.name.data(), name.data(), n);
    slot.name[n] = '\0';
    slot.begin = reinterpret_cast<uintptr_t>(data);
    slot.end = reinterpret_cast<uintptr_t>(data) + size;
    return int(i);
  }
  return -1;  // too many mappings: SIGBUS then ends the process without a name
}

void say(const char* text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

void on_sigbus(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (::isatty(STDERR_FILENO) == 1) say("\n");  // a progress bar may stand there
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const MappingSlot& slot : mapping_slots) {
    if (address >= slot.begin && address < slot.end) {
      say("ingot: ");
      say(slot.name.data());
      say(": truncated while it was being read, wanted the file to stay as it was "
          "opened\n");
      ::_exit(1);
    }
  }
  say("ingot: bus error: a file shrank while it was being read, or memory failed\n");
  ::_exit(1);
}

std::string errno_text() { return std::strerror(errno); }

// A name from a file may hold a NUL, which the system would read as its end.
int open_for_reading(const std::filesystem::path& path, int flags) {
  if (path.native().find('\0') != std::string::npos)
    fail("{}: a NUL byte in a file name", printable(path));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) fail("{}: cannot be opened: {}", printable(path), errno_text());
  return fd;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = open_for_reading(path, O_NONBLOCK);  // a FIFO must not hang us
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    fail("{}: not a regular file", printable(path));
  }
  size_ = size_t(status.st_size);
  if (size_ > 0) {
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) {
      const std::string why = errno_text();
      ::close(fd);
      fail("{}: cannot be mapped ({} bytes): {}", printable(path), size_, why);
    }
    data_ = static_cast<const std::byte*>(mapped);
    slot_ = take_slot(mapped, size_, printable(path));
  }
  ::close(fd);
}

void MappedFile::close() noexcept {
  if (slot_ >= 0) {
    MappingSlot& slot = mapping_slots[size_t(slot_)];
    slot.end = 0;
    slot.taken = false;
  }
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
  slot_ = -1;
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      slot_(std::exchange(other.slot_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    slot_ = std::exchange(other.slot_, -1);
  }
  return *this;
}

void MappedFile::drop(size_t offset, size_t length) const {
  const auto page = size_t(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = std::min(offset + length, size_) / page * page;
  if (begin < end)
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void install_truncation_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  const int fd = open_for_reading(path, 0);
  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (true) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || text.size() + size_t(n) > max_bytes) {
      const std::string why =
          n < 0 ? "cannot be read: " + errno_text()
                : fmt::format("larger than {} bytes, the most accepted here", max_bytes);
      ::close(fd);
      fail("{}: {}", printable(path), why);
    }
    if (n == 0) break;
    text.append(buffer.data(), size_t(n));
  }
  ::close(fd);
  return text;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  std::string pattern = path_.string() + ".tmp-XXXXXX";
  fd_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (fd_ < 0) fail("{}: cannot be written: {}", printable(path_), errno_text());
  temporary_ = pattern;
  ::fchmod(fd_, 0644);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t n_bytes) {
  const char* at = static_cast<const char*>(data);
  while (n_bytes > 0) {
    const ssize_t n = ::write(fd_, at, n_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("{}: cannot be written: {}", printable(path_), errno_text());
    at += n;
    n_bytes -= size_t(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("{}: cannot be synced: {}", printable(path_), errno_text());
  const int fd = std::exchange(fd_, -1);
  const bool closed = ::close(fd) == 0;
  if (!closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const std::string why = errno_text();
    ::unlink(temporary_.c_str());
    fail("{}: cannot be put in place: {}", printable(path_), why);
  }
  // Sync the directory, so that the rename itself survives a power cut.
  const std::filesystem::path parent =
      path_.has_parent_path() ? path_.parent_path() : ".";
  const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

std::string printable(const std::filesystem::path& path) {
  return printable_text(path.native());
}

}  // namespace ingot
