// Engine::evaluate: every row's logits, hidden states and drafts, for other programs to
// check.
#include <algorithm>

#include "base/check.h"
#include "base/interrupt.h"
#include "engine/engine.h"

namespace ingot {

const float* Engine::fetch(Rows rows) {
  rows_.resize(size_t(rows.n_rows) * size_t(rows.width));
  for (int r = 0; r < rows.n_rows; ++r) {
    Buffer row = rows.buffer;
    row.offset += size_t(r) * size_t(rows.stride) * sizeof(float);
    ops_.download(&rows_[size_t(r) * size_t(rows.width)], row,
                  size_t(rows.width) * sizeof(float));
  }
  return rows_.data();
}

int Engine::greedy(Rows logits) {
  int32_t token = 0;
  const SampleRow row = {};
  ops_.sample(chosen_.buffer(), logits, {&row, 1});
  ops_.download(&token, chosen_.buffer(), sizeof token);
  return token;
}

// Of rows [first, first + count) of the n_tokens that were run last.
Rows Engine::logits_of(int first, int count, int n_tokens, int head) {
  for (int i = 0; i < count; ++i) host_[size_t(i)] = first + i;
  ops_.upload(row_index_.buffer(), host_.data(), size_t(count) * sizeof(int32_t));
  return compute_logits(model_, row_index_.buffer(), count, n_tokens, work_,
                        status_.buffer(), head);
}

void Engine::evaluate(Sequence& sequence, std::span<const int> tokens,
                      const RowSink& sink) {
  for (size_t done = 0; done < tokens.size();) {
    throw_if_interrupted();
    const auto part =
        tokens.subspan(done, std::min(size_t(chunk_), tokens.size() - done));
    const int n = int(part.size());
    HiddenTap tap;
    if (sink.hidden) {
      tap = [&](int index, Rows rows) {
        sink.hidden(index, int(done), rows.n_rows, fetch(rows), rows.width);
      };
    }
    ops_.begin_step();
    run_chunk(sequence, part, tap);
    const int batch = work_.logits.rows.n_rows;
    for (int first = std::max(0, sink.first_logits - int(done)); first < n;
         first += batch) {
      const int count = std::min(batch, n - first);
      const Rows logits = logits_of(first, count, n, -1);
      sink.logits(int(done) + first, count, fetch(logits), logits.width);
    }
    if (sink.mtp) evaluate_mtp(sequence, tokens, int(done), n, sink);
    ops_.finish_step();
    check_status();
    sequence.append(part);
    done += part.size();
  }
}

// The head over the n rows from `done` on, whose final normed rows stand in work_.h.
void Engine::evaluate_mtp(Sequence& sequence, std::span<const int> tokens, int done,
                          int n, const RowSink& sink) {
  const bool last = done + n == int(tokens.size());
  std::vector<int> next(tokens.begin() + done + 1,
                        tokens.begin() + std::min(done + n + 1, int(tokens.size())));
  if (last) next.push_back(greedy(logits_of(n - 1, 1, n, -1)));
  const Rows hidden = work_.hidden.rows.first_rows(n);
  ops_.copy_columns(hidden, work_.h.rows.first_rows(n),
                    {.n_heads = 1, .count = hidden.width});
  const int position = sequence.n_tokens();
  const Batch rows = upload_batch(sequence, position, next);
  forward_mtp(model_, 0, hidden, rows, state_, work_, status_.buffer());
  const int batch = work_.logits.rows.n_rows;
  for (int first = 0; first < n; first += batch) {
    const int count = std::min(batch, n - first);
    const Rows logits = logits_of(first, count, n, 0);
    sink.mtp(done + first, count, fetch(logits), logits.width);
  }
  if (last && sink.n_drafts > 0) draft(sequence, position + n, n - 1, sink);
}

// Chains drafts from row `row` of the head's last pass; the first one is for position
// `position` + 1.
void Engine::draft(Sequence& sequence, int position, int row, const RowSink& sink) {
  CHECK(sequence.reserve(position + sink.n_drafts - sequence.n_tokens()));
  for (int i = 0; i < sink.n_drafts; ++i) {
    const Rows logits = logits_of(row, 1, row + 1, 0);
    const int token = greedy(logits);
    sink.draft(token, fetch(logits), logits.width);
    if (i + 1 == sink.n_drafts) return;
    Rows carried = model_.recipe.mtp[0].chains_normed ? work_.h.rows : work_.x.rows;
    carried.buffer.offset += size_t(row) * size_t(carried.stride) * sizeof(float);
    carried.n_rows = 1;
    const Rows hidden = work_.hidden.rows.first_rows(1);
    ops_.copy_columns(hidden, carried, {.n_heads = 1, .count = hidden.width});
    const Batch one = upload_batch(sequence, position + i, {&token, 1});
    forward_mtp(model_, 0, hidden, one, state_, work_, status_.buffer());
    row = 0;
  }
}

}  // namespace ingot
