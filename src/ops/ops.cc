#include "ops/ops.h"

#include <utility>

#include "base/check.h"

namespace ingot {

Memory::Memory(Memory&& other) noexcept
    : ops_(std::exchange(other.ops_, nullptr)),
      buffer_(std::exchange(other.buffer_, Buffer{})) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  reset();
  ops_ = std::exchange(other.ops_, nullptr);
  buffer_ = std::exchange(other.buffer_, Buffer{});
  return *this;
}

void Memory::reset() {
  if (ops_ != nullptr) ops_->free(buffer_);
  ops_ = nullptr;
  buffer_ = Buffer{};
}

Rows Rows::columns(int first, int count) const {
  CHECK(first >= 0 && count >= 0 && first + count <= width);
  Rows part = *this;
  const size_t skipped = size_t(first) * sizeof(float);
  part.buffer.offset += skipped;
  part.buffer.bytes -= part.buffer.bytes < skipped ? part.buffer.bytes : skipped;
  part.width = count;
  return part;
}

Rows Rows::first_rows(int count) const {
  CHECK(count >= 0 && count <= n_rows);
  Rows part = *this;
  part.n_rows = count;
  return part;
}

Ops::OwnedRows Ops::allocate_rows(int n_rows, int width) {
  constexpr int kRowFloats = 16;  // rows start on cache lines
  CHECK(n_rows >= 0 && width >= 0);
  const int stride = (width + kRowFloats - 1) / kRowFloats * kRowFloats;
  OwnedRows owned;
  owned.memory = allocate(size_t(n_rows) * size_t(stride) * sizeof(float));
  owned.rows = {owned.memory.buffer(), n_rows, width, stride};
  return owned;
}

void Ops::matmul_heads(Rows out, int out_step, Rows x, int x_step,
                       std::span<const std::unique_ptr<Weight>> weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const Weight& w = *weights[i];
    matmul(out.columns(int(i) * out_step, w.n_rows), x.columns(int(i) * x_step, w.n_cols),
           w, {});
  }
}

size_t recurrent_slot_bytes(const RecurrentLayout& l) {
  const auto n = [](int a, int b) { return size_t(a) * size_t(b); };
  const size_t state = n(l.n_value_heads, l.key_dim) * size_t(l.value_dim);
  const size_t conv = n(l.conv_kernel - 1 + kPageTokens, l.channels());
  const size_t token = n(l.n_key_heads, l.key_dim) + n(l.n_value_heads, l.value_dim) +
                       size_t(l.n_value_heads);
  return 2 * (state + conv + kPageTokens * token) * sizeof(float);
}

size_t kv_page_bytes(const KvLayout& layout) {
  const int value_dim = layout.stored_value_dim();
  const size_t rows = size_t(layout.n_kv_heads) * kPageTokens;
  const size_t values = rows * (size_t(layout.key_dim) + size_t(value_dim));
  switch (layout.type) {
    case KvType::f32:
      return values * 4;
    case KvType::f16:
    case KvType::bf16:
      return values * 2;
    case KvType::q8:
      return values + (value_dim > 0 ? 2 : 1) * rows * sizeof(float);
  }
  CHECK(false);
}

}  // namespace ingot
