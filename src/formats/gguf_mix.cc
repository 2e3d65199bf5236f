#include "formats/gguf_mix.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace ingot {
namespace {

struct Named {
  std::string_view name;
  GgufPrecision precision;
};

constexpr std::array kPrecisions = {Named{"f32", {DType::f32, Mixture::none, 0}},
                                    Named{"f16", {DType::f16, Mixture::none, 1}},
                                    Named{"bf16", {DType::bf16, Mixture::none, 32}},
                                    Named{"q8_0", {DType::q8_0, Mixture::none, 7}},
                                    Named{"q4_0", {DType::q4_0, Mixture::none, 2}},
                                    Named{"q4_1", {DType::q4_1, Mixture::none, 3}},
                                    Named{"q5_0", {DType::q5_0, Mixture::none, 8}},
                                    Named{"q5_1", {DType::q5_1, Mixture::none, 9}},
                                    Named{"q2_k", {DType::q2_k, Mixture::none, 10}},
                                    Named{"q3_k", {DType::q3_k, Mixture::none, 11}},
                                    Named{"q4_k", {DType::q4_k, Mixture::none, 14}},
                                    Named{"q5_k", {DType::q5_k, Mixture::none, 16}},
                                    Named{"q6_k", {DType::q6_k, Mixture::none, 18}},
                                    Named{"q3_k_s", {DType::q3_k, Mixture::q3_k_s, 11}},
                                    Named{"q3_k_m", {DType::q3_k, Mixture::q3_k_m, 12}},
                                    Named{"q3_k_l", {DType::q3_k, Mixture::q3_k_l, 13}},
                                    Named{"q4_k_s", {DType::q4_k, Mixture::q4_k_s, 14}},
                                    Named{"q4_k_m", {DType::q4_k, Mixture::q4_k_m, 15}},
                                    Named{"q5_k_s", {DType::q5_k, Mixture::q5_k_s, 16}},
                                    Named{"q5_k_m", {DType::q5_k, Mixture::q5_k_m, 17}}};

// ---- What a tensor is ---------------------------------------------------------------

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool is_matrix(const GgufWriteEntry& entry) {
  if (entry.shape.size() < 2 || !entry.name.ends_with("weight")) return false;
  for (const char* small : {"_norm.weight", "ffn_gate_inp.weight", "position_embd",
                            "ssm_conv1d", "rope_freqs", "rope_factors"})
    if (contains(entry.name, small)) return false;
  return true;
}

enum class Part { head, embedding, values, keys, attention_output, ffn_down, other };

Part part_of(std::string_view name) {
  if (name == "output.weight") return Part::head;
  if (name == "token_embd.weight") return Part::embedding;
  for (const char* values : {"attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"})
    if (contains(name, values)) return Part::values;
  if (contains(name, "attn_k.weight")) return Part::keys;
  if (contains(name, "attn_output.weight")) return Part::attention_output;
  return contains(name, "ffn_down") ? Part::ffn_down : Part::other;
}

// N of "blk.N.", else 0.
int layer_of(std::string_view name) {
  int layer = 0;
  if (name.starts_with("blk."))
    std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

// ---- The mixtures -------------------------------------------------------------------

// The first and the last eighth, and every third between.
bool gets_more_bits(int i, int n) {
  return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

// i: which of the n matrices that make values.
DType type_of_values(const GgufPrecision& p, const MixtureFacts& facts, int i, int n) {
  DType type = p.type;
  if (p.mixture == Mixture::q3_k_m) type = i < 2 ? DType::q5_k : DType::q4_k;
  if (p.mixture == Mixture::q3_k_l) type = DType::q5_k;
  if (p.mixture == Mixture::q4_k_s && i < 4) type = DType::q5_k;
  if ((p.mixture == Mixture::q4_k_m || p.mixture == Mixture::q5_k_m) &&
      gets_more_bits(i, n))
    type = DType::q6_k;
  if (facts.spare_values && (type == DType::q3_k || type == DType::q4_k))
    type = DType::q5_k;
  return facts.n_experts == 8 ? DType::q8_0 : type;
}

DType type_of_down(const GgufPrecision& p, int layer, int n_layers) {
  switch (p.mixture) {
    case Mixture::q3_k_m:
      return layer < n_layers / 16 ? DType::q5_k : DType::q4_k;
    case Mixture::q3_k_l:
      return DType::q5_k;
    case Mixture::q4_k_s:
      return layer < n_layers / 8 ? DType::q5_k : p.type;
    case Mixture::q4_k_m:
    case Mixture::q5_k_m:
      return gets_more_bits(layer, n_layers) ? DType::q6_k : p.type;
    default:
      return p.type;
  }
}

DType type_of_attention_output(const GgufPrecision& p, const MixtureFacts& facts) {
  if (facts.n_experts == 8) {
    const bool lifted = p.mixture == Mixture::q3_k_s || p.mixture == Mixture::q3_k_m ||
                        p.mixture == Mixture::q4_k_s || p.mixture == Mixture::q4_k_m;
    return lifted ? DType::q5_k : p.type;
  }
  if (p.mixture == Mixture::q3_k_m) return DType::q4_k;
  return p.mixture == Mixture::q3_k_l ? DType::q5_k : p.type;
}

// A type whose groups divide a row of n_cols.
DType fitting(DType type, int64_t n_cols) {
  const auto fits = [n_cols](DType t) {
    return row_bytes(t, uint64_t(n_cols)).has_value();
  };
  if (fits(type)) return type;
  switch (type) {
    case DType::q2_k:
    case DType::q3_k:
      type = DType::q4_0;
      break;
    case DType::q4_k:
      type = DType::q5_0;
      break;
    case DType::q5_k:
      type = DType::q5_1;
      break;
    case DType::q6_k:
      type = DType::q8_0;
      break;
    default:
      break;
  }
  return fits(type) ? type : DType::f16;
}

class Chooser {
 public:
  Chooser(const GgufPrecision& precision, const MixtureFacts& facts,
          const std::vector<GgufWriteEntry>& entries)
      : p_(precision), facts_(facts) {
    for (const GgufWriteEntry& entry : entries) {
      if (is_matrix(entry) && part_of(entry.name) == Part::values) ++n_values_;
      if (part_of(entry.name) == Part::head) tied_ = false;
    }
  }

  DType type_of(const GgufWriteEntry& entry) {
    if (!is_matrix(entry)) return DType::f32;
    const int64_t n_cols = entry.shape.back();
    return fitting(p_.mixture == Mixture::none ? p_.type : mixed(entry.name, n_cols),
                   n_cols);
  }

 private:
  DType mixed(std::string_view name, int64_t n_cols) {
    const Part part = part_of(name);
    if (part == Part::head || (part == Part::embedding && tied_))
      return row_bytes(p_.type, uint64_t(n_cols)) ? DType::q6_k : DType::q8_0;
    if (part == Part::values) return type_of_values(p_, facts_, value_++, n_values_);
    if (part == Part::keys) return facts_.n_experts == 8 ? DType::q8_0 : p_.type;
    if (part == Part::ffn_down) return type_of_down(p_, layer_of(name), facts_.n_layers);
    if (part == Part::attention_output) return type_of_attention_output(p_, facts_);
    return p_.type;
  }

  const GgufPrecision& p_;
  const MixtureFacts& facts_;
  int n_values_ = 0;
  int value_ = 0;     // the next of them
  bool tied_ = true;  // the embedding is the head too
};

}  // namespace

std::optional<GgufPrecision> gguf_precision(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  for (const Named& named : kPrecisions)
    if (named.name == lower) return named.precision;
  return std::nullopt;
}

std::string gguf_precision_names() {
  std::string out;
  for (const Named& named : kPrecisions)
    out += (out.empty() ? "" : ", ") + std::string(named.name);
  return out;
}

void choose_types(const GgufPrecision& precision, const MixtureFacts& facts,
                  std::vector<GgufWriteEntry>& entries) {
  Chooser chooser(precision, facts, entries);
  for (GgufWriteEntry& entry : entries) entry.dtype = chooser.type_of(entry);
}

}  // namespace ingot
