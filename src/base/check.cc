#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ingot {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "ingot: bug: %s:%d: CHECK(%s) failed\n", file, line, condition);
  std::abort();
}

}  // namespace ingot
