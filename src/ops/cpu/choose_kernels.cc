#include "base/error.h"
#include "ops/cpu/kernels.h"

namespace ingot::cpu {

const Kernels& choose_kernels(std::string_view isa) {
  if (isa == "scalar" || isa == "auto") return scalar_kernels();
  fail_usage(
      "instruction set '{}': this CPU or build has none of that name; "
      "it has auto, scalar",
      isa);
}

}  // namespace ingot::cpu
