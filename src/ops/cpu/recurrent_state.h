// Where the parts of recurrent state lie (RecurrentLayout in ops.h), and how a batch's
// rows fall into sequences and pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"

namespace ingot::cpu {

// One half of a slot: what belongs to one page of a sequence.
struct RecurrentPage {
  RecurrentLayout layout;
  float* base = nullptr;

  // [key_dim, value_dim]: S at the page's start.
  float* state(int value_head) const {
    return base + size_t(value_head) * size_t(layout.key_dim) * size_t(layout.value_dim);
  }
  // [channels]: rows 0 .. conv_kernel - 2 are the last of the page before, then the
  // page's own.
  float* conv_row(int row) const {
    return state(layout.n_value_heads) + size_t(row) * size_t(layout.channels());
  }
  // [kPageTokens, key_dim]: normalised keys.
  float* keys(int key_head) const {
    return conv_row(layout.conv_kernel - 1 + kPageTokens) +
           size_t(key_head) * kPageTokens * size_t(layout.key_dim);
  }
  // [kPageTokens, value_dim]: the u of design.md.
  float* updates(int value_head) const {
    return keys(layout.n_key_heads) +
           size_t(value_head) * kPageTokens * size_t(layout.value_dim);
  }
  // [kPageTokens]
  float* log_decays(int value_head) const {
    return updates(layout.n_value_heads) + size_t(value_head) * kPageTokens;
  }
};

inline RecurrentPage recurrent_page(const RecurrentState& state, int slot, int page) {
  const size_t bytes = recurrent_slot_bytes(state.layout);
  CHECK(slot >= 0 && (size_t(slot) + 1) * bytes <= state.slots.bytes);
  const size_t floats = bytes / sizeof(float);
  return {state.layout, host<float>(state.slots) + size_t(slot) * floats +
                            size_t(page % 2) * floats / 2};
}

// Rows [first, end) of a batch: one sequence, from `position` on.
struct SequenceRows {
  int first = 0;
  int end = 0;
  int position = 0;
  int slot = 0;
};

inline SequenceRows sequence_rows(const Batch& batch, int first) {
  const int32_t* sequences = host<const int32_t>(batch.sequences);
  const int32_t* positions = host<const int32_t>(batch.positions);
  int end = first + 1;
  for (; end < batch.n_tokens && sequences[end] == sequences[first]; ++end)
    CHECK(positions[end] == positions[end - 1] + 1);
  return {first, end, positions[first],
          host<const int32_t>(batch.state_slots)[sequences[first]]};
}

inline int count_sequences(const Batch& batch) {
  int n = 0;
  for (int row = 0; row < batch.n_tokens; row = sequence_rows(batch, row).end) ++n;
  return n;
}

// `count` rows of a sequence that lie in one page, from `slot` of it on.
struct PageRows {
  int first = 0;
  int count = 0;
  int page = 0;
  int slot = 0;
  bool fill_page() const { return slot + count == kPageTokens; }
};

// Those that begin with row `first`.
inline PageRows page_rows(const SequenceRows& rows, int first) {
  const int position = rows.position + first - rows.first;
  const int slot = position % kPageTokens;
  return {first, std::min(rows.end - first, kPageTokens - slot), position / kPageTokens,
          slot};
}

// Calls body(rows, part) for the parts [range.begin, range.end) of every sequence, where
// item i is part i % n_parts of sequence i / n_parts.
template <typename Body>
void for_parts(const Batch& batch, WorkRange range, int n_parts, const Body& body) {
  SequenceRows rows = sequence_rows(batch, 0);
  for (int item = 0; item < range.end; ++item) {
    if (item != 0 && item % n_parts == 0) rows = sequence_rows(batch, rows.end);
    if (item >= range.begin) body(rows, item % n_parts);
  }
}

}  // namespace ingot::cpu
