// What one render of a template may use.  The defaults let a conversation of a million
// tokens through and stop a hostile template in under 1 s and 64 MiB.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot {

struct TemplateLimits {
  int64_t max_steps = 8'000'000;         // nodes run, items visited, 16-byte runs copied
  size_t max_output_bytes = 8u << 20;    // of the rendering
  size_t max_string_bytes = 8u << 20;    // of any one string on the way
  size_t max_live_bytes = 32u << 20;     // of all values alive at one time
  size_t max_stack_bytes = 192u << 10;   // of C++ stack below render()
  int max_macro_depth = 200;             // macros and recursive loops inside each other
  int max_value_depth = 400;             // containers inside each other
  int max_nesting = 150;                 // brackets and statements inside each other
  size_t max_source_bytes = 256u << 10;  // of the template itself
};

}  // namespace ingot
