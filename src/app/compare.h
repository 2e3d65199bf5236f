// `eval logits --reference`: another program's hidden states and logits beside ours.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/checkpoint.h"

namespace ingot {

// What is compared: a hidden state by its number, or one of these.
constexpr int kLogits = -1;
constexpr int kMtpLogits = -2;
constexpr int kDraftLogits = -3;

// Reads both namings: logits.N, hidden.N.LAYER (what --out writes) and pN.logits,
// pN.hiddenK, pN.ids (the golden files).  A tensor with fewer rows than ours holds the
// last ones.
class Reference {
 public:
  explicit Reference(const std::string& file);
  // The prompts in the file (pN.ids); throws Error when it has none.
  std::vector<std::vector<int>> prompts() const;
  // float32 values, or nothing when the file has no such tensor.  layer: also kLogits and
  // so on.
  struct Values {
    std::vector<float> values;
    int64_t width = 0;
  };
  std::optional<Values> find(int prompt, int layer) const;

 private:
  std::string file_;
  MappedFile mapped_;
  SafetensorsFile parsed_;
};

class Comparison {
 public:
  void add(const Reference& reference, int prompt, int layer, std::span<const float> ours,
           int width);
  // Prints the largest error of each layer over all prompts, names the first layer past
  // the tolerance; returns 0 when there is none, else 1.  Throws Error when nothing was
  // compared.
  int report(double tolerance) const;

 private:
  struct Row {
    int prompt, layer, position;
    double error;
    int64_t compared;
  };
  std::vector<Row> rows_;
};

}  // namespace ingot
