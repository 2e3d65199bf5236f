// Names out of a foreign file, made fit for one line of a message.
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace ingot {

// 'NAME' with control characters and bad bytes escaped, cut to a readable length.
inline std::string in_quotes(std::string_view name) {
  constexpr size_t kLongest = 100;
  if (name.size() <= kLongest) return "'" + printable_text(name) + "'";
  return "'" + printable_text(name.substr(0, kLongest)) + "...'";
}

}  // namespace ingot
