// Recipe to GGUF metadata: the reverse of what the families' derivations read
// (architectures.md 1.5 and the GGUF keys of each section).
#include "model/to_gguf.h"

#include <array>

#include "base/error.h"
#include "model/derive.h"
#include "model/derive/gguf_keys.h"
#include "model/recipe_file.h"

namespace ingot {
namespace {

constexpr std::array kArchitectures = {
    Architecture{.family = "gpt2", .name = "gpt2", .states_head = true},
    Architecture{.family = "llama", .name = "llama", .has_70b = true},
    Architecture{.family = "mistral", .name = "llama", .has_70b = true},
    Architecture{.family = "mixtral", .name = "llama", .has_70b = true},
    Architecture{.family = "qwen2", .name = "qwen2", .has_70b = true},
    Architecture{.family = "qwen3", .name = "qwen3"},
    Architecture{.family = "qwen3_moe", .name = "qwen3moe"},
    Architecture{.family = "gemma3", .name = "gemma3", .window_pattern = true},
    Architecture{.family = "olmo3", .name = "olmo2", .window_pattern = true},
    Architecture{.family = "smollm3", .name = "smollm3"},
    Architecture{.family = "phi3", .name = "phi3", .states_window = true},
    Architecture{.family = "qwen3_next", .name = "qwen3next"},
    Architecture{.family = "qwen3_5", .name = "qwen35", .rope_sections = true},
    Architecture{.family = "qwen3_5_text", .name = "qwen35", .rope_sections = true},
    Architecture{.family = "qwen3_5_moe", .name = "qwen35moe", .rope_sections = true},
    Architecture{
        .family = "qwen3_5_moe_text", .name = "qwen35moe", .rope_sections = true}};

const Architecture& architecture_of(const Recipe& recipe, const std::string& config) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.family == recipe.family) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.family);
  }
  throw Error(fmt::format("{}: field 'model_type' is \"{}\", wanted for GGUF one of {}",
                          config, recipe.family, known),
              "an OUT that does not end in .gguf becomes a safetensors directory");
}

// ---- Tensors that the derivation looks for ------------------------------------------

const AttentionRecipe* first_attention(const Recipe& recipe) {
  for (const LayerRecipe& layer : recipe.layers)
    if (const auto* a = std::get_if<AttentionRecipe>(&layer.mixer)) return a;
  return nullptr;
}

std::vector<std::string> telling_tensors(const Recipe& recipe) {
  std::vector<std::string> out;
  if (recipe.head) out.push_back("output.weight");
  if (const AttentionRecipe* a = first_attention(recipe)) {
    if (!a->qkv.bias.empty()) out.push_back("blk.0.attn_q.bias");
    if (!a->output.bias.empty()) out.push_back("blk.0.attn_output.bias");
  }
  const auto* mlp = std::get_if<MlpRecipe>(&recipe.layers.front().ffn);
  if (mlp && !mlp->down.bias.empty()) out.push_back("blk.0.ffn_down.bias");
  return out;
}

// RoPE's divisors as tensors: llama3's scaling of each frequency, longrope's factors.
std::map<std::string, std::vector<float>> rope_constants(const Recipe& recipe) {
  std::map<std::string, std::vector<float>> out;
  for (const RopeRecipe& rope : recipe.ropes) {
    if (rope.scaling == RopeScalingKind::longrope) {
      out["rope_factors_short.weight"] = rope.short_divisors;
      out["rope_factors_long.weight"] = rope.long_divisors;
    }
    if (rope.scaling != RopeScalingKind::llama3) continue;
    RopeRecipe plain = rope;
    plain.scaling = RopeScalingKind::none;
    const std::vector<float> scaled = rope_inverse_frequencies(rope, {});
    std::vector<float> divisors = rope_inverse_frequencies(plain, {});
    for (size_t i = 0; i < divisors.size(); ++i) divisors[i] /= scaled[i];
    out["rope_freqs.weight"] = std::move(divisors);
  }
  return out;
}

Recipe derive_again(const Recipe& recipe, const GgufForm& form,
                    const std::filesystem::path& config) {
  Checkpoint checkpoint;
  checkpoint.container = Container::gguf;
  checkpoint.path = config;
  checkpoint.metadata = form.metadata;
  checkpoint.tensors["token_embd.weight"].view = {
      DType::f32, {recipe.vocab_size, recipe.hidden_size}, {}};
  for (const std::string& name : telling_tensors(recipe)) checkpoint.tensors[name];
  for (const auto& [name, values] : form.constants) checkpoint.tensors[name];
  return derive_from_metadata(checkpoint);
}

// ---- Comparing what two recipes compute ---------------------------------------------

NormRecipe without_source(const NormRecipe& norm) {
  return {norm.kind, norm.eps, {.name = "", .n = norm.weight.n}, {}};
}
void drop_source(std::optional<NormRecipe>& norm) {
  if (norm) norm = without_source(*norm);
}
void drop_sources(AttentionRecipe& a) {
  a.qkv = a.output = {};
  drop_source(a.q_norm);
  drop_source(a.k_norm);
  if (a.sinks) a.sinks = VectorSource{.name = "", .n = a.n_heads};
}
void drop_sources(LatentAttentionRecipe&) {}  // no architecture above has it
void drop_sources(GatedDeltaRecipe& d) {
  d.input = d.output = {};
  d.conv = {};
  d.decay = d.dt_bias = {};
  d.norm = without_source(d.norm);
  d.tiled_value_heads = false;  // the order of rows only
}
void drop_sources(MlpRecipe& m) { m.input = m.down = {}; }
void drop_sources(ExpertsRecipe& e) {
  e.router = {};
  e.input.clear();
  e.down.clear();
  if (e.selection_bias) e.selection_bias = VectorSource{};
  if (e.shared) drop_sources(*e.shared);
  if (e.shared_gate) e.shared_gate = LinearRecipe{};
}

// The recipe without names and orders of tensors, in which GGUF differs.
Recipe without_sources(Recipe recipe) {
  recipe.family.clear();
  recipe.embed = {};
  if (recipe.position_embed) recipe.position_embed = MatrixSource{};
  if (recipe.head) recipe.head = LinearRecipe{};
  recipe.final_norm = without_source(recipe.final_norm);
  for (RopeRecipe& rope : recipe.ropes) {
    if (rope.scaling == RopeScalingKind::llama3) rope.scaling = RopeScalingKind::divisors;
    rope.divisors.reset();
    rope.short_divisors.clear();
    rope.long_divisors.clear();
    rope.short_source.reset();
    rope.long_source.reset();
  }
  for (LayerRecipe& layer : recipe.layers) {
    drop_source(layer.input_norm);
    drop_source(layer.post_mixer_norm);
    drop_source(layer.ffn_norm);
    drop_source(layer.post_ffn_norm);
    std::visit([](auto& mixer) { drop_sources(mixer); }, layer.mixer);
    std::visit([](auto& ffn) { drop_sources(ffn); }, layer.ffn);
  }
  return recipe;
}

MixtureFacts mixture_facts(const Recipe& recipe, const Architecture& architecture) {
  MixtureFacts out;
  out.n_layers = int(recipe.layers.size());
  for (const LayerRecipe& layer : recipe.layers)
    if (const auto* e = std::get_if<ExpertsRecipe>(&layer.ffn))
      out.n_experts = e->routing.n_experts;
  const AttentionRecipe* a = first_attention(recipe);
  out.spare_values =
      architecture.has_70b && out.n_layers == 80 && a && a->n_heads != a->n_kv_heads;
  return out;
}

}  // namespace

GgufForm to_gguf(const Recipe& of_config, const std::filesystem::path& config) {
  const std::string file = printable(config);
  const Architecture& architecture = architecture_of(of_config, file);
  Recipe recipe = of_config;
  GgufForm out;
  out.head_is_embedding = architecture.states_head && !recipe.head;
  if (out.head_is_embedding) recipe.head = LinearRecipe{{recipe.embed}, {}};
  out.metadata = gguf_keys(recipe, architecture);
  out.constants = rope_constants(recipe);
  out.mixture = mixture_facts(recipe, architecture);
  out.recipe = derive_again(recipe, out, config);
  const std::vector<RecipeChange> lost =
      recipe_changes(without_sources(recipe), without_sources(out.recipe));
  if (!lost.empty())
    throw Error(
        fmt::format("{}: {} is {}, which GGUF's {} has no place for (it means {})", file,
                    lost[0].field, lost[0].derived.empty() ? "absent" : lost[0].derived,
                    architecture.name, lost[0].now.empty() ? "none" : lost[0].now),
        "an OUT that does not end in .gguf becomes a safetensors directory");
  return out;
}

}  // namespace ingot
