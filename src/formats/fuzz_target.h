// For the fuzz targets: the two functions that libFuzzer calls, but for what each target
// changes and checks.
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "formats/fuzz_numbers.h"

namespace ingot {

// `mutate`: (std::string file, FuzzRandom&, size_t max_size) to the changed file.
template <typename Mutate>
size_t mutate_input(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                    const Mutate& mutate) {
  FuzzRandom random(seed);
  const std::string file(reinterpret_cast<const char*>(data), size);
  return give_back(mutate(file, random, max_size), data, max_size);
}

// `use` parses the file and checks what was accepted; an Error is a refusal, and fine.
template <typename Use>
int try_input(const uint8_t* data, size_t size, const Use& use) {
  try {
    use(std::span(reinterpret_cast<const std::byte*>(data), size));
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace ingot
