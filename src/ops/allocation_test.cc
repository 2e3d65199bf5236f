// After reserve() no op allocates: operator new and mmap count.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "ops/batch_testing.h"
#include "ops/weights_testing.h"

namespace {
std::atomic<int64_t> n_allocations{0};
}  // namespace

// None is inlined, or g++ 12 takes malloc and free for wrong partners of new and delete.
__attribute__((noinline)) void* operator new(size_t bytes) {
  ++n_allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, size_t) noexcept { std::free(p); }

// The backend's own memory.
void* mmap(void* address, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  ++n_allocations;
  return reinterpret_cast<void*>(
      ::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

namespace ingot {
namespace {

class Allocation : public OnEveryTable {};

TEST_P(Allocation, NoneAfterReserve) {
  constexpr int kTokens = 70, kWidth = 512, kVocab = 600;
  const auto backend = make_ops(GetParam(), 2);
  backend->reserve(kTokens, 1024, 2048);
  Random random(47);
  std::vector<std::unique_ptr<Weight>> weights;
  for (DType type : {DType::q4_k, DType::q6_k, DType::iq2_xxs, DType::f16, DType::f32}) {
    const TestWeight source({.name = "", .dtype = type}, kVocab, kWidth, random);
    const WeightRows part[] = {source.source()};
    weights.push_back(backend->pack(part));
  }
  TestRows x(*backend, kTokens, kWidth, random.floats(kTokens * kWidth));
  TestRows h(*backend, kTokens, kWidth), out(*backend, kTokens, kVocab);
  TestRows half(*backend, kTokens, kWidth / 2), cos_sin(*backend, kTokens, 32);
  TestRows kv(*backend, kTokens, 2 * 64, random.floats(kTokens * 128));
  const Memory norm = upload(*backend, random.floats(kVocab));
  std::vector<int32_t> positions(kTokens, 0), sequences(kTokens, 0), tables = {1, 0};
  for (int i = 0; i < kTokens; ++i) positions[size_t(i)] = i;
  const Memory position_memory = upload(*backend, positions);
  const Memory sequence_memory = upload(*backend, sequences);
  const Memory table_memory = upload(*backend, tables);
  const Memory tokens = backend->allocate(kTokens * sizeof(int32_t));
  const Memory status = upload(*backend, std::vector<int32_t>{-1});
  const KvLayout layout{
      .n_kv_heads = 2, .key_dim = 64, .value_dim = 64, .type = KvType::f16};
  const Memory pages = backend->allocate(2 * kv_page_bytes(layout));
  Batch batch{.n_tokens = kTokens,
              .max_pages = 2,
              .tokens = tokens.buffer(),
              .positions = position_memory.buffer(),
              .sequences = sequence_memory.buffer(),
              .page_tables = table_memory.buffer(),
              .state_slots = sequence_memory.buffer()};  // slot 0
  constexpr RecurrentLayout kRecurrent{.n_key_heads = 2,
                                       .n_value_heads = 4,
                                       .key_dim = 64,
                                       .value_dim = 64,
                                       .conv_kernel = 4};
  const Memory slots = backend->allocate(recurrent_slot_bytes(kRecurrent));
  const Memory conv = upload(*backend, random.floats(kWidth * kRecurrent.conv_kernel));
  std::vector<SampleRow> rows(kTokens, SampleRow{});
  for (SampleRow& row : rows)
    row.args = {.temperature = 1.0f, .top_k = 40, .top_p = 0.9f};

  const int64_t before = n_allocations;
  backend->begin_step();
  for (const auto& weight : weights) {
    backend->embed(x.rows, *weight, batch, 2.0f);
    backend->add_position_embed(x.rows, *weight, batch);
    backend->matmul(out.rows, x.rows, *weight, norm.buffer());
  }
  backend->rms_norm(h.rows, x.rows, norm.buffer(), 1e-6f);
  backend->layer_norm(h.rows, x.rows, norm.buffer(), norm.buffer(), 1e-6f);
  backend->head_rms_norm(h.rows, 8, 64, norm.buffer(), 1e-6f);
  backend->rope_table(cos_sin.rows, norm.buffer(), 1.0f, batch);
  backend->rope(h.rows, cos_sin.rows, {.n_heads = 8, .head_dim = 64, .rotary_dims = 32});
  backend->kv_append({layout, pages.buffer()}, kv.rows, kv.rows, batch);
  backend->attention(h.rows, x.rows, {layout, pages.buffer()}, batch,
                     {.n_heads = 8, .head_dim = 64, .scale = 0.125f, .sinks = {}});
  backend->short_conv(h.rows, x.rows, conv.buffer(), {kRecurrent, slots.buffer()}, batch);
  backend->gated_delta(half.rows, h.rows, cos_sin.rows.columns(0, 4),
                       cos_sin.rows.columns(4, 4),
                       {.decay = norm.buffer(), .dt_bias = norm.buffer()},
                       {kRecurrent, slots.buffer()}, batch);
  backend->gated_activation(half.rows, x.rows, {Activation::silu});
  backend->activation(x.rows, Activation::gelu_erf);
  backend->add(x.rows, h.rows);
  backend->gather_rows(h.rows, x.rows, position_memory.buffer());
  backend->soft_cap(h.rows, 30.0f);
  backend->check_finite(h.rows, status.buffer(), 1);
  backend->sample(tokens.buffer(), out.rows, rows);
  backend->finish_step();
  EXPECT_EQ(n_allocations - before, 0);
}

TEST_P(Allocation, NoneForExpertsAndSelections) {
  constexpr int kTokens = 70, kUsed = 3, kExperts = 6, kWidth = 256, kContext = 100;
  const auto backend = make_ops(GetParam(), 2);
  backend->reserve(kTokens * kUsed, 2 * kWidth, kContext);
  Random random(53);
  ExpertWeights w;
  for (int e = 0; e < kExperts; ++e) {
    const TestWeight source({.name = "", .dtype = e % 2 == 0 ? DType::q4_k : DType::f16},
                            2 * kWidth, kWidth, random);
    const WeightRows part[] = {source.source()};
    w.experts.push_back(backend->pack(part));
  }
  TestRows x(*backend, kTokens, kWidth, random.floats(kTokens * kWidth));
  TestRows logits(*backend, kTokens, kExperts, random.floats(kTokens * kExperts));
  TestRows inner(*backend, kTokens * kUsed, 2 * kWidth), out(*backend, kTokens, kWidth);
  const Memory experts = backend->allocate(kTokens * kUsed * sizeof(int32_t));
  const Memory weights = backend->allocate(kTokens * kUsed * sizeof(float));
  const Routing routing{experts.buffer(), weights.buffer(), kUsed};
  const KvLayout layout{.n_kv_heads = 1,
                        .key_dim = 64,
                        .value_dim = 32,
                        .type = KvType::f16,
                        .values_in_keys = true};
  const Memory pages = backend->allocate(2 * kv_page_bytes(layout));
  const Memory bits = backend->allocate(kTokens * 2 * sizeof(uint64_t));
  const KeySelection selection{bits.buffer(), 2};
  const TestBatch step(*backend, 0, kTokens, {1, 0});

  const int64_t before = n_allocations;
  backend->route(routing, logits.rows, {.n_experts = kExperts, .n_used = kUsed});
  backend->expert_matmul(inner.rows, x.rows, w, routing);
  backend->gated_activation(inner.rows.columns(0, kWidth), inner.rows, {.limit = 7.0f});
  backend->combine_experts(out.rows, inner.rows.columns(0, kWidth), routing);
  backend->add_gated(x.rows, out.rows, x.rows.columns(0, 1));
  backend->multiply_activation(x.rows, out.rows, Activation::sigmoid);
  backend->copy_columns(out.rows, x.rows, {.n_heads = 2, .count = 64});
  backend->kv_append({layout, pages.buffer()}, x.rows.columns(0, 64), {}, step.batch);
  backend->select_keys(selection, x.rows, logits.rows.columns(0, 4),
                       {layout, pages.buffer()}, step.batch,
                       {.n_heads = 4, .head_dim = 64, .top_k = 5});
  backend->attention(out.rows.columns(0, 128), x.rows, {layout, pages.buffer()},
                     step.batch,
                     {.n_heads = 4, .head_dim = 64, .sinks = {}, .selection = selection});
  EXPECT_EQ(n_allocations - before, 0);
}

INGOT_ON_EVERY_TABLE(Allocation);

}  // namespace
}  // namespace ingot
