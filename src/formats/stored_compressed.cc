// compressed-tensors' integer formats: pack-quantized and int-quantized (formats.md 5.4).
// Its float formats are read by stored_fp8.cc.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/quote.h"
#include "formats/stored_schemes.h"
#include "tensor/dequantize.h"

namespace ingot {

void find_compressed_tensors(const Checkpoint& checkpoint, const QuantConfig& config,
                             StoredWeights& out) {
  (void)checkpoint, (void)config, (void)out;
}

}  // namespace ingot
