#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ingot {
namespace {

constexpr int kBarWidth = 30;

std::string amount(double value, ProgressUnit unit) {
  if (unit == ProgressUnit::bytes) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.0f}", value);
}

}  // namespace

Progress::Progress(std::string what, uint64_t total, ProgressUnit unit)
    : what_(std::move(what)),
      total_(total),
      unit_(unit),
      terminal_(::isatty(STDERR_FILENO) == 1),
      started_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(uint64_t done) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && done < total_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate = seconds > 0 ? double(done) / seconds : 0;
  std::string line = "\r" + what_ + " ";
  if (total_ > 0) {
    const double share = std::min(1.0, double(done) / double(total_));
    const int filled = int(share * kBarWidth);
    line += "[" + std::string(size_t(filled), '#') +
            std::string(size_t(kBarWidth - filled), '.');
    line += fmt::format("] {:3.0f} % of {}", share * 100, amount(double(total_), unit_));
  } else {
    line += amount(double(done), unit_);
  }
  line += fmt::format(", {}/s", amount(rate, unit_));
  if (total_ > done && rate > 0)
    line += fmt::format(", {:.0f} s left", double(total_ - done) / rate);
  line += "\x1b[K";
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace ingot
