// Files: a read-only mapping, whole-file reads with a limit, and writes that either
// appear complete under their final name or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

// A file mapped read-only.  The bytes live as long as the object.  If another program
// truncates the file meanwhile, touching the lost part raises SIGBUS: programs call
// install_truncation_handler() so that this ends as one line that names the file.
class MappedFile {
 public:
  // Throws Error naming the path when it cannot be opened or is not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  // Tells the system that these bytes will not be read again soon (frees page cache
  // charged to this process; the contents stay readable).
  void drop(size_t offset, size_t length) const;

 private:
  void close() noexcept;
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1;  // in the table that the SIGBUS handler searches
};

// After this, SIGBUS inside a MappedFile prints "ingot: FILE: truncated while it was
// being read" and ends the process with exit code 1.
void install_truncation_handler();

// The whole file as a string.  Throws Error when it cannot be read or is larger than
// max_bytes.
std::string read_file(const std::filesystem::path& path, size_t max_bytes = size_t(1)
                                                                            << 30);

// A new file that appears under its name only at commit(): written to a temporary file
// beside it, synced, then renamed.  Without commit() the temporary file is removed.
// Every failure (no space, read-only) throws Error naming the final path.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t n_bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

// `path` for a message or JSON: valid UTF-8, bad bytes and control characters escaped
// as \xNN.
std::string printable(const std::filesystem::path& path);

}  // namespace ingot
