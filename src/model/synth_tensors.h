// The tensors that a recipe reads, with what random values each may hold, so that a model
// of them computes finite numbers of ordinary size.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "model/recipe.h"

namespace ingot {

enum class SynthKind {
  matrix,     // mean 0, deviation 1 / sqrt(n_in): outputs are as large as inputs
  norm,       // near 1 after `add`
  bias,       // small, either sign
  decay,      // -16 to -1: what a step's length is multiplied by
  log_decay,  // the same, stored as log of its negative
  dt_bias,    // softplus of it, a step's length, is 0.001 to 0.1
  constant,   // `values`
};

struct SynthTensor {
  std::string name;
  Shape shape;
  SynthKind kind = SynthKind::matrix;
  int n_in = 1;      // matrix: how many products an output sums
  float add = 0.0f;  // norm: what the model adds to the stored value
  std::vector<float> values = {};
  std::string drawn_as = {};  // not empty: the tensor whose draws it takes
};

// Each tensor once, layer after layer, in the shapes of the container.  `constants`:
// values of the tensors that stand for fields of a config, by name.
// Requires: the recipe has no MTP head.
std::vector<SynthTensor> synth_tensors(
    const Recipe& recipe, Container container,
    const std::map<std::string, std::vector<float>>& constants);

}  // namespace ingot
