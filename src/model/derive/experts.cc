// Experts, in each of the forms that checkpoints store them in.
#include "base/check.h"
#include "model/derive/parts.h"

namespace ingot {
namespace {

// Matrix `expert` of a stack.
MatrixSource in_stack(const std::string& name, int expert, int n_experts, int n_rows,
                      int n_cols) {
  return {.name = name,
          .n_rows = n_rows,
          .n_cols = n_cols,
          .slice = expert,
          .n_slices = n_experts};
}

VectorSource bias_in_stack(const std::string& name, int expert, int n_experts, int n) {
  return {.name = name, .n = n, .slice = expert, .n_slices = n_experts};
}

void add_one_by_one(ExpertsRecipe& out, const Build& b, const std::string& layer) {
  const Experts& e = *b.d.experts;
  const int size = e.intermediate_size;
  const int hidden = b.d.hidden_size;
  const ExpertNames& names = b.names.experts;
  for (int i = 0; i < e.routing.n_experts; ++i) {
    const std::string one = layer + names.one + std::to_string(i) + ".";
    LinearRecipe input = plain_linear(one + names.gate, size, hidden);
    input.parts.push_back(
        {.name = one + names.up + ".weight", .n_rows = size, .n_cols = hidden});
    out.input.push_back(std::move(input));
    out.down.push_back(plain_linear(one + names.down, hidden, size));
  }
}

// A tensor each for gate, up and down: [n_experts, ., .]; biases [n_experts, .].
void add_stacks(ExpertsRecipe& out, const Build& b, const std::string& stack) {
  const Experts& e = *b.d.experts;
  const int size = e.intermediate_size;
  const int hidden = b.d.hidden_size;
  const int n = e.routing.n_experts;
  const std::string gate = stack + b.names.experts.stack_gate;
  const std::string up = stack + b.names.experts.stack_up;
  const std::string down = stack + b.names.experts.stack_down;
  for (int i = 0; i < n; ++i) {
    LinearRecipe input{{in_stack(gate + ".weight", i, n, size, hidden),
                        in_stack(up + ".weight", i, n, size, hidden)},
                       {}};
    LinearRecipe output{{in_stack(down + ".weight", i, n, hidden, size)}, {}};
    if (e.bias) {
      input.bias = {bias_in_stack(gate + ".bias", i, n, size),
                    bias_in_stack(up + ".bias", i, n, size)};
      output.bias = {bias_in_stack(down + ".bias", i, n, hidden)};
    }
    out.input.push_back(std::move(input));
    out.down.push_back(std::move(output));
  }
}

// Gate and up in one tensor: [n_experts, 2 * size, hidden].
void add_fused(ExpertsRecipe& out, const Build& b, const std::string& gate_up,
               const std::string& down) {
  const Experts& e = *b.d.experts;
  const int size = e.intermediate_size;
  const int n = e.routing.n_experts;
  for (int i = 0; i < n; ++i) {
    out.input.push_back({{in_stack(gate_up, i, n, 2 * size, b.d.hidden_size)}, {}});
    out.down.push_back({{in_stack(down, i, n, b.d.hidden_size, size)}, {}});
  }
}

// gpt-oss: the rows of gate and up alternate; stored [in, out], or as MXFP4 blocks, rows
// then being outputs.
void add_alternating(ExpertsRecipe& out, const Build& b, const std::string& stack) {
  const Experts& e = *b.d.experts;
  const int size = e.intermediate_size;
  const RowOrder order{0, {{2, 1}, {size, 2}}};
  const std::string gate_up = stack + b.names.experts.stack_gate_up;
  const std::string down = stack + b.names.experts.stack_down;
  const bool blocks = b.checkpoint.find(gate_up + "_blocks") != nullptr;
  const int n = e.routing.n_experts;
  for (int i = 0; i < n; ++i) {
    MatrixSource in = in_stack(gate_up, i, n, 2 * size, b.d.hidden_size);
    in.order = order;
    MatrixSource back = in_stack(down, i, n, b.d.hidden_size, size);
    in.transposed = back.transposed = !blocks;
    VectorSource in_bias = bias_in_stack(gate_up + "_bias", i, n, 2 * size);
    in_bias.order = order;
    out.input.push_back({{in}, {in_bias}});
    out.down.push_back({{back}, {bias_in_stack(down + "_bias", i, n, b.d.hidden_size)}});
  }
}

void add_experts(ExpertsRecipe& out, const Build& b, const std::string& layer) {
  const ExpertNames& names = b.names.experts;
  for (const std::string& prefix : names.stacks) {
    const std::string stack = layer + prefix;
    if (b.checkpoint.find(stack + names.stack_gate + ".weight"))
      return add_stacks(out, b, stack);
    if (b.d.experts->alternating) continue;
    const std::string fused = stored_name(b.checkpoint, stack + names.stack_gate_up);
    if (fused.empty()) continue;
    const std::string down = stored_name(b.checkpoint, stack + names.stack_down);
    return add_fused(out, b, fused,
                     down.empty() ? stack + names.stack_down + ".weight" : down);
  }
  // None there: what is published, so that its name is told as missing.
  if (b.d.experts->alternating) return add_alternating(out, b, layer + names.stacks[0]);
  if (names.one.empty()) return add_stacks(out, b, layer + names.stacks[0]);
  add_one_by_one(out, b, layer);
}

MlpRecipe shared_expert(const Build& b, const std::string& layer) {
  const ExpertNames& names = b.names.experts;
  MlpRecipe out;
  out.intermediate_size = b.d.experts->shared_size;
  out.activation = b.d.activation;
  for (const std::string& name : {names.shared_gate, names.shared_up})
    add_part(out.input, b.d, layer + name, out.intermediate_size, b.d.hidden_size, false);
  add_part(out.down, b.d, layer + names.shared_down, b.d.hidden_size,
           out.intermediate_size, false);
  return out;
}

}  // namespace

ExpertsRecipe build_experts(const Build& b, const std::string& layer) {
  CHECK(b.d.experts.has_value());
  const Experts& e = *b.d.experts;
  const ExpertNames& names = b.names.experts;
  ExpertsRecipe out;
  out.intermediate_size = e.intermediate_size;
  out.activation = b.d.activation;
  out.routing = e.routing;
  out.router =
      plain_linear(layer + names.router, e.routing.n_experts, b.d.hidden_size, e.bias);
  if (e.selection_bias)
    out.selection_bias =
        VectorSource{.name = layer + names.selection_bias, .n = e.routing.n_experts};
  add_experts(out, b, layer);
  if (e.shared_size > 0) {
    out.shared = shared_expert(b, layer);
    if (e.shared_gated)
      out.shared_gate = plain_linear(layer + names.shared_sigmoid, 1, b.d.hidden_size);
  }
  return out;
}

}  // namespace ingot
