// Writes a safetensors file tensor by tensor (formats.md 1.7: ordered, aligned,
// reproducible, atomic): nothing but the header is held in memory.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace ingot {

struct SafetensorsPlan {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t n_bytes() const;  // Requires: whole groups of the type
};

// Widest elements first, then by name: the order of the file.
void sort_for_safetensors(std::vector<SafetensorsPlan>& plans);

class SafetensorsWriter {
 public:
  // `plans` as sorted.  Throws Error naming the file and the tensor when a type has no
  // name in safetensors or a tensor is there twice.
  SafetensorsWriter(std::filesystem::path path, const std::vector<SafetensorsPlan>& plans,
                    const std::map<std::string, std::string>& metadata);
  // The next bytes of the tensors, in the order of the plans.
  void write(std::span<const std::byte> bytes);
  // Requires: every byte of every tensor is written.
  void commit();

 private:
  AtomicFile file_;
  uint64_t remaining_ = 0;
};

}  // namespace ingot
