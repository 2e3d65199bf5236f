// The verbs a model is written in.  One virtual function an op; a backend is one class.
//
// Everything a step touches lives in the backend's memory (Buffer), so that a GPU can
// stand behind this interface: page tables, appends, routing and sampling are ops, and a
// step reads back nothing but the sampled tokens and the status word.  Shapes stand
// beside each op; n is the number of token rows.  All activations are float32 rows on the
// CPU.
//
// The row contract (design.md): row t of every op's result depends on row t's own inputs
// and state alone, bit for bit, whatever n, the number of threads or the chunking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/affine.h"
#include "tensor/dtype.h"

namespace ingot {

constexpr int kPageTokens = 64;        // tokens a page of sequence state holds
constexpr int kAttentionSplit = 1024;  // keys are split at multiples of this position

enum class ActMode { automatic, f32 };     // numeric modes, design.md
enum class KvType { f16, bf16, f32, q8 };  // how pages store keys and values

// A range of backend memory.  Copyable view; `Memory` owns.  On the CPU `data` is a host
// pointer; elsewhere it names the backend's own allocation and `offset` counts in it.
struct Buffer {
  void* data = nullptr;
  size_t offset = 0;
  size_t bytes = 0;
};

class Ops;

// Owns a Buffer; frees it through the Ops that made it, which must outlive it.
class Memory {
 public:
  Memory() = default;
  Memory(Ops* ops, Buffer buffer) : ops_(ops), buffer_(buffer) {}
  ~Memory() { reset(); }
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  const Buffer& buffer() const { return buffer_; }
  void reset();

 private:
  Ops* ops_ = nullptr;
  Buffer buffer_;
};

// n_rows rows of `width` activations, `stride` elements from one row to the next.
struct Rows {
  Buffer buffer;
  int n_rows = 0;
  int width = 0;
  int stride = 0;

  // Columns [first, first + count) of every row.
  Rows columns(int first, int count) const;
  // The first `count` rows.
  Rows first_rows(int count) const;
};

// ---- Weights ------------------------------------------------------------------------

// Where pack() reads a matrix from, row by row: row i of [n_rows, n_cols] in `dtype`'s
// own layout, or an MLX-style affine matrix when `affine` is set (dtype and row then
// unused).
struct WeightRows {
  DType dtype = DType::f32;
  int n_rows = 0;
  int n_cols = 0;
  // Called from several threads at once; what it gives stays until pack() returns.
  std::function<const std::byte*(int row)> row;
  std::optional<AffineMatrix> affine;
};

// A matrix [n_rows, n_cols] packed for a backend; made by Ops::pack, read-only after.
class Weight {
 public:
  virtual ~Weight() = default;
  int n_rows = 0;
  int n_cols = 0;
  size_t bytes = 0;  // what one pass over it reads
};

// ---- Step inputs --------------------------------------------------------------------

// What one step runs.  Row r is token tokens[r] at position positions[r] of the sequence
// whose page table is row sequences[r] of page_tables; position p lies in slot
// p % kPageTokens of page page_tables[sequence][p / kPageTokens].
// Rows of one sequence stand together, positions ascending by one.
struct Batch {
  int n_tokens = 0;
  int max_pages = 0;   // entries in one page table
  Buffer tokens;       // [n_tokens] int32
  Buffer positions;    // [n_tokens] int32
  Buffer sequences;    // [n_tokens] int32
  Buffer page_tables;  // [n_sequences, max_pages] int32
  Buffer state_slots;  // [n_sequences] int32: of RecurrentState; empty without any
};

struct KvLayout {
  int n_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  KvType type = KvType::f16;
  bool values_in_keys = false;
  int stored_value_dim() const { return values_in_keys ? 0 : value_dim; }
};

// One layer's pages: [n_pages] times { keys [n_kv_heads, kPageTokens, key_dim],
// values [n_kv_heads, kPageTokens, stored_value_dim()], for q8 then one float32 scale a
// token and head, keys first }.  With values_in_keys a value is the first value_dim of
// its key.  Pages without values of their own have no scales for them either.
struct KvPages {
  KvLayout layout;
  Buffer pages;
};
size_t kv_page_bytes(const KvLayout& layout);

// What the gated delta rule and its convolution keep of a sequence: two halves of a slot,
// page p in half p % 2.  A half is { S [n_value_heads, key_dim, value_dim] at the page's
// start; conv inputs [conv_kernel - 1 + kPageTokens, channels], those of the page before
// first; of each of its tokens k [n_key_heads, key_dim], u [n_value_heads, value_dim] and
// the log decay g [n_value_heads] }, float32.  When a page's last row is computed, the
// other half receives S and the conv inputs that the next page starts from; position 0
// starts from zeros.  Rows of the page at hand and of the one before may be dropped and
// written again.
struct RecurrentLayout {
  int n_key_heads = 0;
  int n_value_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int conv_kernel = 0;
  int channels() const { return 2 * n_key_heads * key_dim + n_value_heads * value_dim; }
};
struct RecurrentState {
  RecurrentLayout layout;
  Buffer slots;  // [n_slots] times recurrent_slot_bytes
};
size_t recurrent_slot_bytes(const RecurrentLayout& layout);

// ---- Op arguments -------------------------------------------------------------------

enum class Activation { silu, gelu_tanh, gelu_erf, sigmoid };

// act(g) * u.  With limit > 0 (architectures.md 10, gpt-oss): g at most limit, u within
// +-limit, and (u + 1) * g * sigmoid(alpha * g); kind is then not used.
struct GatedActivation {
  Activation kind = Activation::silu;
  float limit = 0.0f;
  float alpha = 1.0f;
};

enum class RopePairing { half_split, interleaved };  // architectures.md 2.1

struct RopeArgs {
  int n_heads = 0;
  int head_dim = 0;
  int rotary_dims = 0;  // so many of each head turn, the rest pass through
  RopePairing pairing = RopePairing::half_split;
  int first = 0;  // the first dimension of a head that turns
};

// The keys that rows of sparse attention see: bit j % 64 of word [row, j / 64] for the
// key at position j.
struct KeySelection {
  Buffer bits;      // [n_tokens, n_words] uint64; empty: every key
  int n_words = 0;  // context / 64, rounded up
};

struct SelectKeysArgs {
  int n_heads = 0;
  int head_dim = 0;
  int top_k = 0;
  float scale = 1.0f;  // of q . k, inside the ReLU
};

struct AttentionArgs {
  int n_heads = 0;
  int head_dim = 0;      // of queries and keys; values have the layout's value_dim
  float scale = 1.0f;    // multiplies q . k
  int window = 0;        // > 0: keys j with p - j < window only, the own one included
  float softcap = 0.0f;  // > 0: scores become c * tanh(s / c)
  Buffer sinks;          // [n_heads] f32, or empty: a logit that takes weight, no value
  KeySelection selection = {};
};

// How a token's experts are chosen (architectures.md 2.6, 15; -more.md 2.1).
enum class RouterScore {
  softmax,         // of all logits; the largest win
  softmax_chosen,  // the largest logits win, softmax over them alone
  sigmoid,         // of each logit
};
struct RouterArgs {
  RouterScore score = RouterScore::softmax;
  int n_experts = 0;
  int n_used = 0;
  int n_groups = 1;        // experts in equal runs;
  int n_groups_used = 1;   // those with the largest sum of their two best may be chosen
  bool normalise = false;  // weights /= their sum + normalise_eps
  float normalise_eps = 0.0f;
  float scale = 1.0f;  // of the weights, last
  Buffer bias = {};    // [n_experts] f32 added to the scores for the choice alone
};

// What route() chose: experts of a token ascending.
struct Routing {
  Buffer experts;  // [n_tokens, n_used] int32
  Buffer weights;  // [n_tokens, n_used] f32
  int n_used = 0;
};

// One matrix an expert, all of one shape.
struct ExpertWeights {
  std::vector<std::unique_ptr<Weight>> experts;
  Memory bias;  // [n_experts, n_rows] f32, or empty
};

struct GatedDeltaArgs {
  bool tiled_value_heads = false;  // value head j reads key head j % n_key_heads
  Buffer decay;                    // [n_value_heads] f32: -exp(A_log)
  Buffer dt_bias;                  // [n_value_heads] f32
  float l2_eps = 1e-6f;
};

// For each of n_heads runs of `count` columns, out[to_first + h * to_step ...] =
// x[from_first + h * from_step ...].
struct ColumnCopy {
  int n_heads = 0;
  int count = 0;
  int from_first = 0;
  int from_step = 0;
  int to_first = 0;
  int to_step = 0;
};

// Per row of logits, in this order: penalties, bias, temperature, top_k, top_p, min_p,
// then the largest of logit / temperature + Gumbel noise keyed by (seed, position,
// token).
struct SamplerArgs {
  float temperature = 0.0f;  // 0: the largest logit, lowest index on ties
  int top_k = 0;             // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repeat_penalty = 1.0f;     // over prompt and answer
  float presence_penalty = 0.0f;   // over the answer
  float frequency_penalty = 0.0f;  // over the answer
  uint64_t seed = 0;
};

struct SampleRow {
  SamplerArgs args;
  int position = 0;  // of the token to be chosen
  Buffer
      prompt_seen;  // [vocab_size] uint8: 1 where the prompt has the token; may be empty
  Buffer answer_counts;  // [vocab_size] int32: updated with the choice; may be empty
  Buffer bias;           // [vocab_size] float32 added to the logits; may be empty
};

// ---- The interface ------------------------------------------------------------------

struct OpsCounters {
  uint64_t weight_bytes = 0;  // read by embed and matmul since the last reset
};

class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::string name() const = 0;      // "cpu-avx2", as --json's "backend" says
  virtual int numerics_version() const = 0;  // changes whenever a kernel's bits do
  virtual ActMode act_mode() const = 0;

  // Memory.  allocate() throws Error when there is none left; contents start as zero.
  virtual Memory allocate(size_t bytes) = 0;
  virtual void free(Buffer buffer) = 0;
  virtual void upload(const Buffer& to, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const Buffer& from, size_t bytes) = 0;
  // Rows on fresh memory, each row aligned for the backend's kernels.
  struct OwnedRows {
    Memory memory;
    Rows rows;
  };
  OwnedRows allocate_rows(int n_rows, int width);

  // Packs stacked matrices of equal n_cols into one weight (their rows in order).
  virtual std::unique_ptr<Weight> pack(std::span<const WeightRows> parts) = 0;

  // Scratch for ops over at most max_tokens rows (a token that uses several experts has
  // as many in expert_matmul), max_width columns and max_positions positions: after this
  // no op allocates.
  virtual void reserve(int max_tokens, int max_width, int max_positions) = 0;
  // A step's ops stand between these two; finish() returns when they are done.
  virtual void begin_step() = 0;
  virtual void finish_step() = 0;

  // out[t] = table[tokens[t]] * scale                           out: [n, n_cols]
  virtual void embed(Rows out, const Weight& table, const Batch& batch, float scale) = 0;
  // x[t] += table[positions[t]]                                 x: [n, n_cols]
  virtual void add_position_embed(Rows x, const Weight& table, const Batch& batch) = 0;
  // out[t] = x[t] / sqrt(mean(x[t]^2) + eps) * weight           weight: [width] f32
  // The norms may write over their input (out and x the same rows).
  virtual void rms_norm(Rows out, Rows x, const Buffer& weight, float eps) = 0;
  // out[t] = (x[t] - mean) / sqrt(var + eps) * weight + bias    weight, bias: [width] f32
  virtual void layer_norm(Rows out, Rows x, const Buffer& weight, const Buffer& bias,
                          float eps) = 0;
  // rms_norm of every head on its own, in place                 x: [n, n_heads *
  // head_dim]
  virtual void head_rms_norm(Rows x, int n_heads, int head_dim, const Buffer& weight,
                             float eps) = 0;
  // out[t] = w x[t] (+ bias)            x: [n, n_cols], out: [n, n_rows]; bias: [n_rows]
  // f32
  virtual void matmul(Rows out, Rows x, const Weight& w, const Buffer& bias) = 0;
  // cos_sin[t] = cos then sin of positions[t] * inv_freq[i], times factor
  //                              inv_freq: [rotary_dims / 2] f32, cos_sin: [n,
  //                              rotary_dims]
  virtual void rope_table(Rows cos_sin, const Buffer& inv_freq, float factor,
                          const Batch& batch) = 0;
  // Turns the pairs of every head, in place                     x: [n, n_heads *
  // head_dim]
  virtual void rope(Rows x, Rows cos_sin, const RopeArgs& args) = 0;
  // Writes each row's key and value into its page   k: [n, n_kv_heads * key_dim], v alike
  // with stored_value_dim(); where that is 0, v is not looked at.
  virtual void kv_append(const KvPages& kv, Rows k, Rows v, const Batch& batch) = 0;
  // Causal softmax attention over the pages; a KV head serves n_heads / n_kv_heads
  // queries
  //                          q: [n, n_heads * head_dim], out: [n, n_heads * value_dim]
  virtual void attention(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                         const AttentionArgs& args) = 0;
  // out[t, i] = act(gate_up[t, i], gate_up[t, width + i])       gate_up: [n, 2 * width]
  // out may be the first half of gate_up itself.
  virtual void gated_activation(Rows out, Rows gate_up, const GatedActivation& act) = 0;
  // x = act(x)
  virtual void activation(Rows x, Activation kind) = 0;
  // x += h
  virtual void add(Rows x, Rows h) = 0;
  // x[t] += sigmoid(gate[t]) * h[t]                              gate: [n, 1]
  virtual void add_gated(Rows x, Rows h, Rows gate) = 0;
  // x *= act(gate)
  virtual void multiply_activation(Rows x, Rows gate, Activation kind) = 0;
  virtual void copy_columns(Rows out, Rows x, const ColumnCopy& copy) = 0;
  // Columns [i * out_step, + n_rows) of out = weights[i] times columns [i * x_step, +
  // n_cols) of x, as matmul() does it.
  virtual void matmul_heads(Rows out, int out_step, Rows x, int x_step,
                            std::span<const std::unique_ptr<Weight>> weights);

  // Chooses each token's experts; ties go to the lowest index, a NaN counts as largest,
  // so that it shows in the weights                              logits: [n, n_experts]
  virtual void route(const Routing& routing, Rows logits, const RouterArgs& args) = 0;
  // Row t * n_used + i of out = expert i of token t times row t of x, or row
  // t * n_used + i where x has as many rows as out; bits as matmul() gives them
  //                                   x: [n or n * n_used, n_cols], out: [n * n_used,
  //                                   n_rows]
  virtual void expert_matmul(Rows out, Rows x, const ExpertWeights& w,
                             const Routing& routing) = 0;
  // out[t] = sum of weights[t, i] * y[t * n_used + i], i ascending    y: [n * n_used, .]
  virtual void combine_experts(Rows out, Rows y, const Routing& routing) = 0;

  // Writes the rows of x into the state, then out[t] = silu(sum over the last kernel rows
  // of weight[., j] * x), zeros before the sequence     x, out: [n, channels]; weight:
  //                                                     [channels, conv_kernel] f32
  virtual void short_conv(Rows out, Rows x, const Buffer& weight,
                          const RecurrentState& state, const Batch& batch) = 0;
  // The gated delta rule in design.md's page form.  qkv: [n, channels] after the
  // convolution; q and k are normalised here and q scaled by key_dim^-1/2.  beta =
  // sigmoid(b), log decay = decay * softplus(a + dt_bias).
  //                       b, a: [n, n_value_heads], out: [n, n_value_heads * value_dim]
  virtual void gated_delta(Rows out, Rows qkv, Rows b, Rows a, const GatedDeltaArgs& args,
                           const RecurrentState& state, const Batch& batch) = 0;
  // The top_k keys of each row by sum over heads of weights[t, h] * relu(q . k * scale),
  // ties to the lowest position; all of them where there are no more than top_k.  None
  // where a score is NaN: attention then gives NaN, and check_finite names the layer.
  // `keys`: pages of one head with value_dim 0.     q: [n, n_heads * head_dim], weights:
  //                                                 [n, n_heads]
  virtual void select_keys(const KeySelection& out, Rows q, Rows weights,
                           const KvPages& keys, const Batch& batch,
                           const SelectKeysArgs& args) = 0;
  // out[i] = x[rows[i]]                                         rows: [out.n_rows] int32
  virtual void gather_rows(Rows out, Rows x, const Buffer& rows) = 0;
  // x = cap * tanh(x / cap)
  virtual void soft_cap(Rows x, float cap) = 0;
  // If status (one int32) is negative and x holds a value that is not finite: status =
  // tag.
  virtual void check_finite(Rows x, const Buffer& status, int tag) = 0;
  // tokens[i] = the choice for logits row i                     tokens: [n] int32
  virtual void sample(const Buffer& tokens, Rows logits,
                      std::span<const SampleRow> rows) = 0;

  virtual const OpsCounters& counters() const = 0;
  virtual void reset_counters() = 0;
};

struct CpuOptions {
  int n_threads = 1;
  ActMode act = ActMode::automatic;
  // "auto", or a table by name ("scalar", "avx2", "avx512", ...): refused if the CPU
  // lacks it.
  std::string isa = "auto";
};
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options);

}  // namespace ingot
