// The schemes behind StoredQuantization: each finds its weights by name and shape, and
// adds them.  Internal to formats/stored_*.cc.
#pragma once

#include "formats/quant_method.h"
#include "formats/stored_quant.h"

namespace ingot {

void find_mlx(const Checkpoint& checkpoint, StoredWeights& out);
void find_fp8(const Checkpoint& checkpoint, const QuantConfig& config,
              StoredWeights& out);
void find_gptq_and_awq(const Checkpoint& checkpoint, const QuantConfig& config,
                       StoredWeights& out);
void find_mxfp4(const Checkpoint& checkpoint, StoredWeights& out);
void find_compressed_tensors(const Checkpoint& checkpoint, const QuantConfig& config,
                             StoredWeights& out);

// ---- What they share ----------------------------------------------------------------

// "FILE: tensor 'NAME'", to begin a message with.
std::string tensor_place(const Checkpoint& checkpoint, const std::string& tensor);

// The companion `name` of `of`; throws Error (QC-1) when it is missing.
const TensorView& require_companion(const Checkpoint& checkpoint, const std::string& name,
                                    const std::string& of);
// The view of a tensor, or nullptr.
const TensorView* view_of(const Checkpoint& checkpoint, const std::string& name);

// Throws Error (QC-2) unless the tensor has the type and shape.
void check_type(const Checkpoint& checkpoint, const std::string& tensor,
                std::initializer_list<DType> wanted);
void check_shape(const Checkpoint& checkpoint, const std::string& tensor,
                 const Shape& wanted, std::string_view why);

// Throws Error (QC-6) where value i of the tensor is not finite.
void check_scale(const Checkpoint& checkpoint, const std::string& tensor, size_t i,
                 float value);

// Throws Error (QC-2) when a dimension is 0, so that products of the others fit.
void check_not_empty(const Checkpoint& checkpoint, const std::string& tensor);

// The number as int; throws Error when a dimension or product passes 2^31 - 1.
int checked_dimension(const Checkpoint& checkpoint, const std::string& tensor, int64_t n);

// "P" of "P.SUFFIX" when the name ends so.
std::optional<std::string> stem_of(const std::string& name, std::string_view suffix);

// Adds the names of activation and cache scales beside module P, which the arithmetic
// here does not use (input_scale, k_scale ...).
void add_unused_scales(const Checkpoint& checkpoint, const std::string& module,
                       std::vector<std::string>& tensors);

// Rows `rows` of a matrix: a view of the same bytes where they stand together, else
// copies.  Requires: no group_of_column.
StoredMatrix take_rows(const AffineMatrix& all, std::span<const int> rows);

}  // namespace ingot
