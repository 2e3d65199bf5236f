// A progress bar on standard error, only when that is a terminal.  Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ingot {

enum class ProgressUnit { bytes, tokens, items };

class Progress {
 public:
  // total 0: unknown.
  Progress(std::string what, uint64_t total, ProgressUnit unit);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(uint64_t done);

 private:
  std::string what_;
  uint64_t total_;
  ProgressUnit unit_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace ingot
