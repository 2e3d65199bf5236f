// Random weights in the stored form of a type, drawn directly: no weight is quantised.
// Values have mean 0 and a given standard deviation; codes are uniform, and each group
// has a scale of its own.  What a group holds depends on the generator's key and on the
// group's index alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rng.h"
#include "tensor/dtype.h"

namespace ingot {

// f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k.
bool has_random_weights(DType type);

// Fills `out`, whole groups, with groups first_group, first_group + 1 ... of a tensor.
// Requires: has_random_weights(type).
void random_weights(DType type, const CounterRng& rng, uint64_t first_group,
                    float deviation, std::span<std::byte> out);

}  // namespace ingot
