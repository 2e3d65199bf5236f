// The codebooks of ggml's IQ types (formats.md 3.5.2).  Byte j of an entry,
// little-endian, is the magnitude of element j (IQ1: a signed byte, -1, 0 or 1).
#pragma once

#include <cstdint>

namespace ingot {

extern const uint64_t kIq2XxsGrid[256];
extern const uint64_t kIq2XsGrid[512];
extern const uint64_t kIq2SGrid[1024];
extern const uint32_t kIq3XxsGrid[256];
extern const uint32_t kIq3SGrid[512];
extern const uint64_t kIq1SGrid[2048];

}  // namespace ingot
