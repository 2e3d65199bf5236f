// Mixers, MLPs and experts: heads, widths, and what one part gives the next.
#include "model/recipe_check_parts.h"

namespace ingot {
namespace {

void check_heads(const Checker& check, const std::string& path, int n_heads,
                 const char* few_name, int n_few) {
  if (n_heads % n_few != 0)
    check.refuse(path + "." + few_name, n_few,
                 fmt::format("a number that divides {} heads", n_heads));
}

template <typename Part>
void check_count(const Checker& check, const std::string& path,
                 const std::vector<Part>& parts, int wanted, const char* what) {
  check.equal(path, int64_t(parts.size()), wanted, what);
}

void check_indexer(const Checker& check, const std::string& path,
                   const LatentAttentionRecipe& a, int q_latent) {
  const IndexerRecipe& i = *a.indexer;
  const int hidden = check.recipe.hidden_size;
  if (!a.q_a)
    check.refuse(path, "there", "it absent without q_a, since it reads the query latent");
  if (a.shares_selection)
    check.refuse(path, "there", "it absent where shares_selection is true");
  const int width = check.width(path, int64_t{i.n_heads} * i.head_dim);
  check.rope(path + ".rope", i.rope, i.head_dim);
  check.linear(path + ".q", i.q, width, q_latent);
  check.linear(path + ".k", i.k, i.head_dim, hidden);
  check.norm(path + ".k_norm", i.k_norm, i.head_dim);
  check.linear(path + ".weights", i.weights, i.n_heads, hidden);
}

void check_routing(const Checker& check, const std::string& path, const RouterArgs& r) {
  if (r.n_used > r.n_experts)
    check.refuse(path + ".n_used", r.n_used,
                 fmt::format("at most n_experts, {}", r.n_experts));
  check_heads(check, path, r.n_experts, "n_groups", r.n_groups);
  if (r.n_groups_used > r.n_groups)
    check.refuse(path + ".n_groups_used", r.n_groups_used,
                 fmt::format("at most n_groups, {}", r.n_groups));
  const int within = r.n_groups_used * (r.n_experts / r.n_groups);
  if (r.n_used > within)
    check.refuse(
        path + ".n_used", r.n_used,
        fmt::format("at most the {} experts of {} groups", within, r.n_groups_used));
}

// Biases of all or of none: they are uploaded as one array.
void check_experts(const Checker& check, const std::string& path,
                   const std::vector<LinearRecipe>& experts, int n_rows, int n_cols) {
  for (size_t i = 0; i < experts.size(); ++i) {
    const std::string one = fmt::format("{}[{}]", path, i);
    check.linear(one, experts[i], n_rows, n_cols);
    if (experts[i].bias.empty() != experts[0].bias.empty())
      check.refuse(one + ".bias", experts[i].bias.empty() ? "absent" : "there",
                   "biases for all experts or for none");
  }
}

}  // namespace

void check_mixer(const Checker& check, const std::string& path,
                 const AttentionRecipe& a) {
  const int hidden = check.recipe.hidden_size;
  check_heads(check, path, a.n_heads, "n_kv_heads", a.n_kv_heads);
  const int64_t q = int64_t{a.n_heads} * a.head_dim;
  const int64_t kv = int64_t{a.n_kv_heads} * a.head_dim;
  const int rows = check.width(path + ".qkv", (a.gated ? 2 : 1) * q + 2 * kv);
  check.rope(path + ".rope", a.rope, a.head_dim);
  check.linear(path + ".qkv", a.qkv, rows, hidden);
  check.linear(path + ".output", a.output, hidden, int(q));
  const bool whole = a.norm_span == HeadNormSpan::projection;
  if (a.q_norm) check.rms_norm(path + ".q_norm", *a.q_norm, whole ? int(q) : a.head_dim);
  if (a.k_norm) check.rms_norm(path + ".k_norm", *a.k_norm, whole ? int(kv) : a.head_dim);
  if (a.sinks) check.vector(path + ".sinks", *a.sinks, a.n_heads);
}

void check_mixer(const Checker& check, const std::string& path,
                 const LatentAttentionRecipe& a) {
  const int hidden = check.recipe.hidden_size;
  const int head_dim = a.nope_dims + a.rope_dims;
  check.rope(path + ".rope", a.rope, a.rope_dims);
  if (a.q_a && !a.q_a_norm) check.missing(path + ".q_a_norm");
  if (!a.q_a && a.q_a_norm)
    check.refuse(path + ".q_a_norm", "there", "it absent without q_a");
  int q_latent = 0;
  if (a.q_a) {
    q_latent = check.width(path + ".q_a_norm", a.q_a_norm->weight.n);
    check.linear(path + ".q_a", *a.q_a, q_latent, hidden);
    check.norm(path + ".q_a_norm", *a.q_a_norm, q_latent);
  }
  const int q_rows = check.width(path + ".q_b", int64_t{a.n_heads} * head_dim);
  check.width(path + ".key_up", int64_t{a.n_heads} * (a.kv_lora_rank + a.rope_dims));
  check.linear(path + ".q_b", a.q_b, q_rows, a.q_a ? q_latent : hidden);
  check.linear(path + ".kv_a", a.kv_a, a.kv_lora_rank + a.rope_dims, hidden);
  check.norm(path + ".kv_a_norm", a.kv_a_norm, a.kv_lora_rank);
  check_count(check, path + ".key_up", a.key_up, a.n_heads, "entries, one a head");
  check_count(check, path + ".value_up", a.value_up, a.n_heads, "entries, one a head");
  for (size_t h = 0; h < a.key_up.size(); ++h) {
    check.matrix(fmt::format("{}.key_up[{}]", path, h), a.key_up[h], a.kv_lora_rank,
                 a.nope_dims);
    check.matrix(fmt::format("{}.value_up[{}]", path, h), a.value_up[h], a.value_dim,
                 a.kv_lora_rank);
  }
  const int values = check.width(path + ".output", int64_t{a.n_heads} * a.value_dim);
  check.linear(path + ".output", a.output, hidden, values);
  if (a.indexer) check_indexer(check, path + ".indexer", a, q_latent);
}

void check_mixer(const Checker& check, const std::string& path,
                 const GatedDeltaRecipe& d) {
  const int hidden = check.recipe.hidden_size;
  check_heads(check, path, d.n_value_heads, "n_key_heads", d.n_key_heads);
  const int64_t values = int64_t{d.n_value_heads} * d.value_dim;
  const int64_t channels = 2 * int64_t{d.n_key_heads} * d.key_dim + values;
  const int rows =
      check.width(path + ".input", channels + values + 2 * int64_t{d.n_value_heads});
  check.linear(path + ".input", d.input, rows, hidden);
  check.matrix(path + ".conv", d.conv, int(channels), d.conv_kernel);
  if (d.conv.transposed) check.refuse(path + ".conv.transposed", "true", "false");
  check.vector(path + ".decay", d.decay, d.n_value_heads);
  check.vector(path + ".dt_bias", d.dt_bias, d.n_value_heads);
  check.rms_norm(path + ".norm", d.norm, d.value_dim);
  check.linear(path + ".output", d.output, hidden, int(values));
}

void check_ffn(const Checker& check, const std::string& path, const MlpRecipe& m) {
  const int hidden = check.recipe.hidden_size;
  if (!m.gated && m.activation.limit > 0)
    check.refuse(path + ".activation.limit", double(m.activation.limit),
                 "it absent where the MLP is not gated");
  check.linear(path + ".input", m.input, (m.gated ? 2 : 1) * m.intermediate_size, hidden);
  check.linear(path + ".down", m.down, hidden, m.intermediate_size);
}

void check_ffn(const Checker& check, const std::string& path, const ExpertsRecipe& e) {
  const int hidden = check.recipe.hidden_size;
  const int n = e.routing.n_experts;
  check_routing(check, path + ".routing", e.routing);
  check.linear(path + ".router", e.router, n, hidden);
  if (e.selection_bias) check.vector(path + ".selection_bias", *e.selection_bias, n);
  check_count(check, path + ".input", e.input, n, "entries, one an expert");
  check_count(check, path + ".down", e.down, n, "entries, one an expert");
  check_experts(check, path + ".input", e.input, 2 * e.intermediate_size, hidden);
  check_experts(check, path + ".down", e.down, hidden, e.intermediate_size);
  if (e.shared) check_ffn(check, path + ".shared", *e.shared);
  if (!e.shared_gate) return;
  if (!e.shared) check.refuse(path + ".shared_gate", "there", "it absent without shared");
  check.linear(path + ".shared_gate", *e.shared_gate, 1, hidden);
}

}  // namespace ingot
