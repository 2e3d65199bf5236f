// Renders cases for the differential test of the Jinja engine (jinja_differential.py):
// one {"source", "context"} a line in, one {"text"} or {"error"} a line out.
#include <iostream>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"

namespace {

// The clock of the reference: 2024-07-26 13:04:05, a Friday.
std::tm fixed_clock() {
  std::tm time{};
  time.tm_year = 124, time.tm_mon = 6, time.tm_mday = 26;
  time.tm_hour = 13, time.tm_min = 4, time.tm_sec = 5;
  time.tm_wday = 5, time.tm_yday = 207;
  return time;
}

nlohmann::ordered_json render(const nlohmann::ordered_json& row) {
  try {
    const ingot::ChatTemplate chat_template(row["source"].get<std::string>(), "case", {},
                                            fixed_clock);
    return {{"text", chat_template.render(row["context"])}};
  } catch (const ingot::Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    std::cout << render(ingot::parse_request_json(line, "case")).dump() << std::endl;
  }
}
