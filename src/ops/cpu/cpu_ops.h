// Ops on this machine's cores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/packed.h"
#include "ops/ops.h"

namespace ingot::cpu {

// Scratch of one thread; grows in reserve() alone.
struct ThreadScratch {
  std::vector<float> logits;     // [max_width] a sampled row, adjusted
  std::vector<int> candidates;   // [max_width] tokens that may be chosen
  Memory attention;              // what one work item of attention keeps
  std::vector<TileGroup> tiles;  // one chunk of unpacked weights
  std::vector<float> values;     // the same as float32
  std::vector<float> acc;        // [tokens a pass][8]
};

template <typename T>
T* host(const Buffer& buffer) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(buffer.data) + buffer.offset);
}
inline float* host_row(const Rows& rows, int t) {
  return host<float>(rows.buffer) + size_t(t) * size_t(rows.stride);
}

class CpuOps : public Ops {
 public:
  explicit CpuOps(const CpuOptions& options);

  std::string name() const override;
  int numerics_version() const override;
  ActMode act_mode() const override { return act_; }

  Memory allocate(size_t bytes) override;
  void free(Buffer buffer) override;
  void upload(const Buffer& to, const void* from, size_t bytes) override;
  void download(void* to, const Buffer& from, size_t bytes) override;
  std::unique_ptr<Weight> pack(std::span<const WeightRows> parts) override;
  void reserve(int max_tokens, int max_width, int max_positions) override;
  void begin_step() override {}
  void finish_step() override {}

  void embed(Rows out, const Weight& table, const Batch& batch, float scale) override;
  void add_position_embed(Rows x, const Weight& table, const Batch& batch) override;
  void rms_norm(Rows out, Rows x, const Buffer& weight, float eps) override;
  void layer_norm(Rows out, Rows x, const Buffer& weight, const Buffer& bias,
                  float eps) override;
  void head_rms_norm(Rows x, int n_heads, int head_dim, const Buffer& weight,
                     float eps) override;
  void matmul(Rows out, Rows x, const Weight& w, const Buffer& bias) override;
  void rope_table(Rows cos_sin, const Buffer& inv_freq, float factor,
                  const Batch& batch) override;
  void rope(Rows x, Rows cos_sin, const RopeArgs& args) override;
  void kv_append(const KvPages& kv, Rows k, Rows v, const Batch& batch) override;
  void attention(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                 const AttentionArgs& args) override;
  void gated_activation(Rows out, Rows gate_up, Activation kind) override;
  void activation(Rows x, Activation kind) override;
  void add(Rows x, Rows h) override;
  void short_conv(Rows out, Rows x, const Buffer& weight, const RecurrentState& state,
                  const Batch& batch) override;
  void gated_delta(Rows out, Rows qkv, Rows b, Rows a, const GatedDeltaArgs& args,
                   const RecurrentState& state, const Batch& batch) override;
  void gather_rows(Rows out, Rows x, const Buffer& rows) override;
  void soft_cap(Rows x, float cap) override;
  void check_finite(Rows x, const Buffer& status, int tag) override;
  void sample(const Buffer& tokens, Rows logits,
              std::span<const SampleRow> rows) override;

  const OpsCounters& counters() const override { return counters_; }
  void reset_counters() override { counters_ = {}; }

 private:
  // Runs body(t) for every row: on the pool when there is enough to do.
  template <typename Body>
  void for_rows(int n_rows, int width, const Body& body);
  void matmul_tiles(const PackedWeight& weight, Rows out, Rows x, const float* bias,
                    WorkRange range);
  void matmul_tile(const WeightSegment& segment, int tile, Rows out, Rows x,
                   const float* bias, ThreadScratch& scratch);
  void grow_scratch(int max_tokens, int max_width);
  void grow_attention_scratch(size_t floats);

  const Kernels& kernels_;
  ActMode act_;
  ThreadPool pool_;
  std::vector<ThreadScratch> scratch_;  // one a thread
  Memory act_memory_;
  ActGroup* acts_ = nullptr;  // [n_cols / 32, n_tokens] quantised activations
  OpsCounters counters_;
};

}  // namespace ingot::cpu
