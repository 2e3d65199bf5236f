// After warm-up a step allocates nothing (malloc, operator new and mmap count) and, on
// pages that were written before, faults no page in.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/engine.h"
#include "engine/families_testing.h"
#include "model/tiny_model.h"

#if defined(__SANITIZE_ADDRESS__)
#define INGOT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define INGOT_ADDRESS_SANITIZER 1
#endif
#endif

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

#if !defined(INGOT_ADDRESS_SANITIZER) && defined(__GLIBC__)
extern "C" {  // the sanitizer has its own
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* malloc(size_t bytes) noexcept {
  ++n_allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) noexcept {
  ++n_allocations;
  return __libc_calloc(n, bytes);
}
void* realloc(void* p, size_t bytes) noexcept {
  ++n_allocations;
  return __libc_realloc(p, bytes);
}
}
#endif

namespace ingot {
namespace {

constexpr unsigned kSeed = 20261203;
constexpr int kThreads = 2;
constexpr int kChunk = 32;

std::vector<int> prompt_of(int n) {
  std::mt19937 random(kSeed + 1);
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(int(random() % 97));
  return out;
}

struct Rig {
  Rig(const std::string& config, ActMode act, KvType kv)
      : tiny(tiny_checkpoint(config, kSeed)),
        ops(make_cpu_ops({.n_threads = kThreads, .act = act})),
        model(load_model(tiny.checkpoint, derive_recipe(tiny.checkpoint), *ops, {})),
        engine(*model, {.context = 512, .chunk = kChunk, .kv_type = kv}) {}

  // Every part of the sampler at work.
  Sampler busy_sampler() {
    SamplerOptions options;
    options.args = {.temperature = 0.8f,
                    .top_k = 40,
                    .top_p = 0.9f,
                    .min_p = 0.01f,
                    .repeat_penalty = 1.1f,
                    .presence_penalty = 0.1f,
                    .frequency_penalty = 0.1f,
                    .seed = 7};
    options.logit_bias = {{3, 0.5f}};
    return Sampler(*ops, model->recipe.vocab_size, options);
  }

  void decode(Sequence& sequence, const Sampler& sampler, int n) {
    int token = 5;
    for (int i = 0; i < n; ++i) token = engine.extend(sequence, {&token, 1}, sampler, {});
  }

  TinyCheckpoint tiny;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  Engine engine;
};

std::vector<Family> every_family() {
  std::vector<Family> out = families();
  out.push_back({"dense", R"("model_type": "qwen3", "num_key_value_heads": 2,
    "head_dim": 32, "intermediate_size": 96, "sliding_window": 9, "layer_types":
    ["full_attention", "sliding_attention", "full_attention", "full_attention"])"});
  return out;
}

class Steps : public testing::TestWithParam<Family> {};

TEST_P(Steps, NothingIsAllocated) {
  for (const ActMode act : {ActMode::f32, ActMode::automatic}) {
    for (const KvType kv : {KvType::f16, KvType::q8}) {
      Rig rig(config_of(GetParam()), act, kv);
      const Sampler sampler = rig.busy_sampler();
      const std::vector<int> prompt = prompt_of(100);
      Sequence sequence = rig.engine.new_sequence();
      rig.engine.extend(sequence, prompt, sampler, {});
      rig.decode(sequence, sampler, 2);

      const int64_t before = n_allocations;
      rig.engine.extend(sequence, std::span(prompt).first(kChunk), sampler, {});
      EXPECT_EQ(n_allocations - before, 0) << "a chunk of the prompt";
      rig.decode(sequence, sampler, 2 * kPageTokens);  // over the ends of pages
      EXPECT_EQ(n_allocations - before, 0) << "decoding";
    }
  }
}

TEST(StepsCounter, SeesEveryWayToAllocate) {
  const int64_t before = n_allocations;
  std::vector<int> grown(100);
  EXPECT_GT(n_allocations - before, 0);
#if !defined(INGOT_ADDRESS_SANITIZER) && defined(__GLIBC__)
  const int64_t between = n_allocations;
  void* volatile block = std::malloc(10);
  EXPECT_EQ(n_allocations - between, 1);
  std::free(block);
#endif
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// A page of sequence state costs its faults when it is first written; after that none.
TEST_P(Steps, PagesWrittenBeforeFaultNoMore) {
  constexpr int kBefore = kPageTokens, kSteps = kPageTokens;
  Rig rig(config_of(GetParam()), ActMode::automatic, KvType::f16);
  const Sampler sampler = rig.busy_sampler();
  const std::vector<int> prompt = prompt_of(kBefore);
  int64_t fewest = -1;
  for (int attempt = 0; attempt < 4 && fewest != 0; ++attempt) {  // the first warms up
    Sequence sequence = rig.engine.new_sequence();
    rig.engine.extend(sequence, prompt, sampler, {});
    const int64_t before = page_faults();
    rig.decode(sequence, sampler, kSteps);
    const int64_t found = page_faults() - before;
    if (attempt > 0 && (fewest < 0 || found < fewest)) fewest = found;
  }
  EXPECT_EQ(fewest, 0) << "in " << kSteps << " decoded tokens";
}

INSTANTIATE_TEST_SUITE_P(Engine, Steps, testing::ValuesIn(every_family()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ingot
