// What a file is, by content and never by extension (formats.md 0.2).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace ingot {

// Words for a file that is no model of ours although it was offered as one: "a zip
// archive (a PyTorch checkpoint?), which is never unpickled".  Nothing when it is
// unknown.
std::optional<std::string> foreign_format(std::span<const std::byte> file);

bool looks_like_gguf(std::span<const std::byte> file);         // the four magic bytes
bool looks_like_safetensors(std::span<const std::byte> file);  // plausible length and '{'

}  // namespace ingot
