// strftime in the C locale, whatever locale the process has.
#include <array>
#include <ctime>

#include "text/jinja_eval.h"

namespace ingot::jinja {
namespace {

constexpr std::array<std::string_view, 7> kDays = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

// What the C library says for a conversion that no locale changes.
std::string plain_conversion(const std::tm& time, std::string_view conversion) {
  char buffer[64];
  const size_t n =
      std::strftime(buffer, sizeof buffer, std::string(conversion).c_str(), &time);
  return std::string(buffer, n);
}

std::string convert(const std::tm& time, char c) {
  const auto day = kDays[static_cast<size_t>(time.tm_wday) % 7];
  const auto month = kMonths[static_cast<size_t>(time.tm_mon) % 12];
  switch (c) {
    case 'a':
      return std::string(day.substr(0, 3));
    case 'A':
      return std::string(day);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'p':
      return time.tm_hour < 12 ? "AM" : "PM";
    case 'P':
      return time.tm_hour < 12 ? "am" : "pm";
    case 'c':
      return format_time(time, "%a %b %e %H:%M:%S %Y");
    case 'x':
      return format_time(time, "%m/%d/%y");
    case 'X':
      return format_time(time, "%H:%M:%S");
    case 'r':
      return format_time(time, "%I:%M:%S %p");
    case 'f':
      return "000000";  // the clock has whole seconds
    case 'z':
    case 'Z':
      return "";  // local time without a zone, as datetime.now()
    case 'C':
    case 'd':
    case 'D':
    case 'e':
    case 'F':
    case 'g':
    case 'G':
    case 'H':
    case 'I':
    case 'j':
    case 'k':
    case 'l':
    case 'm':
    case 'M':
    case 'n':
    case 'R':
    case 'S':
    case 't':
    case 'T':
    case 'u':
    case 'U':
    case 'V':
    case 'w':
    case 'W':
    case 'y':
    case 'Y':
      return plain_conversion(time, std::string{'%', c});
    case '%':
      return "%";
    default:
      return {'%', c};
  }
}

// %-d: without the padding
std::string unpadded(const std::tm& time, char c) {
  std::string text = convert(time, c);
  size_t zeros = 0;
  while (zeros + 1 < text.size() && (text[zeros] == '0' || text[zeros] == ' ')) ++zeros;
  return text.substr(zeros);
}

}  // namespace

std::string format_time(const std::tm& time, std::string_view format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out.push_back(format[i]);
    } else if (format[i + 1] == '-' && i + 2 < format.size()) {
      out += unpadded(time, format[i + 2]);
      i += 2;
    } else {
      out += convert(time, format[++i]);
    }
  }
  return out;
}

}  // namespace ingot::jinja
