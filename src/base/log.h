// Messages for the person at the terminal: standard error only, one line each.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ingot {

enum class LogLevel { warning = 0, info = 1, debug = 2 };

void set_log_level(LogLevel level);  // default: warning; -v: info; -vv: debug
LogLevel log_level();
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() >= LogLevel::info)
    log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ingot
