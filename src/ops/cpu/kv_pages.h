// How the pages of keys and values lie in memory, for the files that read and write them.
#pragma once

#include "ops/cpu/cpu_ops.h"

namespace ingot::cpu {

inline size_t element_bytes(KvType type) {
  return type == KvType::f32 ? 4 : type == KvType::q8 ? 1 : 2;
}

// Where the parts of a page lie.
struct PageParts {
  explicit PageParts(const KvLayout& l)
      : layout(l),
        key_bytes(size_t(kPageTokens) * size_t(l.key_dim) * element_bytes(l.type)),
        value_bytes(size_t(kPageTokens) * size_t(l.stored_value_dim()) *
                    element_bytes(l.type)),
        page_bytes(kv_page_bytes(l)) {}

  std::byte* keys(std::byte* page, int head) const {
    return page + size_t(head) * key_bytes;
  }
  std::byte* values(std::byte* page, int head) const {
    return page + size_t(layout.n_kv_heads) * key_bytes + size_t(head) * value_bytes;
  }
  float* key_scales(std::byte* page, int head) const {
    return reinterpret_cast<float*>(page + size_t(layout.n_kv_heads) *
                                               (key_bytes + value_bytes)) +
           head * kPageTokens;
  }
  float* value_scales(std::byte* page, int head) const {
    return key_scales(page, layout.n_kv_heads + head);
  }
  // The keys, or values, of a head from slot `slot` on.
  KvRun key_run(std::byte* page, int head, int slot) const {
    return {keys(page, head) + skipped(slot, layout.key_dim),
            q8() ? key_scales(page, head) + slot : nullptr, layout.type, layout.key_dim};
  }
  KvRun value_run(std::byte* page, int head, int slot) const {
    return {values(page, head) + skipped(slot, layout.value_dim),
            q8() ? value_scales(page, head) + slot : nullptr, layout.type,
            layout.value_dim};
  }
  bool q8() const { return layout.type == KvType::q8; }
  size_t skipped(int slot, int dim) const {
    return size_t(slot) * size_t(dim) * element_bytes(layout.type);
  }

  KvLayout layout;
  size_t key_bytes, value_bytes, page_bytes;
};

inline const int32_t* page_table(const Batch& batch, int row) {
  const int sequence = host<const int32_t>(batch.sequences)[row];
  return host<const int32_t>(batch.page_tables) +
         size_t(sequence) * size_t(batch.max_pages);
}

// The rows of a run as float32: where they lie, or copied to scratch.
inline const float* widened(const Kernels& kernels, const KvRun& run, int n,
                            float* scratch) {
  if (run.type == KvType::f32) return reinterpret_cast<const float*>(run.data);
  kernels.widen_kv(run, n, scratch);
  return scratch;
}

}  // namespace ingot::cpu
