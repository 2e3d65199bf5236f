#include "formats/store_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr auto kLockPoll = std::chrono::milliseconds(100);

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

[[noreturn]] void fail_write(const fs::path& path, std::string_view what, int error) {
  throw Error(fmt::format("{}: {}: {}", printable(path), what, std::strerror(error)),
              error == EACCES || error == EPERM || error == EROFS ? kStoreHint : "");
}

// True when `path` is still the file that `fd` has open.
bool same_file(int fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// The lock file of `directory`, locked.  -1: the directory went away meanwhile.
int lock_directory(const fs::path& directory) {
  const fs::path path = directory / kLockFile;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 && errno == ENOENT) return -1;
  if (fd < 0) fail_write(path, "cannot be written", errno);
  bool announced = false;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      const int error = errno;
      ::close(fd);
      fail_write(path, "cannot be locked", error);
    }
    if (!announced) log_warning("another ingot is fetching this model; waiting for it");
    announced = true;
    std::this_thread::sleep_for(kLockPoll);
    if (interrupted()) {
      ::close(fd);
      throw_if_interrupted();
    }
  }
  if (same_file(fd, path)) return fd;
  ::close(fd);
  return -1;
}

// A model's name may be taken already: then both change places in one step, and the old
// one is thrown away.
void put_in_place(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
    fail_write(to, "cannot be put in place", errno);
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    move_to_trash(from);
    return;
  }
#endif
  move_to_trash(to);
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail_write(to, "cannot be put in place", errno);
}

}  // namespace

Incoming::Incoming(std::string_view key)
    : directory_(store_directory() / kIncomingDirectory / key) {
  while (lock_ < 0) {
    make_directories(directory_);
    lock_ = lock_directory(directory_);
  }
}

Incoming::~Incoming() {
  if (lock_ >= 0) ::close(lock_);
}

void Incoming::publish(const StoreEntry& entry, std::string_view file) {
  const nlohmann::json record = {
      {"name", hex_escape(entry.name)},
      {"file", hex_escape(file)},
      {"source", hex_escape(entry.source)},
      {"reference", hex_escape(entry.reference)},
      {"format", entry.format},
      {"quant", entry.quant},
      {"added", entry.added},
  };
  AtomicFile out(directory_ / kEntryFile);
  out.write(record.dump(2) + "\n");
  out.commit();
  ::unlink((directory_ / kProgressFile).c_str());
  sync_directory(directory_);
  const fs::path final_path = store_directory() / entry.name;
  put_in_place(directory_, final_path);
  sync_directory(store_directory());
  // Last: until here the lock file keeps others from working in this directory.
  ::unlink((final_path / kLockFile).c_str());
}

void Incoming::discard() { move_to_trash(directory_); }

void move_to_trash(const fs::path& path) {
  const fs::path trash = store_directory() / kTrashDirectory;
  make_directories(trash);
  const fs::path target = trash / random_name();
  if (::rename(path.c_str(), target.c_str()) != 0)
    fail_write(path, "cannot be removed", errno);
  sync_directory(path.parent_path());
  std::error_code error;
  fs::remove_all(target, error);
  if (error) fail_write(target, "cannot be deleted", error.value());
  fs::remove(trash, error);  // when it is empty
}

void sweep_store() {
  std::error_code error;
  fs::path store;
  try {
    store = store_directory();
  } catch (const Error&) {  // the command itself will say so
    return;
  }
  fs::remove_all(store / kTrashDirectory, error);
  for (fs::directory_iterator it(store / kIncomingDirectory, error), end;
       !error && it != end; it.increment(error)) {
    const fs::path path = it->path();
    std::error_code ignored;
    const bool resumable = !path.filename().native().starts_with(kCopyPrefix) &&
                           fs::exists(path / kProgressFile, ignored);
    if (resumable) continue;
    // Holding the lock while deleting: whoever waits for it then begins afresh.
    const int fd = ::open((path / kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
    ::close(fd);
  }
}

void require_free_space(uint64_t n_bytes, std::string_view what) {
  std::error_code error;
  const fs::path store = store_directory();
  const fs::space_info space = fs::space(store, error);
  // A capacity of 0 is a file system that does not tell.
  if (error || space.capacity == 0 || space.available >= n_bytes) return;
  throw Error(fmt::format("{}: no space for {}: {} free, {} wanted", printable(store),
                          what, human_bytes(space.available), human_bytes(n_bytes)),
              "free some space (ingot list, ingot rm NAME), or set INGOT_HOME to a "
              "directory on a larger disk");
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && fs::is_directory(path, error)) return;
  throw Error(fmt::format("{}: cannot be created: {}", printable(path),
                          error ? error.message() : "not a directory"),
              kStoreHint);
}

void sync_directory(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

uint64_t directory_bytes(const fs::path& path) {
  uint64_t total = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) {
      const uint64_t size = it->file_size(ignored);
      if (!ignored) total += size;
    }
  }
  return total;
}

}  // namespace ingot
