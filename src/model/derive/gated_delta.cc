// The gated delta rule's projections, in the orders that checkpoints store them in
// (architectures.md 11.2, 11.3).
#include "base/check.h"
#include "model/derive/parts.h"

namespace ingot {
namespace {

// Of each of n_groups runs of `stride` stored rows, those from `first` on.
void add_grouped(LinearRecipe& linear, const Build& b, const std::string& name,
                 int n_groups, int stride, int first, int count) {
  add_part(linear, b.d, name, n_groups * count, b.d.hidden_size, false,
           {first, {{n_groups, stride}, {count, 1}}}, n_groups * stride);
}

void add_projections(LinearRecipe& input, const Build& b, const std::string& layer) {
  const GatedDelta& g = *b.d.delta;
  const DeltaNames& names = b.names.delta;
  const int channels = 2 * g.n_key_heads * g.key_dim + g.n_value_heads * g.value_dim;
  const int n = g.n_key_heads;
  const int ratio = g.n_value_heads / n;  // value heads of a key head
  const int values = ratio * g.value_dim;
  if (g.grouped_qkvz) {
    const int stride = 2 * g.key_dim + 2 * values;
    const std::string qkvz = layer + names.qkvz;
    add_grouped(input, b, qkvz, n, stride, 0, g.key_dim);
    add_grouped(input, b, qkvz, n, stride, g.key_dim, g.key_dim);
    add_grouped(input, b, qkvz, n, stride, 2 * g.key_dim, values);
    add_grouped(input, b, qkvz, n, stride, 2 * g.key_dim + values, values);
  } else {
    add_part(input, b.d, layer + names.qkv, channels, b.d.hidden_size, false);
    add_part(input, b.d, layer + names.z, g.n_value_heads * g.value_dim, b.d.hidden_size,
             false);
  }
  if (g.grouped_ba) {
    add_grouped(input, b, layer + names.ba, n, 2 * ratio, 0, ratio);
    add_grouped(input, b, layer + names.ba, n, 2 * ratio, ratio, ratio);
  } else {
    add_part(input, b.d, layer + names.b, g.n_value_heads, b.d.hidden_size, false);
    add_part(input, b.d, layer + names.a, g.n_value_heads, b.d.hidden_size, false);
  }
}

}  // namespace

GatedDeltaRecipe build_gated_delta(const Build& b, const std::string& layer) {
  CHECK(b.d.delta.has_value());
  const GatedDelta& g = *b.d.delta;
  const DeltaNames& names = b.names.delta;
  GatedDeltaRecipe out;
  out.n_key_heads = g.n_key_heads;
  out.n_value_heads = g.n_value_heads;
  out.key_dim = g.key_dim;
  out.value_dim = g.value_dim;
  out.conv_kernel = g.conv_kernel;
  out.tiled_value_heads = g.tiled;
  add_projections(out.input, b, layer);
  const int value_rows = g.n_value_heads * g.value_dim;
  out.conv = {.name = layer + names.conv + ".weight",
              .n_rows = 2 * g.n_key_heads * g.key_dim + value_rows,
              .n_cols = g.conv_kernel};
  out.decay = {.name = layer + names.decay, .n = g.n_value_heads, .map = g.decay};
  out.dt_bias = {.name = layer + names.dt_bias, .n = g.n_value_heads};
  out.norm = plain_norm(layer + names.norm, g.value_dim, b.d.norm_eps);
  out.output = plain_linear(layer + names.o, b.d.hidden_size, value_rows);
  return out;
}

}  // namespace ingot
