// Writes a GGUF file (version 3, formats.md 2.1) tensor by tensor: nothing but the header
// is held in memory, and the file appears under its name at commit() or not at all.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/checkpoint.h"

namespace ingot {

struct GgufWriteEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;  // row-major; a row is whole groups of the type
};

// Bytes of the whole file.  Throws Error as the writer does.
uint64_t gguf_file_bytes(const std::filesystem::path& path, const Metadata& metadata,
                         const std::vector<GgufWriteEntry>& entries);

class GgufWriter {
 public:
  // Integers are written in 32 bits where they fit, and floats as float32: what llama.cpp
  // reads.  Throws Error naming the file and the tensor when a type has no place in GGUF,
  // a row is no multiple of its group, or a name is too long or there twice.
  GgufWriter(std::filesystem::path path, const Metadata& metadata,
             std::vector<GgufWriteEntry> entries);

  // The next bytes of the tensors, in the order of the entries; padding is added.  A call
  // must not pass the end of a tensor.
  void write(std::span<const std::byte> bytes);
  // Requires: every tensor is written.
  void commit();

 private:
  AtomicFile file_;
  std::vector<GgufWriteEntry> entries_;
  size_t entry_ = 0;          // the one that the next byte belongs to
  uint64_t entry_bytes_ = 0;  // of it, written
};

}  // namespace ingot
