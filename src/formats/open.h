// The ways to open a checkpoint, behind open_checkpoint.
#pragma once

#include <memory>
#include <string>

#include "formats/checkpoint.h"

namespace ingot {

// A GGUF file, and the other parts when it is the first of a split one.
Checkpoint open_gguf(std::unique_ptr<MappedFile> first);
// config.json and the tensors of model.safetensors.index.json or model.safetensors.
Checkpoint open_safetensors_directory(const std::filesystem::path& directory);
// One safetensors file by its own name, with the config.json beside it.
Checkpoint open_safetensors_file(std::unique_ptr<MappedFile> file);

// Throws Error naming both files and the rule when the name is there already.
void add_tensor(Checkpoint& checkpoint, std::string name, TensorView view,
                const MappedFile& file, std::string_view rule);

}  // namespace ingot
