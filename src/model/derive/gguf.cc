// Shared readings of GGUF metadata.
#include <algorithm>

#include "base/error.h"
#include "model/derive/decoder.h"

namespace ingot {
namespace {

// The one value of the layers, zeros left out (layers without attention).
int same_everywhere(const Fields& fields, std::string_view name,
                    const std::vector<int>& values) {
  int found = 0;
  for (const int value : values) {
    if (value == 0) continue;
    if (found != 0 && value != found) fields.refuse(name, "the same for every layer");
    found = value;
  }
  if (found == 0) fields.refuse(name, "more than 0");
  return found;
}

int vocabulary(const Checkpoint& checkpoint, const Fields& fields, int hidden_size) {
  const StoredTensor& embed = checkpoint.require("token_embd.weight");
  if (embed.view.shape.size() != 2 || embed.view.shape[0] > (1 << 22))
    fail("{}: tensor 'token_embd.weight' is {}, wanted [vocabulary, {}]",
         printable(checkpoint.path), to_string(embed.view.shape), hidden_size);
  const int size = int(embed.view.shape[0]);
  if (fields.integer_or("vocab_size", 1, 1 << 22, size) != size)
    fields.refuse("vocab_size", fmt::format("the {} rows of token_embd.weight", size));
  return size;
}

}  // namespace

Decoder sizes_from_gguf(const Checkpoint& checkpoint, const Fields& fields,
                        const std::string& architecture) {
  Decoder d;
  d.family = architecture;
  d.hidden_size = fields.integer("embedding_length", 1, 1 << 17);
  const int n_blocks = fields.integer("block_count", 1, 512);
  const int n_heads = fields.integer_or("nextn_predict_layers", 0, 16, 0);
  if (n_heads >= n_blocks)
    fields.refuse("nextn_predict_layers", fmt::format("fewer than {} blocks", n_blocks));
  d.n_layers = n_blocks - n_heads;
  d.max_positions = fields.integer("context_length", 1, 1 << 27);
  if (fields.has("feed_forward_length") || !fields.has("expert_feed_forward_length"))
    d.intermediate_size =
        same_everywhere(fields, "feed_forward_length",
                        fields.per_layer("feed_forward_length", n_blocks, 0, 1 << 20));
  if (!fields.has("attention.layer_norm_epsilon"))
    d.norm_eps = fields.real("attention.layer_norm_rms_epsilon", 1e-12, 0.1);
  d.n_heads =
      same_everywhere(fields, "attention.head_count",
                      fields.per_layer("attention.head_count", n_blocks, 0, 4096));
  d.vocab_size = vocabulary(checkpoint, fields, d.hidden_size);
  d.tied = checkpoint.find("output.weight") == nullptr;
  d.layers.assign(size_t(d.n_layers), LayerPlan());
  fields.ignore({"attention.causal", "tensor_data_layout"});
  fields.only("attention.causal", true);
  return d;
}

Decoder decoder_from_gguf(const Checkpoint& checkpoint, const Fields& fields,
                          const std::string& architecture) {
  Decoder d = sizes_from_gguf(checkpoint, fields, architecture);
  const int n_blocks = fields.integer("block_count", 1, 512);
  d.n_kv_heads = d.n_heads;
  if (fields.has("attention.head_count_kv"))
    d.n_kv_heads =
        same_everywhere(fields, "attention.head_count_kv",
                        fields.per_layer("attention.head_count_kv", n_blocks, 0, 4096));
  if (fields.has("attention.key_length")) {
    d.head_dim = fields.integer("attention.key_length", 1, 4096);
  } else {
    if (d.hidden_size % d.n_heads != 0)
      fields.refuse("attention.head_count",
                    fmt::format("a divisor of embedding_length {}", d.hidden_size));
    d.head_dim = d.hidden_size / d.n_heads;
  }
  if (fields.integer_or("attention.value_length", 1, 4096, d.head_dim) != d.head_dim)
    fields.refuse("attention.value_length",
                  fmt::format("the key length, {}", d.head_dim));
  return d;
}

std::vector<bool> local_layers_from_gguf(const Fields& fields, int n_layers, int period) {
  constexpr std::string_view kField = "attention.sliding_window_pattern";
  std::vector<bool> local(static_cast<size_t>(n_layers));
  if (fields.has(kField)) {
    const std::vector<int> pattern = fields.integers(kField, 0, 512);
    if (pattern.size() != 1 || pattern[0] <= 1) {
      if (pattern.size() != size_t(n_layers))
        fields.refuse(kField,
                      fmt::format("one number, or {} flags, one a layer", n_layers));
      for (size_t i = 0; i < local.size(); ++i) local[i] = pattern[i] != 0;
      return local;
    }
    period = pattern[0];
  }
  for (int i = 0; i < n_layers; ++i) local[size_t(i)] = (i + 1) % period != 0;
  return local;
}

Experts experts_from_gguf(const Fields& fields, const Decoder& d, RouterScore gating) {
  Experts e;
  e.routing.n_experts = fields.integer("expert_count", 1, 4096);
  e.routing.n_used = fields.integer("expert_used_count", 1, 4096);
  if (fields.has("expert_feed_forward_length")) {
    const std::vector<int> sizes =
        fields.integers("expert_feed_forward_length", 1, 1 << 20);
    e.intermediate_size = same_everywhere(fields, "expert_feed_forward_length", sizes);
  } else {
    e.intermediate_size = d.intermediate_size;
  }
  e.routing.n_groups = std::max(1, fields.integer_or("expert_group_count", 0, 4096, 1));
  e.routing.n_groups_used =
      std::max(1, fields.integer_or("expert_group_used_count", 0, 4096, 1));
  // 0 means unset in files of some converters.
  const int stated = fields.integer_or("expert_gating_func", 0, 8, 0);
  const int wanted = gating == RouterScore::softmax   ? 1
                     : gating == RouterScore::sigmoid ? 2
                                                      : 3;
  if (stated != 0 && stated != wanted)
    fields.refuse("expert_gating_func",
                  fmt::format("{} (the architecture's own)", wanted));
  e.routing.score = gating;
  const double scale = fields.real_or("expert_weights_scale", 0.0, 1e6, 1.0);
  e.routing.scale = scale == 0.0 ? 1.0f : float(scale);
  check_experts(fields, e, d.n_layers, "expert_count", "expert_used_count");
  return e;
}

void refuse_experts(const Fields& fields) {
  if (fields.integer_or("expert_count", 0, 4096, 0) != 0)
    fields.refuse("expert_count", "0: this architecture has no experts");
  fields.ignore({"expert_used_count"});
}

}  // namespace ingot
