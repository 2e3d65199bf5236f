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
  std::function<const std::byte*(int row)> row;  // valid until the next call
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
};

struct KvLayout {
  int n_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  KvType type = KvType::f16;
};

// One layer's pages: [n_pages] times { keys [n_kv_heads, kPageTokens, key_dim],
// values [n_kv_heads, kPageTokens, value_dim], for q8 then one float32 scale a token and
// head, keys first }.
struct KvPages {
  KvLayout layout;
  Buffer pages;
};
size_t kv_page_bytes(const KvLayout& layout);

// ---- Op arguments -------------------------------------------------------------------

enum class Activation { silu, gelu_tanh, gelu_erf };

enum class RopePairing { half_split, interleaved };  // architectures.md 2.1

struct RopeArgs {
  int n_heads = 0;
  int head_dim = 0;
  int rotary_dims = 0;  // the first so many of each head turn, the rest pass through
  RopePairing pairing = RopePairing::half_split;
};

struct AttentionArgs {
  int n_heads = 0;
  int head_dim = 0;      // of queries and keys; values have the layout's value_dim
  float scale = 1.0f;    // multiplies q . k
  int window = 0;        // > 0: keys j with p - j < window only, the own one included
  float softcap = 0.0f;  // > 0: scores become c * tanh(s / c)
  Buffer sinks;          // [n_heads] f32, or empty: a logit that takes weight, no value
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

  // Scratch for steps of at most max_tokens rows, max_width columns and max_positions
  // positions: after this no op allocates.
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
  virtual void kv_append(const KvPages& kv, Rows k, Rows v, const Batch& batch) = 0;
  // Causal softmax attention over the pages; a KV head serves n_heads / n_kv_heads
  // queries
  //                          q: [n, n_heads * head_dim], out: [n, n_heads * value_dim]
  virtual void attention(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                         const AttentionArgs& args) = 0;
  // out[t, i] = act(gate_up[t, i]) * gate_up[t, width + i]      gate_up: [n, 2 * width]
  // out may be the first half of gate_up itself.
  virtual void gated_activation(Rows out, Rows gate_up, Activation kind) = 0;
  // x = act(x)
  virtual void activation(Rows x, Activation kind) = 0;
  // x += h
  virtual void add(Rows x, Rows h) = 0;
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
  std::string isa =
      "auto";  // "auto", "scalar", "avx2", "neon": refused if the CPU lacks it
};
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options);

}  // namespace ingot
