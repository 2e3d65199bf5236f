#include "base/check.h"
#include "model/parts.h"

namespace ingot {

void feed_forward(Ops& ops, const Mlp& mlp, Rows h, Workspace& work) {
  const MlpRecipe& r = *mlp.recipe;
  const int inner = r.intermediate_size;
  const Rows input =
      work.ffn.rows.columns(0, r.gated ? 2 * inner : inner).first_rows(h.n_rows);
  const Rows activated = input.columns(0, inner);  // [n, intermediate_size]
  ops.matmul(input, h, *mlp.input.weight, mlp.input.bias.buffer());
  if (r.gated)
    ops.gated_activation(activated, input, r.activation);
  else
    ops.activation(activated, r.activation);
  ops.matmul(h, activated, *mlp.down.weight, mlp.down.bias.buffer());
}

void normalise(Ops& ops, Rows out, Rows x, const Norm& norm) {
  if (norm.kind == NormKind::layer)
    ops.layer_norm(out, x, norm.weight.buffer(), norm.bias.buffer(), norm.eps);
  else
    ops.rms_norm(out, x, norm.weight.buffer(), norm.eps);
}

void normalise(Ops& ops, Rows out, Rows x, const std::optional<Norm>& norm) {
  if (norm)
    normalise(ops, out, x, *norm);
  else
    CHECK(out.buffer.data == x.buffer.data && out.buffer.offset == x.buffer.offset);
}

}  // namespace ingot
