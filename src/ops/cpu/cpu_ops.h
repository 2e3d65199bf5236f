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

constexpr int kFewAttentionRows = 8;  // whose splits are spread over the threads
constexpr int kPassTokens = 128;      // rows that one reading of the weights serves
inline size_t passes_of(int n_rows) {
  return (size_t(n_rows) + kPassTokens - 1) / kPassTokens;
}

// Scratch of one thread; grows in reserve() alone.
struct ThreadScratch {
  std::vector<float> logits;    // [max_width] a sampled row, adjusted
  std::vector<int> candidates;  // [max_width] tokens that may be chosen
  Memory attention;             // what one work item of attention or select_keys keeps
  Memory key_scores;            // [2, max_positions] of select_keys
  std::vector<TileGroup>
      tiles;                    // a chunk of unpacked weights of kMostTilesTogether tiles
  std::vector<float> values;    // the same as float32
  std::vector<float> acc;       // [kMostTilesTogether][tokens a pass][8]
  std::vector<double> scores;   // [3, n_experts] of route
  std::vector<int32_t> ranked;  // [2, n_experts]
};

// An expert that some rows of a step chose.
struct ExpertRun {
  const PackedWeight* weight = nullptr;
  const float* bias = nullptr;
  MatmulInput in;
  int64_t first_unit = 0;  // of the work, see experts.cc
};

// Pairs of token and expert sorted by expert.
struct ExpertOrder {
  std::vector<int32_t> first;  // [n_experts + 1] place of each expert's first pair
  std::vector<int32_t> pairs;  // [n_pairs] in the order of their experts
  std::vector<ExpertRun> runs;
  Memory rows;  // [n_pairs, width] rows of x in that order
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
  void gated_activation(Rows out, Rows gate_up, const GatedActivation& act) override;
  void activation(Rows x, Activation kind) override;
  void add(Rows x, Rows h) override;
  void add_gated(Rows x, Rows h, Rows gate) override;
  void multiply_activation(Rows x, Rows gate, Activation kind) override;
  void copy_columns(Rows out, Rows x, const ColumnCopy& copy) override;
  void route(const Routing& routing, Rows logits, const RouterArgs& args) override;
  void expert_matmul(Rows out, Rows x, const ExpertWeights& w,
                     const Routing& routing) override;
  void combine_experts(Rows out, Rows y, const Routing& routing) override;
  void short_conv(Rows out, Rows x, const Buffer& weight, const RecurrentState& state,
                  const Batch& batch) override;
  void gated_delta(Rows out, Rows qkv, Rows b, Rows a, const GatedDeltaArgs& args,
                   const RecurrentState& state, const Batch& batch) override;
  void select_keys(const KeySelection& out, Rows q, Rows weights, const KvPages& keys,
                   const Batch& batch, const SelectKeysArgs& args) override;
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
  // Tiles [begin, end) of the weight.
  void matmul_tiles(const PackedWeight& weight, Rows out, const MatmulInput& in,
                    const float* bias, int begin, int end, ThreadScratch& scratch);
  // acc [n_tiles, n_tokens, 8] of rows [first, first + n_tokens).
  void many_rows_tiles(const WeightSegment& segment, int tile, int n_tiles,
                       const MatmulInput& in, int first, int n_tokens,
                       ThreadScratch& scratch);
  // Tiles [begin, end) of the segment.
  void matmul_segment(const WeightSegment& segment, int begin, int end, Rows out,
                      const MatmulInput& in, const float* bias, ThreadScratch& scratch);
  // Whether int8 activations meet the weight, and whether float32 ones do.
  bool wants_int8(const PackedWeight& weight) const;
  bool wants_floats(const PackedWeight& weight) const;
  void order_experts(const int32_t* experts, int n_pairs, int n_experts);
  MatmulInput gather_for_experts(Rows x, const ExpertWeights& w, int n_pairs, int n_used);
  int64_t plan_experts(const ExpertWeights& w, const MatmulInput& all);
  void grow_scratch(int max_tokens, int max_width);
  void attend_blocks(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                     const AttentionArgs& args);
  void attend_splits(Rows out, Rows q, const KvPages& kv, const Batch& batch,
                     const AttentionArgs& args);
  void grow_attention_scratch(size_t floats);
  void grow_attention_parts(size_t floats);
  void grow_expert_scratch(int n_pairs, int n_experts, int width);
  void grow_route_scratch(int n_experts);
  void grow_key_scores(int max_positions);

  const Kernels& kernels_;
  ActMode act_;
  ThreadPool pool_;
  std::vector<ThreadScratch> scratch_;  // one a thread
  Memory act_memory_;
  ActGroup* acts_ = nullptr;  // [n_cols / 32, n_tokens] quantised activations
  ExpertOrder order_;
  Memory attention_parts_;  // [splits, n_kv_heads] softmaxes of a few rows' queries
  OpsCounters counters_;
};

}  // namespace ingot::cpu
