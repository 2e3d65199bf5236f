// Reads a tensor's values for what no computation survives.
#pragma once

#include <string_view>

#include "formats/checkpoint.h"

namespace ingot {

// Throws Error "FILE: tensor 'NAME': value I is not finite (GG-22)".  Reads every value
// (of quantised types every scale), so call it where the bytes are being read anyway.
void check_values(std::string_view name, const StoredTensor& tensor);

}  // namespace ingot
