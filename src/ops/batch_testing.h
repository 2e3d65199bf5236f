// What tests of ops over pages share.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "ops/ops_testing.h"

namespace ingot {

inline KvType kv_type_named(const std::string& name) {
  return name == "f32"    ? KvType::f32
         : name == "f16"  ? KvType::f16
         : name == "bf16" ? KvType::bf16
                          : KvType::q8;
}

inline std::vector<int32_t> counting_from(int first, int count) {
  std::vector<int32_t> numbers(size_t(count), 0);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// A batch's inputs in the backend's memory.
struct TestBatch {
  TestBatch(Ops& ops, const std::vector<int32_t>& positions,
            const std::vector<int32_t>& sequences, const std::vector<int32_t>& tables,
            int max_pages)
      : positions_memory(upload(ops, positions)),
        sequences_memory(upload(ops, sequences)),
        tables_memory(upload(ops, tables)) {
    batch.n_tokens = int(positions.size());
    batch.max_pages = max_pages;
    batch.positions = positions_memory.buffer();
    batch.sequences = sequences_memory.buffer();
    batch.page_tables = tables_memory.buffer();
  }
  // Rows [first, first + count) of the only sequence.
  TestBatch(Ops& ops, int first, int count, const std::vector<int32_t>& table)
      : TestBatch(ops, counting_from(first, count),
                  std::vector<int32_t>(size_t(count), 0), table, int(table.size())) {}
  Memory positions_memory, sequences_memory, tables_memory;
  Batch batch;
};

// Pages of one sequence of `length` tokens, in random order.
inline std::vector<int32_t> shuffled_pages(int length, Random& random) {
  std::vector<int32_t> table = counting_from(0, (length + kPageTokens - 1) / kPageTokens);
  for (int i = int(table.size()) - 1; i > 0; --i)
    std::swap(table[size_t(i)], table[size_t(random.below(i + 1))]);
  return table;
}

}  // namespace ingot
