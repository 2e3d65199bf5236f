// A recipe and a checkpoint to a model in memory, part by part.
#include <algorithm>

#include "model/model.h"
#include "model/weight_reader.h"

namespace ingot {
namespace {

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Ops& ops, const ModelLoad& options)
      : reader_(checkpoint, ops, options.progress), ops_(ops) {}

  WeightReader& reader() { return reader_; }

  Memory upload(const std::vector<float>& values) {
    Memory memory = ops_.allocate(values.size() * sizeof(float));
    ops_.upload(memory.buffer(), values.data(), values.size() * sizeof(float));
    return memory;
  }

  Linear linear(const LinearRecipe& recipe) {
    Linear out{reader_.pack(recipe.parts), {}};
    if (!recipe.bias.empty()) out.bias = upload(bias(recipe));
    return out;
  }

  Norm norm(const NormRecipe& recipe) {
    Norm out{recipe.kind, recipe.eps, upload(reader_.values(recipe.weight)), {}};
    if (recipe.bias) out.bias = upload(reader_.values(*recipe.bias));
    return out;
  }

  std::optional<Norm> norm(const std::optional<NormRecipe>& recipe) {
    if (!recipe) return std::nullopt;
    return norm(*recipe);
  }

  std::optional<Linear> linear(const std::optional<LinearRecipe>& recipe) {
    if (!recipe) return std::nullopt;
    return linear(*recipe);
  }

  std::vector<std::unique_ptr<Weight>> heads(const std::vector<MatrixSource>& sources) {
    std::vector<std::unique_ptr<Weight>> out;
    for (const MatrixSource& source : sources) out.push_back(reader_.pack({source}));
    return out;
  }

  Attention mixer(const AttentionRecipe& r) {
    Attention out{&r, linear(r.qkv), linear(r.output), norm(r.q_norm), norm(r.k_norm),
                  {}};
    if (r.sinks) out.sinks = upload(reader_.values(*r.sinks));
    return out;
  }

  LatentAttention mixer(const LatentAttentionRecipe& r) {
    LatentAttention out;
    out.recipe = &r;
    out.q_a = linear(r.q_a);
    out.q_a_norm = norm(r.q_a_norm);
    out.q_b = linear(r.q_b);
    out.kv_a = linear(r.kv_a);
    out.kv_a_norm = norm(r.kv_a_norm);
    out.key_up = heads(r.key_up);
    out.value_up = heads(r.value_up);
    out.output = linear(r.output);
    if (r.indexer) {
      const IndexerRecipe& i = *r.indexer;
      out.indexer =
          Indexer{&i, linear(i.q), linear(i.k), norm(i.k_norm), linear(i.weights)};
    }
    return out;
  }

  GatedDelta mixer(const GatedDeltaRecipe& r) {
    GatedDelta out;
    out.recipe = &r;
    out.input = linear(r.input);
    out.conv = upload(reader_.matrix_values(r.conv));
    out.decay = upload(reader_.values(r.decay));
    out.dt_bias = upload(reader_.values(r.dt_bias));
    out.norm = norm(r.norm);
    out.output = linear(r.output);
    return out;
  }

  Mlp ffn(const MlpRecipe& r) { return {&r, linear(r.input), linear(r.down)}; }

  Experts ffn(const ExpertsRecipe& r) {
    Experts out;
    out.recipe = &r;
    out.routing = r.routing;
    out.router = linear(r.router);
    if (r.selection_bias) {
      out.selection_bias = upload(reader_.values(*r.selection_bias));
      out.routing.bias = out.selection_bias.buffer();
    }
    out.input = experts(r.input);
    out.down = experts(r.down);
    if (r.shared) out.shared = ffn(*r.shared);
    out.shared_gate = linear(r.shared_gate);
    return out;
  }

  Layer layer(const LayerRecipe& r) {
    Layer out;
    out.input_norm = norm(r.input_norm);
    std::visit([&](const auto& recipe) { out.mixer = mixer(recipe); }, r.mixer);
    out.post_mixer_norm = norm(r.post_mixer_norm);
    out.ffn_norm = norm(r.ffn_norm);
    std::visit([&](const auto& recipe) { out.ffn = ffn(recipe); }, r.ffn);
    out.post_ffn_norm = norm(r.post_ffn_norm);
    return out;
  }

  MtpHead mtp(const MtpRecipe& r) {
    MtpHead out;
    out.recipe = &r;
    out.embed_norm = norm(r.embed_norm);
    out.hidden_norm = norm(r.hidden_norm);
    out.project = linear(r.project);
    out.layer = layer(r.layer);
    out.final_norm = norm(r.final_norm);
    if (r.embed) out.embed = reader_.pack({*r.embed});
    out.head = linear(r.head);
    return out;
  }

  Rope rope(const RopeRecipe& r, int context) {
    std::vector<float> divisors;
    if (r.divisors) divisors = reader_.values(*r.divisors);
    if (r.scaling == RopeScalingKind::longrope) {
      const bool is_long = context > r.original_context;
      const std::vector<float> of_short =
          r.short_source ? reader_.values(*r.short_source) : r.short_divisors;
      const std::vector<float> of_long =
          r.long_source ? reader_.values(*r.long_source) : r.long_divisors;
      divisors = is_long ? of_long : of_short;
    }
    return {upload(rope_inverse_frequencies(r, divisors)), r.pairing, r.rotary_dims,
            r.attention_factor};
  }

 private:
  std::vector<float> bias(const LinearRecipe& recipe) {
    std::vector<float> out;
    for (const VectorSource& part : recipe.bias) {
      const std::vector<float> values = reader_.values(part);
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }

  ExpertWeights experts(const std::vector<LinearRecipe>& recipes) {
    ExpertWeights out;
    std::vector<float> biases;
    for (const LinearRecipe& recipe : recipes) {
      out.experts.push_back(reader_.pack(recipe.parts));
      const std::vector<float> values = bias(recipe);
      biases.insert(biases.end(), values.begin(), values.end());
    }
    if (!biases.empty()) out.bias = upload(biases);
    return out;
  }

  WeightReader reader_;
  Ops& ops_;
};

}  // namespace

std::unique_ptr<Model> load_model(const Checkpoint& checkpoint, Recipe recipe, Ops& ops,
                                  const ModelLoad& options) {
  auto model = std::make_unique<Model>();
  model->source = printable(checkpoint.path);
  model->recipe = std::move(recipe);
  model->ops = &ops;
  Loader loader(checkpoint, ops, options);
  const Recipe& r = model->recipe;
  const int context = options.context == 0 ? r.max_positions : options.context;
  model->embed = loader.reader().pack({r.embed});
  if (r.position_embed) model->position_embed = loader.reader().pack({*r.position_embed});
  for (const RopeRecipe& rope : r.ropes)
    model->ropes.push_back(loader.rope(rope, context));
  for (const LayerRecipe& layer : r.layers) model->layers.push_back(loader.layer(layer));
  model->final_norm = loader.norm(r.final_norm);
  if (r.head) model->head = loader.linear(*r.head);
  for (const MtpRecipe& mtp : r.mtp) model->mtp.push_back(loader.mtp(mtp));
  loader.reader().check_unread();
  model->weight_bytes = loader.reader().weight_bytes();
  return model;
}

}  // namespace ingot
