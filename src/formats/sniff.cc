#include "formats/sniff.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ingot {
namespace {

std::string_view head_of(std::span<const std::byte> file, size_t n) {
  return {reinterpret_cast<const char*>(file.data()), std::min(file.size(), n)};
}

// Text at the start of a file, past white space and in lower case.
std::string text_head(std::string_view head) {
  const size_t start = head.find_first_not_of(" \t\r\n");
  std::string text(start == std::string_view::npos ? std::string_view()
                                                   : head.substr(start));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? char(c + 32) : char(c);
  });
  return text;
}

}  // namespace

std::optional<std::string> foreign_format(std::span<const std::byte> file) {
  const std::string_view head = head_of(file, 64);
  const std::string text = text_head(head);
  if (head.empty()) return "an empty file";
  if (text.starts_with("version https://git-lfs"))
    return "a Git-LFS pointer, not the file itself (fetch it with git lfs pull)";
  if (text.starts_with("<!doctype") || text.starts_with("<html") ||
      text.starts_with("<?xml"))
    return "a saved web page: the download failed";
  if (text.starts_with("{\"error\"")) return "a saved error message: the download failed";
  if (head.starts_with("PK\x03\x04"))
    return "a zip archive (a PyTorch checkpoint?), which is never unpickled";
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return "a Python pickle (a PyTorch checkpoint?), which is never unpickled";
  if (head.starts_with("\x93NUMPY")) return "a NumPy array";
  if (head.starts_with("FUGG")) return "a GGUF file with its magic reversed";
  for (const char* magic : {"ggml", "ggmf", "ggjt", "ggla", "lmgg", "fmgg", "tjgg"})
    if (head.starts_with(magic)) return "a ggml file from before GGUF";
  return std::nullopt;
}

bool looks_like_gguf(std::span<const std::byte> file) {
  return head_of(file, 4) == std::string_view("GGUF");
}

bool looks_like_safetensors(std::span<const std::byte> file) {
  if (file.size() < 10 || file[8] != std::byte('{')) return false;
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  return header_bytes <= file.size() - 8;
}

}  // namespace ingot
