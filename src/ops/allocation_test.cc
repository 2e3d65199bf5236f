// After reserve() no op allocates: operator new counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "ops/ops_testing.h"
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
              .state_slots = {}};
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

INGOT_ON_EVERY_TABLE(Allocation);

}  // namespace
}  // namespace ingot
