// Runs sequences through a model: pages, chunks, steps.  One thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/page_pool.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "model/forward.h"

namespace ingot {

struct EngineOptions {
  int context = 0;  // tokens that all sequences may hold together; 0: default_context()
  int chunk = 512;  // prompt tokens a pass, at most
  KvType kv_type = KvType::f16;
  int max_logit_rows = 1;  // rows whose logits are wanted at once (evaluation wants more)
  int max_sequences = 2;   // that hold recurrent state at once
};

// The checkpoint's own context, or less where its state would take more than a quarter of
// this machine's memory.
int default_context(const Recipe& recipe, KvType kv_type);

class Engine {
 public:
  // `model` must outlive it.  Throws Error when the state does not fit in memory, usage
  // Error for options out of range.
  Engine(const Model& model, const EngineOptions& options);

  int context() const { return context_; }
  int chunk() const { return chunk_; }
  const Model& model() const { return model_; }
  size_t state_bytes() const { return state_.bytes; }

  Sequence new_sequence() {
    return Sequence(&pool_, slots_.n_pages() > 0 ? &slots_ : nullptr);
  }

  // Throws usage Error unless every id is in the vocabulary.
  void check_tokens(std::span<const int> tokens) const;

  // Feeds tokens to the sequence, a chunk a pass, and returns the sampler's choice for
  // the token after them.  Requires: tokens not empty, in the vocabulary, and fitting
  // (fits()). `progress` (may be empty) hears tokens done.  Throws Error naming the layer
  // when a hidden state or logit is not finite; the sequence then ends before the failing
  // chunk.  Kind interrupted on Ctrl-C between chunks.
  int extend(Sequence& sequence, std::span<const int> tokens, const Sampler& sampler,
             const std::function<void(int)>& progress);
  bool fits(const Sequence& sequence, int count) const;

  // Feeds tokens without choosing; hears, in order, the logits of every position (in
  // pieces of at most max_logit_rows) and, where set, the hidden states of every chunk,
  // the MTP head's logits of every position (row p reads token p + 1; the last one the
  // greedy choice), and then n_drafts greedy drafts with the logits that chose them.
  struct RowSink {
    std::function<void(int first_token, int n_rows, const float* rows, int width)>
        logits = {};
    std::function<void(int index, int first_token, int n_rows, const float* rows,
                       int width)>
        hidden = {};
    std::function<void(int first_token, int n_rows, const float* rows, int width)> mtp =
        {};
    std::function<void(int token, const float* row, int width)> draft = {};
    int first_logits = 0;  // positions before this one, counted in `tokens`, are skipped
    int n_drafts = 0;
  };
  // Requires, where sink.mtp is set: the model has an MTP head, and room for n_drafts.
  void evaluate(Sequence& sequence, std::span<const int> tokens, const RowSink& sink);

 private:
  // Runs tokens [0, n) as one batch; work_.h then holds their rows.
  void run_chunk(Sequence& sequence, std::span<const int> tokens, const HiddenTap& tap);
  void check_status();
  // tokens[i] at position first + i of the sequence
  Batch upload_batch(const Sequence& sequence, int first, std::span<const int> tokens);
  const float* fetch(Rows rows);  // to the host, densely
  int greedy(Rows logits);        // the choice of the one row
  void evaluate_mtp(Sequence& sequence, std::span<const int> tokens, int done, int n,
                    const RowSink& sink);
  void draft(Sequence& sequence, int position, int row, const RowSink& sink);
  Rows logits_of(int first, int count, int n_tokens, int head);

  const Model& model_;
  Ops& ops_;
  int context_;
  int chunk_;
  int max_pages_;
  PagePool pool_;
  PagePool slots_;  // of recurrent state; none without recurrent layers
  SequenceState state_;
  Workspace work_;
  Memory tokens_, positions_, sequences_, page_table_, slot_, row_index_, chosen_,
      status_;
  std::vector<int32_t> host_;  // staging for uploads
  std::vector<float> rows_;    // staging for evaluate()
};

}  // namespace ingot
