#include "model/recipe_testing.h"

#include <cmath>
#include <random>
#include <tuple>

namespace ingot {
namespace {

// ---- Equality -----------------------------------------------------------------------

auto parts_of(const RowAxis& r) {
  const auto& [a, b] = r;
  return std::tie(a, b);
}
auto parts_of(const RowOrder& r) {
  const auto& [a, b] = r;
  return std::tie(a, b);
}
auto parts_of(const MatrixSource& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j);
}
auto parts_of(const VectorSource& r) {
  const auto& [a, b, c, d, e, f, g, h] = r;
  return std::tie(a, b, c, d, e, f, g, h);
}
auto parts_of(const LinearRecipe& r) {
  const auto& [a, b] = r;
  return std::tie(a, b);
}
auto parts_of(const NormRecipe& r) {
  const auto& [a, b, c, d] = r;
  return std::tie(a, b, c, d);
}
auto parts_of(const RopeRecipe& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
}
auto parts_of(const AttentionRecipe& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
}
auto parts_of(const IndexerRecipe& r) {
  const auto& [a, b, c, d, e, f, g, h, i] = r;
  return std::tie(a, b, c, d, e, f, g, h, i);
}
auto parts_of(const LatentAttentionRecipe& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
}
auto parts_of(const GatedDeltaRecipe& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
}
auto parts_of(const GatedActivation& r) {
  const auto& [a, b, c] = r;
  return std::tie(a, b, c);
}
auto parts_of(const MlpRecipe& r) {
  const auto& [a, b, c, d, e] = r;
  return std::tie(a, b, c, d, e);
}
auto parts_of(const RouterArgs& r) {
  const auto& [a, b, c, d, e, f, g, h, bias] = r;
  static_cast<void>(bias);  // no part of a recipe
  return std::tie(a, b, c, d, e, f, g, h);
}
auto parts_of(const ExpertsRecipe& r) {
  const auto& [a, b, c, d, e, f, g, h, i] = r;
  return std::tie(a, b, c, d, e, f, g, h, i);
}
auto parts_of(const LayerRecipe& r) {
  const auto& [a, b, c, d, e, f] = r;
  return std::tie(a, b, c, d, e, f);
}
auto parts_of(const MtpRecipe& r) {
  const auto& [a, b, c, d, e, f, g, h] = r;
  return std::tie(a, b, c, d, e, f, g, h);
}
auto parts_of(const Recipe& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
}

template <typename T>
bool same(const T& a, const T& b);

template <typename T>
bool same(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i) equal = same(a[i], b[i]);
  return equal;
}
template <typename... T>
bool same(const std::variant<T...>& a, const std::variant<T...>& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& value) {
        return same(value, std::get<std::decay_t<decltype(value)>>(b));
      },
      a);
}
template <typename T>
bool same(const T& a, const T& b) {
  if constexpr (requires { parts_of(a); }) {
    return std::apply(
        [&](const auto&... x) {
          return std::apply([&](const auto&... y) { return (same(x, y) && ...); },
                            parts_of(b));
        },
        parts_of(a));
  } else {
    return a == b;
  }
}

// ---- Chance -------------------------------------------------------------------------

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  Recipe recipe() {
    Recipe r;
    r.family = "random \"family\" \xc3\xa9";
    r.vocab_size = number(1, 5000);
    hidden_ = r.hidden_size = number(1, 300);
    r.max_positions = number(1, 1 << 27);
    r.embed = matrix("embed", r.vocab_size, hidden_);
    if (maybe()) r.embed_scale = float(real(0.1, 70));
    if (maybe()) {
      r.max_positions = number(1, 4096);
      r.position_embed = matrix("positions", r.max_positions + number(0, 5), hidden_);
    }
    for (int i = number(0, 3); i > 0; --i) r.ropes.push_back(rope());
    ropes_ = &r.ropes;
    for (int i = number(1, 6); i > 0; --i) r.layers.push_back(layer());
    r.final_norm = norm(hidden_);
    if (maybe()) r.head = linear(r.vocab_size, hidden_);
    if (maybe()) r.logit_softcap = 30.0f;
    for (int i = number(0, 2); i > 0; --i) r.mtp.push_back(mtp(r));
    return r;
  }

 private:
  int number(int low, int high) {
    return std::uniform_int_distribution(low, high)(random_);
  }
  double real(double low, double high) {
    return std::uniform_real_distribution(low, high)(random_);
  }
  bool maybe() { return number(0, 1) == 1; }
  template <typename Enum>
  Enum kind(int n) {
    return Enum(number(0, n - 1));
  }
  std::string name(const std::string& stem) {
    return stem + "." + std::to_string(++names_) + (number(0, 9) == 0 ? ".{i}" : "");
  }

  // Splits n into rows of two axes and a first row; returns how many are stored.
  RowOrder order(int n, int& stored) {
    RowOrder out;
    out.first = number(0, 3);
    int reach = n;
    if (n % 2 == 0 && maybe()) {
      out.axes = {{2, n}, {n / 2, number(1, 2)}};
      reach = n + (n / 2 - 1) * out.axes[1].stride + 1;
    }
    stored = out.first + reach + number(0, 2);
    return out;
  }
  MatrixSource matrix(const std::string& stem, int n_rows, int n_cols) {
    MatrixSource out{.name = name(stem), .n_rows = n_rows, .n_cols = n_cols};
    if (maybe()) out.order = order(n_rows, out.stored_rows);
    if (maybe()) {
      out.transposed = true;
      out.first_col = number(0, 3);
      out.stored_cols = out.first_col + n_cols;
    }
    if (maybe()) {
      out.n_slices = number(1, 5);
      out.slice = number(0, out.n_slices - 1);
    }
    return out;
  }
  VectorSource vector(int n) {
    VectorSource out{.name = name("vector"), .n = n};
    if (maybe()) out.order = order(n, out.stored_n);
    if (maybe()) out.add = float(real(-2, 2));
    out.map = kind<VectorMap>(2);
    if (maybe()) {
      out.n_slices = 3;
      out.slice = number(0, 2);
    }
    return out;
  }
  LinearRecipe linear(int n_rows, int n_cols) {
    LinearRecipe out;
    const int first = n_rows > 1 && maybe() ? number(1, n_rows - 1) : n_rows;
    out.parts.push_back(matrix("weight", first, n_cols));
    if (first < n_rows) out.parts.push_back(matrix("weight", n_rows - first, n_cols));
    if (maybe())
      for (const MatrixSource& part : out.parts) out.bias.push_back(vector(part.n_rows));
    return out;
  }
  NormRecipe rms(int width) {
    return {NormKind::rms, float(real(0, 1e-4)), vector(width), {}};
  }
  NormRecipe norm(int width) {
    NormRecipe out = rms(width);
    out.kind = kind<NormKind>(2);
    if (out.kind == NormKind::layer) out.bias = vector(width);
    return out;
  }
  std::optional<NormRecipe> norm_or_none(int width) {
    if (maybe()) return std::nullopt;
    return norm(width);
  }

  std::vector<float> divisors(int n) {
    std::vector<float> out;
    for (int i = 0; i < n; ++i) out.push_back(float(real(0.5, 50)));
    return out;
  }
  RopeRecipe rope() {
    RopeRecipe out;
    out.theta = real(2, 1e7);
    out.rotary_dims = 2 * number(1, 6);
    out.pairing = kind<RopePairing>(2);
    out.scaling = kind<RopeScalingKind>(6);
    const int pairs = out.rotary_dims / 2;
    if (maybe()) out.attention_factor = float(real(0.5, 2));
    switch (out.scaling) {
      case RopeScalingKind::none:
        break;
      case RopeScalingKind::linear:
        out.factor = real(1, 40);
        break;
      case RopeScalingKind::llama3:
        out.low_freq_factor = real(0.5, 1.5);
        out.high_freq_factor = real(2, 5);
        out.factor = 8;
        out.original_context = 8192;
        break;
      case RopeScalingKind::divisors:
        out.divisors = vector(pairs);
        break;
      case RopeScalingKind::yarn:
        out.factor = real(1, 40);
        out.original_context = 4096;
        out.beta_slow = real(0.5, 2);
        out.beta_fast = real(3, 40);
        out.truncate = maybe();
        break;
      case RopeScalingKind::longrope:
        out.factor = 32;
        out.original_context = number(1, 4096);
        if (maybe())
          out.short_divisors = divisors(pairs);
        else
          out.short_source = vector(pairs);
        if (maybe())
          out.long_divisors = divisors(pairs);
        else
          out.long_source = vector(pairs);
        break;
    }
    return out;
  }
  // A rope that turns at most `dims`.
  int rope_for(int dims) {
    const int i = number(-1, int(ropes_->size()) - 1);
    return i >= 0 && (*ropes_)[size_t(i)].rotary_dims <= dims ? i : -1;
  }

  AttentionRecipe attention() {
    AttentionRecipe a;
    a.n_kv_heads = number(1, 4);
    a.n_heads = a.n_kv_heads * number(1, 3);
    a.head_dim = number(1, 20);
    a.scale = float(real(0.01, 2));
    a.window = maybe() ? number(1, 100) : 0;
    a.rope = rope_for(a.head_dim);
    a.gated = maybe();
    const int q = a.n_heads * a.head_dim;
    const int kv = a.n_kv_heads * a.head_dim;
    a.qkv = linear((a.gated ? 2 : 1) * q + 2 * kv, hidden_);
    a.output = linear(hidden_, q);
    a.norm_span = kind<HeadNormSpan>(2);
    const bool whole = a.norm_span == HeadNormSpan::projection;
    if (maybe()) a.q_norm = rms(whole ? q : a.head_dim);
    if (maybe()) a.k_norm = rms(whole ? kv : a.head_dim);
    if (maybe()) a.sinks = vector(a.n_heads);
    return a;
  }
  // Up-projections cut from one matrix, or any.
  std::vector<MatrixSource> ups(int n, int n_rows, int n_cols) {
    std::vector<MatrixSource> out;
    const int cut = number(0, 2);
    const std::string whole = name("up");
    for (int h = 0; h < n; ++h) {
      MatrixSource one{.name = whole, .n_rows = n_rows, .n_cols = n_cols};
      if (cut == 0) {
        one.order.first = h * n_rows;
        one.stored_rows = n * n_rows;
      } else if (cut == 1) {
        one.transposed = true;
        one.first_col = h * n_cols;
        one.stored_cols = n * n_cols;
      } else {
        one = matrix("up", n_rows, n_cols);
      }
      out.push_back(one);
    }
    return out;
  }
  LatentAttentionRecipe latent() {
    LatentAttentionRecipe a;
    a.n_heads = number(1, 6);
    a.kv_lora_rank = number(1, 30);
    a.nope_dims = number(1, 20);
    a.rope_dims = number(1, 12);
    a.value_dim = number(1, 20);
    a.scale = float(real(0.01, 2));
    a.rope = rope_for(a.rope_dims);
    const int q_latent = number(1, 40);
    const bool query_latent = maybe();
    if (query_latent) {
      a.q_a = linear(q_latent, hidden_);
      a.q_a_norm = norm(q_latent);
    }
    a.q_b = linear(a.n_heads * (a.nope_dims + a.rope_dims),
                   query_latent ? q_latent : hidden_);
    a.kv_a = linear(a.kv_lora_rank + a.rope_dims, hidden_);
    a.kv_a_norm = norm(a.kv_lora_rank);
    a.key_up = ups(a.n_heads, a.kv_lora_rank, a.nope_dims);
    a.value_up = ups(a.n_heads, a.value_dim, a.kv_lora_rank);
    a.output = linear(hidden_, a.n_heads * a.value_dim);
    if (query_latent && maybe()) {
      IndexerRecipe i;
      i.n_heads = number(1, 5);
      i.head_dim = number(1, 16);
      i.top_k = number(1, 99);
      i.score_scale = float(real(0.01, 1));
      i.rope = rope_for(i.head_dim);
      i.q = linear(i.n_heads * i.head_dim, q_latent);
      i.k = linear(i.head_dim, hidden_);
      i.k_norm = norm(i.head_dim);
      i.weights = linear(i.n_heads, hidden_);
      a.indexer = i;
      selects_ = true;
    } else {
      a.shares_selection = selects_ && maybe();
    }
    return a;
  }
  GatedDeltaRecipe delta() {
    GatedDeltaRecipe d;
    d.n_key_heads = number(1, 4);
    d.n_value_heads = d.n_key_heads * number(1, 3);
    d.key_dim = number(1, 20);
    d.value_dim = number(1, 20);
    d.conv_kernel = number(1, 6);
    d.tiled_value_heads = maybe();
    const int values = d.n_value_heads * d.value_dim;
    const int channels = 2 * d.n_key_heads * d.key_dim + values;
    d.input = linear(channels + values + 2 * d.n_value_heads, hidden_);
    d.conv = {.name = name("conv"), .n_rows = channels, .n_cols = d.conv_kernel};
    d.decay = vector(d.n_value_heads);
    d.dt_bias = vector(d.n_value_heads);
    d.norm = rms(d.value_dim);
    d.output = linear(hidden_, values);
    return d;
  }

  GatedActivation activation(bool gated) {
    GatedActivation out;
    out.kind = kind<Activation>(4);
    if (!gated || maybe()) return out;
    out.limit = float(real(1, 10));
    out.alpha = 1.702f;
    return out;
  }
  MlpRecipe mlp() {
    MlpRecipe m;
    m.intermediate_size = number(1, 90);
    m.gated = maybe();
    m.activation = activation(m.gated);
    m.input = linear((m.gated ? 2 : 1) * m.intermediate_size, hidden_);
    m.down = linear(hidden_, m.intermediate_size);
    return m;
  }
  // An expert each: one tensor of slices, a name each, or anything.
  std::vector<LinearRecipe> experts(int n, int n_rows, int n_cols) {
    std::vector<LinearRecipe> out;
    const int form = number(0, 2);
    const std::string stem = name("experts");
    const LinearRecipe any = linear(n_rows, n_cols);
    for (int e = 0; e < n; ++e) {
      LinearRecipe one = any;
      for (MatrixSource& part : one.parts) {
        if (form == 0) part.name = stem + "." + std::to_string(e) + ".weight";
        if (form == 1) {
          part.slice = e;
          part.n_slices = n;
        }
        if (form == 2) part = matrix("expert", part.n_rows, n_cols);
      }
      out.push_back(one);
    }
    return out;
  }
  ExpertsRecipe experts() {
    ExpertsRecipe e;
    RouterArgs& r = e.routing;
    e.intermediate_size = number(1, 50);
    e.activation = activation(true);
    r.score = kind<RouterScore>(3);
    r.n_groups = number(1, 4);
    r.n_experts = r.n_groups * number(1, 5);
    r.n_groups_used = number(1, r.n_groups);
    r.n_used = number(1, r.n_groups_used * (r.n_experts / r.n_groups));
    r.normalise = maybe();
    if (maybe()) r.normalise_eps = 1e-20f;
    if (maybe()) r.scale = float(real(0.5, 3));
    e.router = linear(r.n_experts, hidden_);
    if (maybe()) e.selection_bias = vector(r.n_experts);
    e.input = experts(r.n_experts, 2 * e.intermediate_size, hidden_);
    e.down = experts(r.n_experts, hidden_, e.intermediate_size);
    if (maybe()) e.shared = mlp();
    if (e.shared && maybe()) e.shared_gate = linear(1, hidden_);
    return e;
  }

  LayerRecipe layer() {
    LayerRecipe out;
    out.input_norm = norm_or_none(hidden_);
    switch (number(0, 2)) {
      case 0:
        out.mixer = attention();
        break;
      case 1:
        out.mixer = latent();
        break;
      default:
        out.mixer = delta();
    }
    out.post_mixer_norm = norm_or_none(hidden_);
    out.ffn_norm = norm_or_none(hidden_);
    if (maybe())
      out.ffn = mlp();
    else
      out.ffn = experts();
    out.post_ffn_norm = norm_or_none(hidden_);
    return out;
  }
  MtpRecipe mtp(const Recipe& r) {
    MtpRecipe out;
    out.embed_norm = norm(hidden_);
    out.hidden_norm = norm(hidden_);
    out.project = linear(hidden_, 2 * hidden_);
    selects_ = false;
    out.layer = layer();
    out.final_norm = norm(hidden_);
    if (maybe()) out.embed = matrix("embed", r.vocab_size, hidden_);
    if (maybe()) out.head = linear(r.vocab_size, hidden_);
    out.chains_normed = maybe();
    return out;
  }

  std::mt19937_64 random_;
  int hidden_ = 0;
  int names_ = 0;
  bool selects_ = false;
  const std::vector<RopeRecipe>* ropes_ = nullptr;
};

}  // namespace

Recipe random_recipe(uint64_t seed) { return Maker(seed).recipe(); }

bool same_recipe(const Recipe& a, const Recipe& b) { return same(a, b); }

}  // namespace ingot
