// Small text helpers of the store and the hub.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

std::string human_bytes(uint64_t n_bytes);      // "1.2 GB", "640.0 MB", "12 B"
std::string lower_case(std::string_view text);  // ASCII letters only
// Any bytes as ASCII, and back: '%' and whatever is not printable ASCII become %XX.  File
// names may be no valid UTF-8, JSON must be.
std::string hex_escape(std::string_view bytes);
std::string hex_unescape(std::string_view text);
// "did you mean 'a' or 'b'?" of the names nearest to `wanted`; empty when none is near.
std::string near_names_hint(std::string_view wanted,
                            const std::vector<std::string>& names);
std::string utc_now();  // "2026-11-30T21:05:00Z"

// "model-00001-of-00003.gguf": the parts of a split name; nothing else has n_parts > 0.
struct SplitName {
  std::string prefix;  // "model"
  int part = 0;        // from 1
  int n_parts = 0;
};
SplitName parse_split_name(std::string_view file_name, std::string_view extension);
std::string split_part_name(const SplitName& name, int part, std::string_view extension);

}  // namespace ingot
