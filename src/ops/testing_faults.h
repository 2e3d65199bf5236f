// Deliberate faults, to prove that the parity checks bite (tests/test_gate_bites.py).
// Only the test binary `ingot_faulty` is compiled with INGOT_TEST_FAULT; in it the
// environment variable INGOT_FAULT names one fault.  Elsewhere fault() is a constant.
//
//   mask             attention does not see the oldest key
//   window           a window is one key wider
//   rope_sign        pairs turn the other way
//   epsilon          a norm's epsilon is ten times larger
//   summation_order  matmul adds backwards when it has more than one row
#pragma once

#include <cstdlib>
#include <string_view>

namespace ingot {

#ifdef INGOT_TEST_FAULT
inline bool fault(std::string_view name) {
  static const char* const chosen = std::getenv("INGOT_FAULT");
  return chosen != nullptr && name == chosen;
}
#else
constexpr bool fault(std::string_view) { return false; }
#endif

}  // namespace ingot
