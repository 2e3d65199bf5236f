#include "formats/checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "formats/open.h"
#include "formats/quote.h"
#include "formats/sniff.h"

namespace ingot {

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

const StoredTensor& Checkpoint::require(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr)
    fail("{}: tensor {} is missing, wanted by the recipe", printable(path),
         in_quotes(name));
  return *tensor;
}

std::vector<DTypeTotal> totals_by_dtype(const Checkpoint& checkpoint) {
  std::map<DType, DTypeTotal> totals;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    DTypeTotal& total = totals[tensor.view.dtype];
    total.dtype = tensor.view.dtype;
    total.n_tensors += 1;
    total.n_values += uint64_t(element_count(tensor.view.shape));
    total.n_bytes += tensor.view.bytes.size();
  }
  std::vector<DTypeTotal> sorted;
  for (const auto& [type, total] : totals) sorted.push_back(total);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.n_bytes > b.n_bytes; });
  return sorted;
}

void add_tensor(Checkpoint& checkpoint, std::string name, TensorView view,
                const MappedFile& file, std::string_view rule) {
  const auto [it, is_new] = checkpoint.tensors.try_emplace(
      std::move(name), StoredTensor{std::move(view), &file});
  if (!is_new)
    fail("{}: tensor {} is also in {} ({})", printable(file.path()), in_quotes(it->first),
         printable(it->second.file->path().filename()), rule);
}

Checkpoint open_checkpoint(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    fail("{}: no such file or directory; wanted a model directory or a .gguf file",
         printable(path));
  if (std::filesystem::is_directory(status)) return open_safetensors_directory(path);

  auto file = std::make_unique<MappedFile>(path);
  if (looks_like_gguf(file->bytes())) return open_gguf(std::move(file));
  if (looks_like_safetensors(file->bytes()))
    return open_safetensors_file(std::move(file));
  fail("{}: this is {}; wanted a GGUF file or a directory with safetensors",
       printable(path), foreign_format(file->bytes()).value_or("no model file"));
}

}  // namespace ingot
