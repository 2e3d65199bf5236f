// What the tests of ops share: backends, random rows and weights, tolerances.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/ops.h"

namespace ingot {

// Every table of kernels that this machine can run; of NEON's variants the best, by the
// name that tests may bear.
inline std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const cpu::Kernels* table : cpu::kernel_tables())
    names.emplace_back(table->isa.substr(0, table->isa.find('-')));
  return names;
}

inline std::unique_ptr<Ops> make_ops(const std::string& isa, int n_threads = 1,
                                     ActMode act = ActMode::automatic) {
  return make_cpu_ops({.n_threads = n_threads, .act = act, .isa = isa});
}

// One test for every table.
class OnEveryTable : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Ops> ops = make_ops(GetParam());
};
#define INGOT_ON_EVERY_TABLE(suite)                               \
  INSTANTIATE_TEST_SUITE_P(Cpu, suite, testing::ValuesIn(isas()), \
                           [](const auto& info) { return info.param; })

// Seeded numbers that are the same on every machine (the library's distributions are
// not).
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint32_t bits() { return uint32_t(engine_() >> 32); }
  int below(int n) { return int(bits() % uint32_t(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  float uniform(float low, float high) {
    return low + (high - low) * float(bits() >> 8) * 0x1p-24f;
  }
  std::vector<float> floats(int n, float low = -1.0f, float high = 1.0f) {
    std::vector<float> values(size_t(n), 0.0f);
    for (float& v : values) v = uniform(low, high);
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

// Rows in the backend's memory, with room around the used columns that must not change.
class TestRows {
 public:
  TestRows(Ops& ops, int n_rows, int width, int padding = 3)
      : ops_(ops), stride_(width + padding) {
    memory_ = ops.allocate(size_t(n_rows + 1) * size_t(stride_) * sizeof(float));
    rows = {memory_.buffer(), n_rows, width, stride_};
    const std::vector<float> guard(size_t(n_rows + 1) * size_t(stride_), kGuard);
    ops.upload(memory_.buffer(), guard.data(), guard.size() * sizeof(float));
  }
  TestRows(Ops& ops, int n_rows, int width, const std::vector<float>& values,
           int padding = 3)
      : TestRows(ops, n_rows, width, padding) {
    std::vector<float> all = download();
    for (int t = 0; t < n_rows; ++t)
      for (int i = 0; i < width; ++i)
        all[size_t(t) * size_t(stride_) + size_t(i)] =
            values[size_t(t) * size_t(width) + size_t(i)];
    ops.upload(memory_.buffer(), all.data(), all.size() * sizeof(float));
  }
  // [n_rows * width]; fails the test when a column beyond `width` changed.
  std::vector<float> values() const {
    const std::vector<float> all = download();
    std::vector<float> used;
    for (int t = 0; t <= rows.n_rows; ++t)
      for (int i = 0; i < stride_; ++i) {
        const float v = all[size_t(t) * size_t(stride_) + size_t(i)];
        if (t < rows.n_rows && i < rows.width)
          used.push_back(v);
        else
          EXPECT_EQ(v, kGuard) << "written outside the rows: row " << t << " column "
                               << i;
      }
    return used;
  }
  Rows rows;

 private:
  static constexpr float kGuard = -12345.0f;
  std::vector<float> download() const {
    std::vector<float> all(size_t(rows.n_rows + 1) * size_t(stride_));
    ops_.download(all.data(), memory_.buffer(), all.size() * sizeof(float));
    return all;
  }
  Ops& ops_;
  int stride_;
  Memory memory_;
};

template <typename T>
Memory upload(Ops& ops, const std::vector<T>& values) {
  Memory memory = ops.allocate(values.size() * sizeof(T) + 1);
  ops.upload(memory.buffer(), values.data(), values.size() * sizeof(T));
  return memory;
}

template <typename T>
std::vector<T> download(Ops& ops, const Memory& memory, size_t n) {
  std::vector<T> values(n);
  ops.download(values.data(), memory.buffer(), n * sizeof(T));
  return values;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Distance in units of the last place of float32 at `wanted`.
inline double ulps(float found, double wanted) {
  if (std::isnan(found) || std::isnan(wanted))
    return std::isnan(found) && std::isnan(wanted) ? 0.0 : 1e30;
  const float rounded = float(wanted);
  if (std::isinf(rounded)) return found == rounded ? 0.0 : 1e30;
  const float size = std::max(std::fabs(rounded), 0x1p-126f);
  const double unit = double(std::nextafter(size, INFINITY)) - double(size);
  return std::fabs(double(found) - wanted) / unit;
}

}  // namespace ingot
