// Counter-based random numbers: a draw depends on its key alone, never on how many draws
// came before, so that batching, speculation and restarts do not change what is sampled.
#pragma once

#include <cstdint>

namespace ingot {

// A bijection of 64 bits whose every output bit depends on every input bit: two rounds of
// multiply and xor-shift with the constants of the splitmix64 finaliser.
inline uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Draws for one (seed, position): draw(i) is the i-th of 2^64 independent values.
class CounterRng {
 public:
  CounterRng(uint64_t seed, uint64_t position)
      : key_(mix_bits(mix_bits(seed + kStep) ^ (position * kStep + kStep))) {}

  uint64_t bits(uint64_t counter) const { return mix_bits(key_ + (counter + 1) * kStep); }
  // Uniform in (0, 1), both ends excluded.
  double uniform(uint64_t counter) const {
    return (double(bits(counter) >> 12) + 0.5) * 0x1p-52;
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd
  uint64_t key_;
};

}  // namespace ingot
