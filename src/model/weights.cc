// Names to tensors: reads what the recipe names, in the order and form that it says.
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "formats/check_values.h"
#include "formats/mlx_quant.h"
#include "model/model.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

// Where row `row` of a head in half order stands among rows that alternate between
// halves.
int stored_row(int row, int n_rows, int interleaved_heads) {
  if (interleaved_heads == 0) return row;
  const int head_dim = n_rows / interleaved_heads;
  const int half = head_dim / 2;
  const int head = row / head_dim;
  const int within = row % head_dim;
  return head * head_dim + 2 * (within % half) + within / half;
}

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Ops& ops,
         const std::function<void(uint64_t, uint64_t)>& progress)
      : checkpoint_(checkpoint), ops_(ops), progress_(progress), mlx_(checkpoint) {
    for (const auto& [name, tensor] : checkpoint.tensors)
      total_ += tensor.view.bytes.size();
  }

  std::unique_ptr<Weight> matrix(const MatrixSource& source) { return stack({source}); }

  std::unique_ptr<Weight> stack(const std::vector<MatrixSource>& sources) {
    throw_if_interrupted();
    std::vector<WeightRows> parts;
    std::vector<std::vector<std::byte>> owned;  // transposed copies, while packing
    owned.reserve(sources.size());
    for (const MatrixSource& source : sources) parts.push_back(rows_of(source, owned));
    std::unique_ptr<Weight> weight = ops_.pack(parts);
    weight_bytes_ += weight->bytes;
    for (const MatrixSource& source : sources) done(source.name);
    return weight;
  }

  std::vector<float> values(const VectorSource& source) {
    const StoredTensor& stored = require(source.name);
    if (element_count(stored.view.shape) != source.n || stored.view.cols() != source.n)
      misshapen(stored, source.name, {source.n});
    if (!is_float(stored.view.dtype))
      fail("{}: tensor '{}' is {}, wanted f32, f16 or bf16", file_of(stored), source.name,
           name(stored.view.dtype));
    check_values(source.name, stored);
    std::vector<float> raw(size_t(source.n));
    dequantize_row(stored.view.dtype, stored.view.bytes.data(), raw);
    std::vector<float> out(raw.size());
    for (int i = 0; i < source.n; ++i) {
      const float value = raw[size_t(stored_row(i, source.n, source.interleaved_heads))];
      out[size_t(i)] = value + source.add;
    }
    done(source.name);
    return out;
  }

  Memory upload(const std::vector<float>& values) {
    Memory memory = ops_.allocate(values.size() * sizeof(float));
    ops_.upload(memory.buffer(), values.data(), values.size() * sizeof(float));
    return memory;
  }

  Linear linear(const LinearRecipe& recipe) {
    Linear out;
    out.weight = stack(recipe.parts);
    std::vector<float> bias;
    for (const VectorSource& part : recipe.bias) {
      const std::vector<float> values_of_part = values(part);
      bias.insert(bias.end(), values_of_part.begin(), values_of_part.end());
    }
    if (!bias.empty()) out.bias = upload(bias);
    return out;
  }

  Norm norm(const NormRecipe& recipe) {
    Norm out{recipe.kind, recipe.eps, upload(values(recipe.weight)), {}};
    if (recipe.bias) out.bias = upload(values(*recipe.bias));
    return out;
  }

  std::optional<Norm> norm(const std::optional<NormRecipe>& recipe) {
    if (!recipe) return std::nullopt;
    return norm(*recipe);
  }

  size_t weight_bytes() const { return weight_bytes_; }

  // After everything was read: a tensor that nobody asked for is a warning, unless it
  // would have changed the result.
  void check_unread() const;

 private:
  const StoredTensor& require(const std::string& tensor) {
    read_.insert(tensor);
    return checkpoint_.require(tensor);
  }

  static std::string file_of(const StoredTensor& stored) {
    return stored.file ? printable(stored.file->path()) : "checkpoint";
  }

  [[noreturn]] static void misshapen(const StoredTensor& stored,
                                     const std::string& tensor, const Shape& wanted) {
    fail("{}: tensor '{}' is {}, recipe wants {}", file_of(stored), tensor,
         to_string(stored.view.shape), to_string(wanted));
  }

  WeightRows rows_of(const MatrixSource& source,
                     std::vector<std::vector<std::byte>>& owned);
  const std::byte* transpose(const StoredTensor& stored, const MatrixSource& source,
                             std::vector<std::vector<std::byte>>& owned);

  void done(const std::string& tensor) {
    const StoredTensor* stored = checkpoint_.find(tensor);
    if (!stored) return;
    const auto bytes = stored->view.bytes;
    done_ += bytes.size();
    if (stored->file) {
      const auto offset = size_t(bytes.data() - stored->file->bytes().data());
      stored->file->drop(offset, bytes.size());
    }
    if (progress_) progress_(done_, total_);
  }

  const Checkpoint& checkpoint_;
  Ops& ops_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  MlxQuantization mlx_;
  std::set<std::string, std::less<>> read_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  size_t weight_bytes_ = 0;
};

WeightRows Loader::rows_of(const MatrixSource& source,
                           std::vector<std::vector<std::byte>>& owned) {
  WeightRows rows;
  rows.n_rows = source.n_rows;
  rows.n_cols = source.n_cols;
  if (const std::optional<AffineMatrix> affine = mlx_.find(source.name)) {
    if (affine->n_rows != source.n_rows || affine->n_cols != source.n_cols) {
      const StoredTensor& stored = require(source.name);
      fail("{}: tensor '{}' is [{}, {}] unpacked, recipe wants [{}, {}]", file_of(stored),
           source.name, affine->n_rows, affine->n_cols, source.n_rows, source.n_cols);
    }
    CHECK(!source.transposed && source.interleaved_heads == 0);
    for (const std::string& tensor : mlx_.tensors_of(source.name))
      check_values(tensor, require(tensor));
    rows.affine = *affine;
    return rows;
  }
  const StoredTensor& stored = require(source.name);
  const Shape wanted = source.transposed ? Shape{source.n_cols, source.n_rows}
                                         : Shape{source.n_rows, source.n_cols};
  if (stored.view.shape != wanted) misshapen(stored, source.name, wanted);
  rows.dtype = stored.view.dtype;
  if (!is_float(rows.dtype) && !is_quantised(rows.dtype))
    fail("{}: tensor '{}' is {}, wanted f32, f16, bf16 or a quantised ggml type",
         file_of(stored), source.name, name(rows.dtype));
  check_values(source.name, stored);
  const std::byte* data = stored.view.bytes.data();
  if (source.transposed) data = transpose(stored, source, owned);
  const std::optional<size_t> bytes = row_bytes(rows.dtype, uint64_t(source.n_cols));
  if (!bytes)
    fail("{}: tensor '{}' has rows of {} values, wanted a multiple of {} for {}",
         file_of(stored), source.name, source.n_cols, info(rows.dtype).group_elements,
         name(rows.dtype));
  const int n_rows = source.n_rows;
  const int heads = source.interleaved_heads;
  rows.row = [data, n_rows, heads, bytes = *bytes](int row) {
    return data + size_t(stored_row(row, n_rows, heads)) * bytes;
  };
  return rows;
}

const std::byte* Loader::transpose(const StoredTensor& stored, const MatrixSource& source,
                                   std::vector<std::vector<std::byte>>& owned) {
  if (!is_float(stored.view.dtype))
    fail("{}: tensor '{}' is {} and stored transposed, wanted f32, f16 or bf16",
         file_of(stored), source.name, name(stored.view.dtype));
  const auto width = size_t(info(stored.view.dtype).group_bytes);
  const auto n_rows = size_t(source.n_rows);
  const auto n_cols = size_t(source.n_cols);
  std::vector<std::byte>& out = owned.emplace_back(n_rows * n_cols * width);
  const std::byte* in = stored.view.bytes.data();
  for (size_t c = 0; c < n_cols; ++c)
    for (size_t r = 0; r < n_rows; ++r)
      std::memcpy(&out[(r * n_cols + c) * width], in + (c * n_rows + r) * width, width);
  return out.data();
}

// Leftovers of old exporters: mask buffers and rotary tables.
bool is_harmless(std::string_view tensor) {
  return tensor.ends_with(".rotary_emb.inv_freq") || tensor.ends_with(".attn.bias") ||
         tensor.ends_with(".attn.masked_bias") || tensor == "lm_head.weight";
}

void Loader::check_unread() const {
  for (const auto& [tensor, stored] : checkpoint_.tensors) {
    if (read_.contains(tensor) || is_harmless(tensor)) continue;
    const size_t dot = tensor.rfind('.');
    const std::string stem = dot == std::string::npos ? tensor : tensor.substr(0, dot);
    // A bias, scale or norm beside a weight that was read belongs to the arithmetic.
    if (read_.contains(stem + ".weight") || tensor.starts_with("blk.") ||
        tensor.find(".layers.") != std::string::npos || tensor.starts_with("layers."))
      fail("{}: tensor '{}' {} has no place in the recipe; wanted a model without it",
           file_of(stored), tensor, to_string(stored.view.shape));
    log_warning("{}: tensor '{}' is not used", file_of(stored), tensor);
  }
}

Layer load_layer(Loader& loader, const LayerRecipe& recipe) {
  Layer layer;
  layer.input_norm = loader.norm(recipe.input_norm);
  const auto& attention = std::get<AttentionRecipe>(recipe.mixer);
  layer.mixer =
      Attention{&attention, loader.linear(attention.qkv), loader.linear(attention.output),
                loader.norm(attention.q_norm), loader.norm(attention.k_norm)};
  layer.post_mixer_norm = loader.norm(recipe.post_mixer_norm);
  layer.ffn_norm = loader.norm(recipe.ffn_norm);
  const auto& mlp = std::get<MlpRecipe>(recipe.ffn);
  layer.ffn = Mlp{&mlp, loader.linear(mlp.input), loader.linear(mlp.down)};
  layer.post_ffn_norm = loader.norm(recipe.post_ffn_norm);
  return layer;
}

}  // namespace

std::unique_ptr<Model> load_model(
    const Checkpoint& checkpoint, Recipe recipe, Ops& ops,
    const std::function<void(uint64_t, uint64_t)>& progress) {
  auto model = std::make_unique<Model>();
  model->source = printable(checkpoint.path);
  model->recipe = std::move(recipe);
  model->ops = &ops;
  Loader loader(checkpoint, ops, progress);
  const Recipe& r = model->recipe;
  model->embed = loader.matrix(r.embed);
  if (r.position_embed) model->position_embed = loader.matrix(*r.position_embed);
  for (const RopeRecipe& rope : r.ropes) {
    std::vector<float> divisors;
    if (rope.divisors) divisors = loader.values(*rope.divisors);
    model->ropes.push_back({loader.upload(rope_inverse_frequencies(rope, divisors)),
                            rope.pairing, rope.rotary_dims});
  }
  for (const LayerRecipe& layer : r.layers)
    model->layers.push_back(load_layer(loader, layer));
  model->final_norm = loader.norm(r.final_norm);
  if (r.head) model->head = loader.linear(*r.head);
  loader.check_unread();
  model->weight_bytes = loader.weight_bytes();
  return model;
}

}  // namespace ingot
