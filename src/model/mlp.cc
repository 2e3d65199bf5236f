#include <algorithm>

#include "model/parts.h"

namespace ingot {

void feed_forward(const Step& step, const Mlp& mlp, Rows in, Rows out) {
  Ops& ops = step.ops;
  const MlpRecipe& r = *mlp.recipe;
  const int inner = r.intermediate_size;
  const Rows input =
      step.work.ffn.rows.columns(0, r.gated ? 2 * inner : inner).first_rows(in.n_rows);
  const Rows activated = input.columns(0, inner);  // [n, intermediate_size]
  ops.matmul(input, in, *mlp.input.weight, mlp.input.bias.buffer());
  if (r.gated)
    ops.gated_activation(activated, input, r.activation);
  else
    ops.activation(activated, r.activation.kind);
  ops.matmul(out, activated, *mlp.down.weight, mlp.down.bias.buffer());
}

void widen(Widths& widths, const MlpRecipe& r) {
  widths.ffn = std::max(widths.ffn, r.intermediate_size * (r.gated ? 2 : 1));
}

void normalise(Ops& ops, Rows out, Rows x, const Norm& norm) {
  if (norm.kind == NormKind::layer)
    ops.layer_norm(out, x, norm.weight.buffer(), norm.bias.buffer(), norm.eps);
  else
    ops.rms_norm(out, x, norm.weight.buffer(), norm.eps);
}

Rows normalised(Ops& ops, Rows out, Rows x, const std::optional<Norm>& norm) {
  if (!norm) return x;
  normalise(ops, out, x, *norm);
  return out;
}

}  // namespace ingot
