// What describe() and inspect tell about a recipe besides its fields.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/recipe.h"

namespace ingot {

// One fact of a description: a short label and what it says.
struct Fact {
  std::string label;
  std::string text;
};
std::vector<Fact> recipe_facts(const Recipe& recipe);
// "label   text" lines, the labels padded to one width.
std::string to_lines(const std::vector<Fact>& facts);

// 0, 1, 2, 4, 5 -> "0-2, 4-5"
std::string index_ranges(std::span<const int> indices);
// 1234567 -> "1,234,567"
std::string with_commas(uint64_t n);
// A float32 as the shortest decimal that reads back as it: 1e-06, not 9.99999997e-07.
double shortest(float value);

}  // namespace ingot
