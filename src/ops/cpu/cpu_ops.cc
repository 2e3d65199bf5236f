#include "ops/cpu/cpu_ops.h"

#include <sys/mman.h>

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "ops/cpu/for_rows.h"
#include "ops/testing_faults.h"

namespace ingot {

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) {
  return std::make_unique<cpu::CpuOps>(options);
}

namespace cpu {

constexpr int kNumericsVersion = 1;  // NUMERICS.md
constexpr int kMaxExperts = 1024;    // that reserve() makes room for

CpuOps::CpuOps(const CpuOptions& options)
    : kernels_(choose_kernels(options.isa)), act_(options.act), pool_(options.n_threads) {
  scratch_.resize(size_t(options.n_threads));
}

std::string CpuOps::name() const { return "cpu-" + std::string(kernels_.isa); }
int CpuOps::numerics_version() const { return kNumericsVersion; }

// ---- memory -------------------------------------------------------------------------

// Straight from the system: zeroed pages that cost nothing until they are touched.
Memory CpuOps::allocate(size_t bytes) {
  if (bytes == 0) return {};
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail("memory: no room for {} more bytes", bytes);
  return Memory(this, Buffer{data, 0, bytes});
}

void CpuOps::free(Buffer buffer) {
  if (buffer.data != nullptr) munmap(buffer.data, buffer.bytes);
}

void CpuOps::upload(const Buffer& to, const void* from, size_t bytes) {
  CHECK(bytes <= to.bytes);
  if (bytes != 0) std::memcpy(host<std::byte>(to), from, bytes);
}

void CpuOps::download(void* to, const Buffer& from, size_t bytes) {
  CHECK(bytes <= from.bytes);
  if (bytes != 0) std::memcpy(to, host<std::byte>(from), bytes);
}

std::unique_ptr<Weight> CpuOps::pack(std::span<const WeightRows> parts) {
  return pack_weight(kernels_, parts, pool_);
}

void CpuOps::reserve(int max_tokens, int max_width, int max_positions) {
  grow_scratch(max_tokens, max_width);
  grow_expert_scratch(max_tokens, kMaxExperts, max_width);
  grow_route_scratch(kMaxExperts);
  grow_key_scores(max_positions + kPageTokens);  // drafts may go past the context
  // Enough for any heads of 8 columns and more whose queries are max_width wide; of these
  // pages only those that a real layout uses are ever touched.
  grow_attention_scratch(size_t(max_width) * 512 + 8192);
  const size_t n_splits = size_t(max_positions + kPageTokens) / kAttentionSplit + 2;
  grow_attention_parts(n_splits * size_t(max_width) * kFewAttentionRows * 2);
}

// ---- rows ---------------------------------------------------------------------------

void CpuOps::embed(Rows out, const Weight& table, const Batch& batch, float scale) {
  const auto& weight = static_cast<const PackedWeight&>(table);
  const int32_t* tokens = host<const int32_t>(batch.tokens);
  CHECK(out.n_rows == batch.n_tokens && out.width == weight.n_cols);
  for (int t = 0; t < out.n_rows; ++t) {
    float* row = host_row(out, t);
    counters_.weight_bytes +=
        read_row(kernels_, weight, tokens[t], {row, size_t(out.width)});
    if (scale == 1.0f) continue;
    for (int i = 0; i < out.width; ++i) row[i] *= scale;
  }
}

void CpuOps::add_position_embed(Rows x, const Weight& table, const Batch& batch) {
  const auto& weight = static_cast<const PackedWeight&>(table);
  const int32_t* positions = host<const int32_t>(batch.positions);
  CHECK(x.n_rows == batch.n_tokens && x.width == weight.n_cols);
  grow_scratch(1, x.width);
  std::span<float> row{scratch_[0].logits.data(), size_t(x.width)};
  for (int t = 0; t < x.n_rows; ++t) {
    counters_.weight_bytes += read_row(kernels_, weight, positions[t], row);
    kernels_.add(host_row(x, t), row.data(), x.width);
  }
}

void CpuOps::rms_norm(Rows out, Rows x, const Buffer& weight, float eps) {
  CHECK(out.n_rows == x.n_rows && out.width == x.width);
  if (fault("epsilon")) eps *= 10.0f;
  for_rows(x.n_rows, x.width, [&](int t) {
    const float* row = host_row(x, t);
    const double mean = kernels_.sum_squares(row, x.width, 0.0) / x.width;
    kernels_.scale_rows(host_row(out, t), row, float(1.0 / std::sqrt(mean + double(eps))),
                        host<const float>(weight), x.width);
  });
}

void CpuOps::layer_norm(Rows out, Rows x, const Buffer& weight, const Buffer& bias,
                        float eps) {
  CHECK(out.n_rows == x.n_rows && out.width == x.width);
  for_rows(x.n_rows, x.width, [&](int t) {
    const float* row = host_row(x, t);
    const double mean = kernels_.sum(row, x.width) / x.width;
    const double variance = kernels_.sum_squares(row, x.width, mean) / x.width;
    kernels_.normalise(host_row(out, t), row, float(mean),
                       float(1.0 / std::sqrt(variance + double(eps))),
                       host<const float>(weight), host<const float>(bias), x.width);
  });
}

void CpuOps::head_rms_norm(Rows x, int n_heads, int head_dim, const Buffer& weight,
                           float eps) {
  CHECK(x.width == n_heads * head_dim);
  for_rows(x.n_rows, x.width, [&](int t) {
    for (int h = 0; h < n_heads; ++h) {
      float* head = host_row(x, t) + h * head_dim;
      const double mean = kernels_.sum_squares(head, head_dim, 0.0) / head_dim;
      kernels_.scale_rows(head, head, float(1.0 / std::sqrt(mean + double(eps))),
                          host<const float>(weight), head_dim);
    }
  });
}

void CpuOps::gated_activation(Rows out, Rows gate_up, const GatedActivation& act) {
  CHECK(out.n_rows == gate_up.n_rows && gate_up.width == 2 * out.width);
  for_rows(out.n_rows, out.width, [&](int t) {
    const float* gate = host_row(gate_up, t);
    const float* up = gate + out.width;
    if (act.limit > 0.0f)
      kernels_.gate_limited(host_row(out, t), gate, up, out.width, act.limit, act.alpha);
    else
      kernels_.gate(host_row(out, t), gate, up, out.width, act.kind);
  });
}

void CpuOps::activation(Rows x, Activation kind) {
  for_rows(x.n_rows, x.width,
           [&](int t) { kernels_.activate(host_row(x, t), x.width, kind); });
}

void CpuOps::add(Rows x, Rows h) {
  CHECK(x.n_rows == h.n_rows && x.width == h.width);
  for_rows(x.n_rows, x.width,
           [&](int t) { kernels_.add(host_row(x, t), host_row(h, t), x.width); });
}

void CpuOps::add_gated(Rows x, Rows h, Rows gate) {
  CHECK(x.n_rows == h.n_rows && x.width == h.width);
  CHECK(gate.n_rows == x.n_rows && gate.width == 1);
  for_rows(x.n_rows, x.width, [&](int t) {
    float weight = *host_row(gate, t);
    kernels_.activate(&weight, 1, Activation::sigmoid);
    kernels_.accumulate(&weight, 1, host_row(h, t), x.width, 1.0f, host_row(x, t));
  });
}

void CpuOps::multiply_activation(Rows x, Rows gate, Activation kind) {
  CHECK(x.n_rows == gate.n_rows && x.width == gate.width);
  for_rows(x.n_rows, x.width, [&](int t) {
    float* row = host_row(x, t);
    kernels_.gate(row, host_row(gate, t), row, x.width, kind);
  });
}

void CpuOps::copy_columns(Rows out, Rows x, const ColumnCopy& copy) {
  CHECK(out.n_rows == x.n_rows);
  if (copy.n_heads == 0 || copy.count == 0) return;
  const int last = copy.n_heads - 1;
  CHECK(copy.from_first >= 0 && copy.from_step >= 0 && copy.to_first >= 0 &&
        copy.to_step >= 0);
  CHECK(copy.from_first + last * copy.from_step + copy.count <= x.width);
  CHECK(copy.to_first + last * copy.to_step + copy.count <= out.width);
  for_rows(x.n_rows, copy.n_heads * copy.count, [&](int t) {
    const float* from = host_row(x, t) + copy.from_first;
    float* to = host_row(out, t) + copy.to_first;
    for (int h = 0; h < copy.n_heads; ++h)
      std::memcpy(to + h * copy.to_step, from + h * copy.from_step,
                  size_t(copy.count) * sizeof(float));
  });
}

void CpuOps::gather_rows(Rows out, Rows x, const Buffer& rows) {
  CHECK(out.width == x.width);
  const int32_t* from = host<const int32_t>(rows);
  for (int i = 0; i < out.n_rows; ++i) {
    CHECK(from[i] >= 0 && from[i] < x.n_rows);
    std::memcpy(host_row(out, i), host_row(x, from[i]), size_t(x.width) * sizeof(float));
  }
}

void CpuOps::soft_cap(Rows x, float cap) {
  for_rows(x.n_rows, x.width,
           [&](int t) { kernels_.soft_cap(host_row(x, t), x.width, cap); });
}

void CpuOps::check_finite(Rows x, const Buffer& status, int tag) {
  int32_t* word = host<int32_t>(status);
  for (int t = 0; t < x.n_rows; ++t)
    if (*word < 0 && !kernels_.all_finite(host_row(x, t), x.width)) *word = tag;
}

}  // namespace cpu
}  // namespace ingot
