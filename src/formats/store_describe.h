// What a checkpoint is, for the store's list.
#pragma once

#include <filesystem>

#include "formats/store.h"

namespace ingot {

// Opens the checkpoint at `path`, so that nothing unreadable enters the store, and fills
// in entry.format and entry.quant.  Throws open_checkpoint's Error.
void describe_checkpoint(const std::filesystem::path& path, StoreEntry& entry);

}  // namespace ingot
