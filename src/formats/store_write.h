// Changing the store: a model is put together in STORE/.incoming, published by one
// rename, and removed by one rename into STORE/.trash.  A crash at any point leaves the
// store with whole models only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "formats/store.h"

namespace ingot {

// One model being put together: the directory STORE/.incoming/KEY, locked against other
// processes.  Whoever asks for the same KEY later waits, and then finds what the first
// one left: nothing (published) or unfinished files.
class Incoming {
 public:
  explicit Incoming(std::string_view key);  // waits; throws Error, also on Ctrl-C
  ~Incoming();                              // unlocks; the files stay
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  // Makes it the model `entry.name`, on disk before it is visible.  `file` is the .gguf
  // file to open, empty for a directory.  Replaces a model of that name.
  void publish(const StoreEntry& entry, std::string_view file);
  void discard();  // removes everything

 private:
  std::filesystem::path directory_;
  int lock_ = -1;
};

// Moves STORE/... out of sight by one rename, then deletes it.
void move_to_trash(const std::filesystem::path& path);
// Deletes what an interrupted removal or local copy left.  Never fails.
void sweep_store();

// Throws Error "no space" when the store's disk has less than `n_bytes` free.
void require_free_space(uint64_t n_bytes, std::string_view what);
void make_directories(const std::filesystem::path& path);  // throws Error
void sync_directory(const std::filesystem::path& path);
uint64_t directory_bytes(const std::filesystem::path& path);

// Names inside STORE and inside its directories.
inline constexpr std::string_view kIncomingDirectory = ".incoming";
inline constexpr std::string_view kTrashDirectory = ".trash";
inline constexpr std::string_view kEntryFile = ".ingot.json";    // of a finished model
inline constexpr std::string_view kProgressFile = ".pull.json";  // of an unfinished one
inline constexpr std::string_view kLockFile = ".lock";
inline constexpr const char* kStoreHint =
    "INGOT_HOME names another place for the store: a directory that you can write to";
inline constexpr std::string_view kCopyPrefix =
    "copy-";  // KEY of a local copy: not resumed

}  // namespace ingot
