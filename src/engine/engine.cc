#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/interrupt.h"

namespace ingot {
namespace {

int checked_context(const Recipe& recipe, const EngineOptions& options) {
  const int context =
      options.context == 0 ? default_context(recipe, options.kv_type) : options.context;
  if (context < 1) fail_usage("context is {} tokens, wanted at least 1", context);
  if (recipe.position_embed && context > recipe.max_positions)
    fail_usage("context is {} tokens, wanted at most {}: the model has learned positions",
               context, recipe.max_positions);
  if (options.chunk < 1)
    fail_usage("chunk is {} tokens, wanted at least 1", options.chunk);
  return context;
}

// Not (context + kPageTokens - 1) / kPageTokens: -c may be near the largest int.
int pages_for(int context) {
  return context / kPageTokens + (context % kPageTokens == 0 ? 0 : 1);
}

}  // namespace

int default_context(const Recipe& recipe, KvType kv_type) {
  const auto memory = size_t(::sysconf(_SC_PHYS_PAGES)) * size_t(::sysconf(_SC_PAGESIZE));
  const size_t page = std::max<size_t>(1, state_page_bytes(recipe, kv_type));
  const size_t room = memory / 4 - std::min(memory / 4, state_slot_bytes(recipe));
  const size_t fitting = room / page * size_t(kPageTokens);
  return int(
      std::min<size_t>(size_t(recipe.max_positions), std::max<size_t>(fitting, 512)));
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : model_(model),
      ops_(*model.ops),
      context_(checked_context(model.recipe, options)),
      chunk_(std::min(options.chunk, context_)),
      max_pages_(pages_for(context_)),
      pool_(max_pages_),
      slots_(has_recurrent_state(model.recipe) ? options.max_sequences : 0),
      state_(allocate_state(model.recipe, ops_, options.kv_type, max_pages_,
                            slots_.n_pages())),
      work_(model.recipe, ops_, chunk_, options.max_logit_rows, context_) {
  const auto ints = [&](int n) { return ops_.allocate(size_t(n) * sizeof(int32_t)); };
  tokens_ = ints(chunk_);
  positions_ = ints(chunk_);
  sequences_ = ints(chunk_);
  page_table_ = ints(max_pages_);
  slot_ = ints(1);
  row_index_ = ints(options.max_logit_rows);
  chosen_ = ints(1);
  status_ = ints(1);
  host_.resize(size_t(std::max({chunk_, max_pages_, options.max_logit_rows})));
}

void Engine::check_tokens(std::span<const int> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= model_.recipe.vocab_size)
      fail_usage("token {} of the prompt is {}, wanted an id from 0 to {}", i, tokens[i],
                 model_.recipe.vocab_size - 1);
  }
}

bool Engine::fits(const Sequence& sequence, int count) const {
  return count <= context_ - sequence.n_tokens();
}

Batch Engine::upload_batch(const Sequence& sequence, int first,
                           std::span<const int> tokens) {
  const int n = int(tokens.size());
  const size_t bytes = tokens.size() * sizeof(int32_t);
  Batch batch{n,
              max_pages_,
              tokens_.buffer(),
              positions_.buffer(),
              sequences_.buffer(),
              page_table_.buffer(),
              slots_.n_pages() > 0 ? slot_.buffer() : Buffer{}};
  ops_.upload(batch.tokens, tokens.data(), bytes);
  for (int i = 0; i < n; ++i) host_[size_t(i)] = first + i;
  ops_.upload(batch.positions, host_.data(), bytes);
  std::fill_n(host_.begin(), n, 0);
  ops_.upload(batch.sequences, host_.data(), bytes);
  const std::vector<PageId>& pages = sequence.pages();
  std::transform(pages.begin(), pages.end(), host_.begin(),
                 [](PageId page) { return int32_t(page); });
  ops_.upload(batch.page_tables, host_.data(), pages.size() * sizeof(int32_t));
  if (slots_.n_pages() > 0) {
    const int32_t slot = sequence.slot();
    ops_.upload(batch.state_slots, &slot, sizeof slot);
  }
  return batch;
}

void Engine::run_chunk(Sequence& sequence, std::span<const int> tokens,
                       const HiddenTap& tap) {
  CHECK(sequence.reserve(int(tokens.size())));
  const Batch batch = upload_batch(sequence, sequence.n_tokens(), tokens);
  const int32_t fine = -1;
  ops_.upload(status_.buffer(), &fine, sizeof fine);
  forward(model_, batch, state_, work_, status_.buffer(), tap);
}

void Engine::check_status() {
  int32_t status = -1;
  ops_.download(&status, status_.buffer(), sizeof status);
  if (status < 0) return;
  const int n_layers = int(model_.layers.size());
  const std::string where = status == 0         ? "the embedding"
                            : status > n_layers ? "the logits"
                                                : fmt::format("layer {}", status - 1);
  fail(
      "{}: a value after {} is not finite, wanted finite numbers; stopped before "
      "choosing a "
      "token",
      model_.source, where);
}

int Engine::extend(Sequence& sequence, std::span<const int> tokens,
                   const Sampler& sampler, const std::function<void(int)>& progress) {
  CHECK(!tokens.empty() && fits(sequence, int(tokens.size())));
  int token = 0;
  for (size_t done = 0; done < tokens.size();) {
    if (done > 0) throw_if_interrupted();
    const auto part =
        tokens.subspan(done, std::min(size_t(chunk_), tokens.size() - done));
    const int n = int(part.size());
    const bool last = done + part.size() == tokens.size();
    ops_.begin_step();
    run_chunk(sequence, part, {});
    if (last) {
      const int32_t row = n - 1;
      ops_.upload(row_index_.buffer(), &row, sizeof row);
      const Rows logits =
          compute_logits(model_, row_index_.buffer(), 1, n, work_, status_.buffer());
      const SampleRow sample = sampler.row(sequence.n_tokens() + n);
      ops_.sample(chosen_.buffer(), logits, {&sample, 1});
    }
    ops_.finish_step();
    check_status();
    sequence.append(part);
    done += part.size();
    if (progress) progress(int(done));
  }
  ops_.download(&token, chosen_.buffer(), sizeof(int32_t));
  return token;
}

}  // namespace ingot
