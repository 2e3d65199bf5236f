// Sequences that run through short_conv and gated_delta in tests.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/ops_testing.h"

namespace ingot {

// What one layer reads: its weights, and every token's inputs of one sequence.
struct RecurrentInputs {
  RecurrentInputs(const RecurrentLayout& l, int n_tokens, uint64_t seed,
                  float forget = 1.0f);
  std::vector<float> conv_weight;     // [channels, kernel]
  std::vector<float> decay, dt_bias;  // [n_value_heads]
  std::vector<float> x, b, a;         // [n_tokens, ..]
};

inline RecurrentInputs::RecurrentInputs(const RecurrentLayout& l, int n_tokens,
                                        uint64_t seed, float forget) {
  Random weights(91);
  conv_weight = weights.floats(l.channels() * l.conv_kernel);
  decay = weights.floats(l.n_value_heads, -2.0f * forget, -0.01f * forget);
  dt_bias = weights.floats(l.n_value_heads);
  Random random(seed);
  x = random.floats(n_tokens * l.channels(), -2.0f, 2.0f);
  b = random.floats(n_tokens * l.n_value_heads, -3.0f, 3.0f);
  a = random.floats(n_tokens * l.n_value_heads, -6.0f, 2.0f);
}

// Rows of one sequence in a step: tokens [first, first + count) of `inputs`, which stand
// at positions [position, ..).
struct StepPart {
  const RecurrentInputs* inputs = nullptr;
  int first = 0;
  int count = 0;
  int position = 0;
  int slot = 0;
};

// The layer's two ops over a backend's slots, whose memory starts as NaN.
class RecurrentRunner {
 public:
  RecurrentRunner(Ops& ops, const RecurrentLayout& layout, int n_slots,
                  const RecurrentInputs& weights, bool tiled = false)
      : ops_(ops),
        layout_(layout),
        slots_(upload(ops, std::vector<uint8_t>(
                               recurrent_slot_bytes(layout) * size_t(n_slots), 0xff))),
        conv_weight_(upload(ops, weights.conv_weight)),
        decay_(upload(ops, weights.decay)),
        dt_bias_(upload(ops, weights.dt_bias)),
        args_{.tiled_value_heads = tiled,
              .decay = decay_.buffer(),
              .dt_bias = dt_bias_.buffer()},
        state_{layout, slots_.buffer()} {}

  // One step.  The outputs of each part's rows: of the convolution, then of the rule.
  std::vector<std::vector<float>> step(const std::vector<StepPart>& parts);

  // Tokens [first, end) of a sequence alone, in steps of the given sizes; the last size
  // repeats.
  std::vector<float> run(const RecurrentInputs& inputs, int first, int end, int slot,
                         const std::vector<int>& sizes);

  const GatedDeltaArgs& args() const { return args_; }
  const RecurrentState& state() const { return state_; }
  const Buffer& conv_weight() const { return conv_weight_.buffer(); }

 private:
  Ops& ops_;
  RecurrentLayout layout_;
  Memory slots_, conv_weight_, decay_, dt_bias_;
  GatedDeltaArgs args_;
  RecurrentState state_;
};

// A batch's inputs in the backend's memory: part i is sequence i.
struct RecurrentBatch {
  RecurrentBatch(Ops& ops, const std::vector<StepPart>& parts) {
    std::vector<int32_t> positions, sequences, slots;
    for (const StepPart& part : parts) {
      for (int i = 0; i < part.count; ++i) {
        positions.push_back(part.position + i);
        sequences.push_back(int32_t(slots.size()));
      }
      slots.push_back(part.slot);
    }
    positions_memory = upload(ops, positions);
    sequences_memory = upload(ops, sequences);
    slots_memory = upload(ops, slots);
    batch.n_tokens = int(positions.size());
    batch.positions = positions_memory.buffer();
    batch.sequences = sequences_memory.buffer();
    batch.state_slots = slots_memory.buffer();
  }
  Memory positions_memory, sequences_memory, slots_memory;
  Batch batch;
};

inline void append(std::vector<float>& to, const std::vector<float>& from, int first_row,
                   int n_rows, int width) {
  to.insert(to.end(), from.begin() + first_row * width,
            from.begin() + (first_row + n_rows) * width);
}

inline std::vector<std::vector<float>> RecurrentRunner::step(
    const std::vector<StepPart>& parts) {
  const RecurrentBatch inputs(ops_, parts);
  const int n = inputs.batch.n_tokens, channels = layout_.channels();
  const int heads = layout_.n_value_heads, width = heads * layout_.value_dim;
  std::vector<float> x, b, a;
  for (const StepPart& p : parts) {
    append(x, p.inputs->x, p.first, p.count, channels);
    append(b, p.inputs->b, p.first, p.count, heads);
    append(a, p.inputs->a, p.first, p.count, heads);
  }
  TestRows rows(ops_, n, channels, x), b_rows(ops_, n, heads, b),
      a_rows(ops_, n, heads, a);
  TestRows qkv(ops_, n, channels), out(ops_, n, width);
  ops_.short_conv(qkv.rows, rows.rows, conv_weight_.buffer(), state_, inputs.batch);
  ops_.gated_delta(out.rows, qkv.rows, b_rows.rows, a_rows.rows, args_, state_,
                   inputs.batch);
  EXPECT_TRUE(same_bits(rows.values(), x) && same_bits(b_rows.values(), b) &&
              same_bits(a_rows.values(), a));
  const std::vector<float> convolved = qkv.values(), result = out.values();
  std::vector<std::vector<float>> outputs;
  int at = 0;
  for (const StepPart& p : parts) {
    outputs.emplace_back();
    for (int i = 0; i < p.count; ++i, ++at) {
      append(outputs.back(), convolved, at, 1, channels);
      append(outputs.back(), result, at, 1, width);
    }
  }
  return outputs;
}

inline std::vector<float> RecurrentRunner::run(const RecurrentInputs& inputs, int first,
                                               int end, int slot,
                                               const std::vector<int>& sizes) {
  std::vector<float> all;
  size_t i = 0;
  for (int at = first; at < end;) {
    const int count = std::min(sizes[std::min(i++, sizes.size() - 1)], end - at);
    const auto part = step({{&inputs, at, count, at, slot}});
    all.insert(all.end(), part[0].begin(), part[0].end());
    at += count;
  }
  return all;
}

}  // namespace ingot
