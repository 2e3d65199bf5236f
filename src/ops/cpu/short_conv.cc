// The causal depthwise convolution.  Its inputs are kept by page; an output row is one
// sum a channel, oldest input first, whatever stands beside it.
#include "base/check.h"
#include "ops/cpu/for_rows.h"
#include "ops/cpu/recurrent_state.h"

namespace ingot::cpu {
namespace {

constexpr int kChannelsPerItem = 256;

// Some channels of every row; `weight` holds theirs as [kernel, count].
struct Work {
  const Kernels& kernels;
  const RecurrentState& state;
  Rows out, x;
  const float* weight;
  int first = 0;
  int count = 0;
};

// Rows of one page.  Stores all inputs before any output, so out may be x.
void convolve_page(const Work& w, const SequenceRows& sequence, const PageRows& rows) {
  const int tail = w.state.layout.conv_kernel - 1;
  const RecurrentPage page = recurrent_page(w.state, sequence.slot, rows.page);
  const auto stored = [&](int row) { return page.conv_row(row) + w.first; };
  if (rows.page == 0 && rows.slot == 0)
    for (int j = 0; j < tail; ++j) std::fill_n(stored(j), w.count, 0.0f);
  for (int r = 0; r < rows.count; ++r)
    std::copy_n(host_row(w.x, rows.first + r) + w.first, w.count,
                stored(tail + rows.slot + r));
  const size_t step = size_t(w.state.layout.channels());
  for (int r = 0; r < rows.count; ++r) {
    float* out = host_row(w.out, rows.first + r) + w.first;
    w.kernels.short_conv(stored(rows.slot + r), step, w.weight, tail + 1, w.count, out);
    w.kernels.activate(out, w.count, Activation::silu);
  }
  if (!rows.fill_page()) return;
  const RecurrentPage next = recurrent_page(w.state, sequence.slot, rows.page + 1);
  for (int j = 0; j < tail; ++j)
    std::copy_n(stored(kPageTokens + j), w.count, next.conv_row(j) + w.first);
}

}  // namespace

void CpuOps::short_conv(Rows out, Rows x, const Buffer& weight,
                        const RecurrentState& state, const Batch& batch) {
  const int channels = state.layout.channels();
  const int kernel = state.layout.conv_kernel;
  CHECK(x.n_rows == batch.n_tokens && out.n_rows == batch.n_tokens && kernel >= 1);
  CHECK(x.width == channels && out.width == channels);
  if (x.n_rows == 0) return;
  const int n_parts = (channels + kChannelsPerItem - 1) / kChannelsPerItem;
  const int n_sequences = count_sequences(batch);
  const int64_t rows_each = (x.n_rows + n_sequences - 1) / n_sequences;
  const int64_t products = kChannelsPerItem * (kernel + 4) * (rows_each + 1);
  grow_attention_scratch(size_t(kernel) * kChannelsPerItem);
  pool_.parallel_for(n_sequences * n_parts, grain_of(products), [&](WorkRange range) {
    float* turned = host<float>(scratch_[size_t(range.thread)].attention.buffer());
    for_parts(batch, range, n_parts, [&](const SequenceRows& sequence, int part) {
      const int first = part * kChannelsPerItem;
      const int count = std::min(kChannelsPerItem, channels - first);
      const float* w = host<const float>(weight) + size_t(first) * size_t(kernel);
      for (int c = 0; c < count; ++c)
        for (int j = 0; j < kernel; ++j) turned[j * count + c] = w[c * kernel + j];
      const Work work{kernels_, state, out, x, turned, first, count};
      for (int row = sequence.first; row < sequence.end;) {
        const PageRows rows = page_rows(sequence, row);
        convolve_page(work, sequence, rows);
        row += rows.count;
      }
    });
  });
}

}  // namespace ingot::cpu
