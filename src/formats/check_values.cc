#include "formats/check_values.h"

#include "base/error.h"
#include "formats/quote.h"
#include "tensor/finite.h"

namespace ingot {

void check_values(std::string_view name, const StoredTensor& tensor) {
  const std::optional<int64_t> bad =
      first_non_finite(tensor.view.dtype, tensor.view.bytes);
  if (!bad) return;
  fail("{}: tensor {}: {} {} is not finite (GG-22)",
       tensor.file != nullptr ? printable(tensor.file->path()) : "checkpoint",
       in_quotes(name), is_quantised(tensor.view.dtype) ? "the scale of value" : "value",
       *bad);
}

}  // namespace ingot
