#include "ops/cpu/x86_features.h"

#include <cpuid.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ingot::cpu {
namespace {

// FMA and F16C have no name in g++ 12's __builtin_cpu_supports that clang 14 shares.
bool has_fma_and_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  return (c & bit_FMA) != 0 && (c & bit_F16C) != 0;
}

bool cpu_has_amx_int8() {
  constexpr unsigned kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (d & kAmxTile) != 0 && (d & kAmxInt8) != 0;
}

// Linux saves a thread's tiles only once its process has asked for them.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

// __builtin_cpu_supports also asks whether the system saves the wide registers.
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0 && has_fma_and_f16c(); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512vnni") != 0;
}

bool has_amx() {
  static const bool found = has_avx512() && cpu_has_amx_int8() && may_use_tiles();
  return found;
}

}  // namespace ingot::cpu
