// What the AVX2 files share: small steps over 8 lanes.  Included only by cpu/avx2_*.cc,
// which are compiled with -mavx2 -mfma -mf16c, and cpu/avx512_*.cc.  Those files use no
// inline function of other headers: the linker might keep their copy for a machine
// without AVX2.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/kernels.h"

namespace ingot::cpu {

namespace {  // each file has its own copy: they are compiled for different machines

constexpr int kLanes = 8;

// Lanes 0 .. n - 1 on, n <= 8.
inline __m256i lane_mask(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// The sum of 8 lanes, always by the same tree: (0+4)+(2+6) + (1+5)+(3+7).
inline float add_lanes(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline __m256i load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// 4 bytes at p in every 32-bit lane.
inline __m256i broadcast4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm256_set1_epi32(four);
}

}  // namespace

// The rows of the table that each file holds.
void add_avx2_matmul(Kernels& table);
void add_avx2_few_rows(Kernels& table);
void add_avx2_unpack(Kernels& table);
void add_avx2_rows(Kernels& table);
void add_avx2_activations(Kernels& table);
void add_avx2_attention(Kernels& table);
void add_avx2_recurrent(Kernels& table);

}  // namespace ingot::cpu
