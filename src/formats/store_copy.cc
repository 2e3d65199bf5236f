// A local file or directory taken into the store (hub.h: pull_local).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#if __has_include(<linux/fs.h>)
#include <linux/fs.h>  // FICLONE
#endif

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/utf8.h"
#include "formats/hub.h"
#include "formats/hub_choice.h"
#include "formats/hub_text.h"
#include "formats/store_describe.h"
#include "formats/store_write.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBytes = size_t(4) << 20;

struct LocalModel {
  std::vector<fs::path> files;
  std::string first_gguf;  // empty for a directory
  std::string default_name;
};

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

LocalModel local_gguf(const fs::path& path) {
  LocalModel model;
  const std::string file = path.filename().native();
  const SplitName split = parse_split_name(file, ".gguf");
  model.first_gguf = split.n_parts > 0 ? split_part_name(split, 1, ".gguf") : file;
  model.files.push_back(path.parent_path() / model.first_gguf);
  for (int part = 2; part <= split.n_parts; ++part)
    model.files.push_back(path.parent_path() / split_part_name(split, part, ".gguf"));
  model.default_name = split.n_parts > 0 ? split.prefix : path.stem().native();
  return model;
}

LocalModel local_directory(const fs::path& path) {
  const fs::path inside = model_in_directory(path);
  if (inside != path) return local_gguf(inside);
  LocalModel model;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().native();
    std::error_code ignored;
    const bool wanted = is_model_side_file(name) || is_weights_file(name) ||
                        name.ends_with(".safetensors.index.json");
    if (wanted && it->is_regular_file(ignored)) model.files.push_back(it->path());
  }
  if (error) fail("{}: cannot be read: {}", printable(path), error.message());
  std::sort(model.files.begin(), model.files.end());
  if (model.files.empty())
    fail("{}: has no config.json, .safetensors or .gguf file, wanted a model directory",
         printable(path));
  // A trailing slash leaves the last component empty.
  const fs::path plain = fs::weakly_canonical(path, error);
  model.default_name = (error ? path : plain).filename().native();
  return model;
}

uint64_t size_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    fail("{}: cannot be opened: {}", printable(path), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("{}: not a regular file", printable(path));
  return uint64_t(status.st_size);
}

[[noreturn]] void fail_copy(const fs::path& from, const fs::path& to, int error) {
  throw Error(fmt::format("{}: cannot be copied to {}: {}", printable(from),
                          printable(store_directory()), std::strerror(error)),
              error == ENOSPC ? fmt::format("nothing of {} was kept; make room, or set "
                                            "INGOT_HOME to a directory on a larger disk",
                                            printable(to.filename()))
                              : "");
}

void write_all(int fd, const char* data, size_t n_bytes, const fs::path& from,
               const fs::path& to) {
  while (n_bytes > 0) {
    const ssize_t n = ::write(fd, data, n_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_copy(from, to, errno);
    data += n;
    n_bytes -= size_t(n);
  }
}

// Makes `out` share the bytes of `in`; false where the file system cannot.
bool reflink(int in, int out) {
#ifdef FICLONE
  return ::ioctl(out, FICLONE, in) == 0;
#else
  static_cast<void>(in);
  static_cast<void>(out);
  return false;
#endif
}

// A copy that shares its bytes with the original where the file system can (reflink), a
// plain one elsewhere.  Never a hard link: writing to the original would change the
// store.
void copy_into_store(const fs::path& from, const fs::path& to) {
  const uint64_t size = size_of(from);
  const Fd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (in < 0) fail("{}: cannot be opened: {}", printable(from), std::strerror(errno));
  const Fd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (out < 0) fail_copy(from, to, errno);
  if (!reflink(in, out)) {
    Progress progress("copying " + printable(from.filename()), size, ProgressUnit::bytes);
    std::vector<char> buffer(kCopyBytes);
    uint64_t n_done = 0;
    while (true) {
      throw_if_interrupted();
      const ssize_t n = ::read(in, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("{}: cannot be read: {}", printable(from), std::strerror(errno));
      if (n == 0) break;
      write_all(out, buffer.data(), size_t(n), from, to);
      n_done += uint64_t(n);
      progress.update(n_done);
    }
    if (n_done != size)
      fail("{}: {} bytes read, wanted {}: it changed while it was copied",
           printable(from), n_done, size);
  }
  if (::fsync(out) != 0) fail_copy(from, to, errno);
}

bool same_bytes(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (!fs::is_regular_file(b, error) || size_of(a) != size_of(b)) return false;
  const MappedFile left(a);
  const MappedFile right(b);
  Progress progress("comparing " + printable(a.filename()), left.bytes().size(),
                    ProgressUnit::bytes);
  for (size_t at = 0; at < left.bytes().size(); at += kCopyBytes) {
    throw_if_interrupted();
    const size_t n = std::min(kCopyBytes, left.bytes().size() - at);
    if (std::memcmp(left.bytes().data() + at, right.bytes().data() + at, n) != 0)
      return false;
    progress.update(at + n);
  }
  return true;
}

// The entry of that name when it holds the very same files.  Throws Error when the name
// is another model's.
std::optional<StoreEntry> stored_copy(const std::string& name, const LocalModel& model) {
  std::optional<StoreEntry> entry = find_in_store(name);
  if (!entry) return {};
  const fs::path directory = store_directory() / name;
  for (const fs::path& file : model.files)
    if (!same_bytes(file, directory / file.filename()))
      throw Error(
          fmt::format(
              "{}: the store has another model of that name already, from {}",
              printable_text(name),
              entry->source.empty() ? "elsewhere" : printable_text(entry->source)),
          "choose another with --as NAME, or remove it with ingot rm");
  return entry;
}

// Removes the copy again unless it was published.
class UnfinishedCopy {
 public:
  explicit UnfinishedCopy(const std::string& key) : incoming_(key) {}
  ~UnfinishedCopy() {
    std::error_code ignored;
    if (!published_) std::filesystem::remove_all(incoming_.directory(), ignored);
  }
  UnfinishedCopy(const UnfinishedCopy&) = delete;
  UnfinishedCopy& operator=(const UnfinishedCopy&) = delete;
  const fs::path& directory() const { return incoming_.directory(); }
  void publish(const StoreEntry& entry, const std::string& file) {
    incoming_.publish(entry, file);
    published_ = true;
  }

 private:
  Incoming incoming_;
  bool published_ = false;
};

}  // namespace

StoreEntry pull_local(const fs::path& path, std::string_view wanted_name) {
  std::error_code error;
  if (!fs::exists(path, error)) fail("{}: no such file or directory", printable(path));
  const bool is_directory = fs::is_directory(path, error);
  if (!is_directory && lower_case(path.extension().native()) != ".gguf" &&
      path.extension() == ".safetensors")
    fail("{}: one safetensors file is no model, wanted its directory", printable(path));
  const LocalModel model = is_directory ? local_directory(path) : local_gguf(path);
  StoreEntry entry;
  entry.name = wanted_name.empty() ? model.default_name : std::string(wanted_name);
  check_store_name(entry.name);
  describe_checkpoint(model.first_gguf.empty() ? path : model.files.front(), entry);

  make_directories(store_directory());
  sweep_store();
  if (std::optional<StoreEntry> same = stored_copy(entry.name, model)) return *same;
  uint64_t n_bytes = 0;
  for (const fs::path& file : model.files) n_bytes += size_of(file);
  require_free_space(n_bytes, printable(path));

  UnfinishedCopy copy(fmt::format("{}{}", kCopyPrefix, ::getpid()));
  for (const fs::path& file : model.files)
    copy_into_store(file, copy.directory() / file.filename());
  describe_checkpoint(
      model.first_gguf.empty() ? copy.directory() : copy.directory() / model.first_gguf,
      entry);
  const fs::path absolute = fs::absolute(path, error);
  entry.source = (error ? path : absolute).native();
  entry.added = utc_now();
  copy.publish(entry, model.first_gguf);
  return find_in_store(entry.name).value();
}

}  // namespace ingot
