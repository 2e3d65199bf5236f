#include "base/log.h"

#include <atomic>
#include <cstdio>

#include "base/utf8.h"

namespace ingot {
namespace {
std::atomic<LogLevel> current_level{LogLevel::warning};
}  // namespace

void set_log_level(LogLevel level) { current_level = level; }
LogLevel log_level() { return current_level; }

void log_line(LogLevel level, std::string_view text) {
  if (level > current_level) return;
  const char* prefix = level == LogLevel::warning ? "ingot: warning: " : "ingot: ";
  // fputs, not fmt::print, which throws when standard error is closed.
  std::fputs(fmt::format("{}{}\n", prefix, printable_text(text)).c_str(), stderr);
}

}  // namespace ingot
