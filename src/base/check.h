// CHECK is for our own bugs: it prints the condition and the place, and aborts.
// Input never reaches a CHECK; a user's mistake is an Error (error.h).
#pragma once

namespace ingot {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace ingot

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::ingot::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
