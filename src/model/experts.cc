// Experts: a router chooses a few MLPs for each token; one more may run for every token.
#include <algorithm>

#include "model/parts.h"

namespace ingot {

void feed_forward(const Step& step, const Experts& experts, Rows in, Rows out) {
  Ops& ops = step.ops;
  Workspace& work = step.work;
  const ExpertsRecipe& r = *experts.recipe;
  const int n = in.n_rows;
  const int used = experts.routing.n_used;
  const Rows scores =  // [n, n_experts]
      work.router_logits.rows.columns(0, experts.routing.n_experts).first_rows(n);
  const Rows input =  // [n * n_used, 2 * intermediate_size]
      work.expert_inputs.rows.columns(0, 2 * r.intermediate_size).first_rows(n * used);
  const Rows activated = input.columns(0, r.intermediate_size);
  const Rows outputs = work.expert_outputs.rows.first_rows(n * used);
  const Routing routing{work.routed_experts.buffer(), work.routed_weights.buffer(), used};

  ops.matmul(scores, in, *experts.router.weight, experts.router.bias.buffer());
  ops.route(routing, scores, experts.routing);
  ops.expert_matmul(input, in, experts.input, routing);
  ops.gated_activation(activated, input, r.activation);
  ops.expert_matmul(outputs, activated, experts.down, routing);

  const Rows shared = work.shared.rows.first_rows(experts.shared ? n : 0);
  const Rows gate = work.shared_gate.rows.first_rows(experts.shared_gate ? n : 0);
  if (experts.shared) feed_forward(step, *experts.shared, in, shared);
  if (experts.shared_gate)
    ops.matmul(gate, in, *experts.shared_gate->weight,
               experts.shared_gate->bias.buffer());
  ops.combine_experts(out, outputs, routing);  // `in` may be gone from here on
  if (experts.shared_gate)
    ops.add_gated(out, shared, gate);
  else if (experts.shared)
    ops.add(out, shared);
}

void widen(Widths& widths, const ExpertsRecipe& r) {
  widths.n_experts = std::max(widths.n_experts, r.routing.n_experts);
  widths.n_used = std::max(widths.n_used, r.routing.n_used);
  widths.expert_input = std::max(widths.expert_input, 2 * r.intermediate_size);
  widths.shared = widths.shared || r.shared.has_value();
  if (r.shared) widen(widths, *r.shared);
}

}  // namespace ingot
