// Shared readings of config.json.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "model/derive/decoder.h"

namespace ingot {

GatedActivation activation_from(const Fields& config, std::string_view field,
                                std::string_view fallback) {
  const std::string name = config.text_or(field, fallback);
  if (name == "silu" || name == "swish") return {.kind = Activation::silu};
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return {.kind = Activation::gelu_tanh};
  if (name == "gelu") return {.kind = Activation::gelu_erf};
  config.refuse(field, "silu, gelu_pytorch_tanh, gelu_new or gelu");
}

std::string hf_prefix(const Checkpoint& checkpoint, std::string_view embed_name) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"model.",
                                                         "transformer.",
                                                         "",
                                                         "language_model.model.",
                                                         "model.language_model.",
                                                         "model.text_model."};
  for (const std::string_view prefix : kPrefixes)
    if (checkpoint.find(std::string(prefix) + std::string(embed_name)))
      return std::string(prefix);
  fail("{}: tensor 'model.{}' is missing, wanted by the recipe",
       printable(checkpoint.path), embed_name);
}

namespace {

void ignore_harmless(const Fields& config) {
  config.ignore({"architectures",
                 "model_type",
                 "torch_dtype",
                 "dtype",
                 "use_cache",
                 "initializer_range",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "transformers_version",
                 "attention_dropout",
                 "hidden_dropout",
                 "resid_pdrop",
                 "embd_pdrop",
                 "attn_pdrop",
                 "pretraining_tp",
                 "tie_word_embeddings",
                 "_name_or_path",
                 "auto_map",
                 "rope_interleaved",
                 "quantization",
                 "quantization_config",
                 "cache_implementation",
                 "_attn_implementation"});
}

}  // namespace

Decoder decoder_from_config(const Fields& config, const std::string& model_type,
                            int default_head_dim, MlpSize mlp_size) {
  Decoder d;
  d.family = model_type;
  d.vocab_size = config.integer("vocab_size", 1, 1 << 22);
  d.hidden_size = config.integer("hidden_size", 1, 1 << 17);
  if (config.has("intermediate_size") || mlp_size == MlpSize::required)
    d.intermediate_size = config.integer("intermediate_size", 1, 1 << 20);
  d.n_layers = config.integer("num_hidden_layers", 1, 512);
  d.n_heads = config.integer("num_attention_heads", 1, 4096);
  d.n_kv_heads = config.integer_or("num_key_value_heads", 1, d.n_heads, d.n_heads);
  if (config.has("head_dim")) {
    d.head_dim = config.integer("head_dim", 1, 4096);
  } else if (default_head_dim > 0) {
    d.head_dim = default_head_dim;
  } else {
    if (d.hidden_size % d.n_heads != 0) {
      config.refuse(
          "num_attention_heads",
          fmt::format("a divisor of hidden_size {}, since head_dim is not given",
                      d.hidden_size));
    }
    d.head_dim = d.hidden_size / d.n_heads;
  }
  d.max_positions = config.integer_or("max_position_embeddings", 1, 1 << 27, 2048);
  d.norm_eps = config.real_or("rms_norm_eps", 1e-12, 0.1, 1e-6);
  d.layers.assign(size_t(d.n_layers), LayerPlan());
  ignore_harmless(config);
  return d;
}

std::vector<std::string> layer_types(const Fields& config, int n_layers,
                                     std::initializer_list<std::string_view> allowed) {
  if (!config.has("layer_types")) return {};
  std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != size_t(n_layers))
    config.refuse("layer_types", fmt::format("{} entries, one a layer", n_layers));
  for (const std::string& type : types) {
    if (std::find(allowed.begin(), allowed.end(), type) != allowed.end()) continue;
    std::string list;
    for (const std::string_view one : allowed)
      list += (list.empty() ? "" : " or ") + std::string(one);
    config.refuse("layer_types",
                  fmt::format("{} only, not '{}'", list, printable_text(type)));
  }
  return types;
}

std::string_view present_field(const Fields& config,
                               std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (config.has(name)) return name;
  return *names.begin();
}

Experts experts_from_config(const Fields& config,
                            std::initializer_list<std::string_view> count,
                            std::string_view size_field) {
  Experts e;
  const std::string_view count_field = present_field(config, count);
  e.routing.n_experts = config.integer(count_field, 0, 4096);
  for (const std::string_view other : count)
    if (config.has(other) && config.integer(other, 0, 4096) != e.routing.n_experts)
      config.refuse(other,
                    fmt::format("{}, as '{}' says", e.routing.n_experts, count_field));
  e.routing.n_used = config.integer(
      present_field(config, {"num_experts_per_tok", "experts_per_token"}), 1, 4096);
  if (config.integer_or("experts_per_token", 1, 4096, e.routing.n_used) !=
      e.routing.n_used)
    config.refuse("experts_per_token",
                  fmt::format("{}, as 'num_experts_per_tok' says", e.routing.n_used));
  e.intermediate_size = config.integer(size_field, 1, 1 << 20);
  // What training alone reads.
  config.ignore({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise",
                 "aux_loss_alpha", "seq_aux", "ep_size"});
  return e;
}

void groups_from_config(const Fields& config, Experts& experts) {
  experts.routing.n_groups = config.integer_or("n_group", 1, 4096, 1);
  experts.routing.n_groups_used = config.integer_or("topk_group", 1, 4096, 1);
}

void check_experts(const Fields& fields, const Experts& experts, int n_layers,
                   std::string_view count_field, std::string_view used_field) {
  constexpr int kMaxMatrices = 1 << 16;  // three times what the largest published has
  const RouterArgs& r = experts.routing;
  if (r.n_used > r.n_experts)
    fields.refuse(used_field, fmt::format("at most the {} experts", r.n_experts));
  if (r.n_experts * n_layers > kMaxMatrices)
    fields.refuse(count_field,
                  fmt::format("at most {} experts in {} layers", kMaxMatrices, n_layers));
  const bool gguf = fields.has("expert_group_count");
  const std::string_view groups = gguf ? "expert_group_count" : "n_group";
  const std::string_view used = gguf ? "expert_group_used_count" : "topk_group";
  if (r.n_experts % r.n_groups != 0)
    fields.refuse(groups, fmt::format("a divisor of the {} experts", r.n_experts));
  if (r.n_groups_used > r.n_groups)
    fields.refuse(used, fmt::format("at most the {} groups", r.n_groups));
  const int size = r.n_experts / r.n_groups;
  if (r.n_groups > 1 && size < 2)
    fields.refuse(groups, "groups of two experts or more (their two best are added)");
  if (r.n_used > r.n_groups_used * size)
    fields.refuse(
        used, fmt::format("enough groups of {} for {} experts a token", size, r.n_used));
}

}  // namespace ingot
