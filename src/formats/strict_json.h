// JSON as a parser of foreign files must read it: strict UTF-8, no duplicate key,
// integers exact, bounded depth, nothing after the value (formats.md ST-4 .. ST-7, ST-9).
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace ingot {

struct StrictJsonLimits {
  int max_depth = 8;
};

// Throws Error "SOURCE: what was found at which byte (RULE)".  Unsigned integers come
// back as number_unsigned; negative, fractional or overflowing ones as other kinds.
nlohmann::json parse_strict_json(std::string_view text, std::string_view source,
                                 StrictJsonLimits limits = {});

// What a JSON value is, for messages: "a string", "an array", "1.5", "-1".
std::string json_kind(const nlohmann::json& value);

}  // namespace ingot
