// Deliberate faults, to prove that the parity checks bite (tests/test_gate_bites.py).
// Only the test binary `ingot_faulty` is compiled with INGOT_TEST_FAULT; in it the
// environment variable INGOT_FAULT names one fault.  Elsewhere fault() is a constant.
//
//   mask             attention does not see the oldest key
//   window           a window is one key wider
//   rope_sign        pairs turn the other way
//   epsilon          a norm's epsilon is ten times larger
//   summation_order  matmul adds backwards when it has more than one row
//
// In the same binary INGOT_SWITCH, names with commas between, takes back what makes the
// CPU backend fast, for bench/ladder; answers stay the same:
//
//   no_few_rows      few rows too meet tiles unpacked to the first-level cache
//   no_prefetch      few rows' kernels do not ask for memory ahead
//   no_tile_pairs    many rows meet one tile at a time
//   no_splits        attention of few rows: a KV head is one piece of work
//   no_words         stored rows are packed value by value
//   huge_pages       weights lie on 2 MiB pages (off by default)
#pragma once

#include <cstdlib>
#include <string_view>

namespace ingot {

#ifdef INGOT_TEST_FAULT
inline bool fault(std::string_view name) {
  static const char* const chosen = std::getenv("INGOT_FAULT");
  return chosen != nullptr && name == chosen;
}
inline bool switched(std::string_view name) {
  static const char* const chosen = std::getenv("INGOT_SWITCH");
  return chosen != nullptr &&
         std::string_view(chosen).find(name) != std::string_view::npos;
}
#else
constexpr bool fault(std::string_view) { return false; }
constexpr bool switched(std::string_view) { return false; }
#endif

}  // namespace ingot
