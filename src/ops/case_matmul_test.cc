// matmul and embed against the reference's float64 cases, on every table.
#include <gtest/gtest.h>

#include "ops/case_file.h"

namespace ingot {
namespace {

DType type_named(const std::string& wanted) {
  for (int i = 0; i < int(DType::count_); ++i)
    if (name(DType(i)) == wanted) return DType(i);
  ADD_FAILURE() << "no type is named " << wanted;
  return DType::f32;
}

DType scale_type(const Case& c) {
  const std::string stored = c.stored_type("w_scales");
  return stored == "F16" ? DType::f16 : stored == "F32" ? DType::f32 : DType::u8;
}

AffineMode mode_of(const std::string& dtype) {
  return dtype == "mlx_mxfp4"   ? AffineMode::mxfp4
         : dtype == "mlx_mxfp8" ? AffineMode::mxfp8
         : dtype == "mlx_nvfp4" ? AffineMode::nvfp4
                                : AffineMode::affine;
}

std::unique_ptr<Weight> pack(Ops& ops, const Case& c) {
  WeightRows part;
  part.n_rows = c.param<int>("n_rows");
  part.n_cols = c.param<int>("n_cols");
  const auto dtype = c.param<std::string>("dtype");
  const std::span<const std::byte> w = c.bytes("w");
  if (c.has("w_scales")) {
    part.affine = AffineMatrix{.mode = mode_of(dtype),
                               .bits = c.param<int>("bits"),
                               .group_size = c.param<int>("group_size"),
                               .n_rows = part.n_rows,
                               .n_cols = part.n_cols,
                               .scale_dtype = scale_type(c),
                               .codes = w,
                               .scales = c.bytes("w_scales"),
                               .biases = {}};
    if (c.has("w_biases")) part.affine->biases = c.bytes("w_biases");
  } else {
    part.dtype = type_named(dtype);
    const size_t row = row_bytes(part.dtype, uint64_t(part.n_cols)).value();
    part.row = [w, row](int r) { return w.data() + size_t(r) * row; };
  }
  return ops.pack({&part, 1});
}

class CaseMatmul : public OnEveryTable {
 protected:
  // Float32 sums of n terms in any order err by at most n * 2^-24 of their magnitudes;
  // int8 activations add the roundings of two scales a group of 16.
  void expect_sums(const std::vector<float>& found, const std::vector<float>& wanted,
                   const std::vector<float>& terms, int n_cols) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], (n_cols + 8) * 0x1p-24 * double(terms[i]) + 1e-37)
          << "[" << i << "]";
  }
};

TEST_P(CaseMatmul, Matmul) {
  const std::unique_ptr<Ops> backends[] = {make_ops(GetParam(), 2, ActMode::automatic),
                                           make_ops(GetParam(), 2, ActMode::f32)};
  INGOT_FOR_CASES("matmul", c) {
    for (const auto& backend : backends) {
      const auto weight = pack(*backend, c);
      TestRows x(*backend, c.dim("x", 0), c.dim("x", 1), c.floats("x"));
      TestRows out(*backend, x.rows.n_rows, weight->n_rows);
      Memory bias;
      if (c.has("bias")) bias = upload(*backend, c.floats("bias"));
      backend->matmul(out.rows, x.rows, *weight, bias.buffer());
      // E4M3 weights are no integers: they meet float32 activations in both modes.
      const bool int8 = backend->act_mode() == ActMode::automatic && c.has("out_auto") &&
                        c.param<std::string>("dtype") != "mlx_mxfp8";
      expect_sums(out.values(), c.floats(int8 ? "out_auto" : "out_f32"),
                  c.floats(int8 ? "terms_auto" : "terms_f32"), weight->n_cols);
    }
  }
}

TEST_P(CaseMatmul, Embed) {
  INGOT_FOR_CASES("embed", c) {
    const auto table = pack(*ops, c);
    const Memory tokens = upload(*ops, c.values<int32_t>("tokens"));
    TestRows out(*ops, c.dim("out", 0), c.dim("out", 1));
    Batch batch;
    batch.n_tokens = out.rows.n_rows;
    batch.tokens = tokens.buffer();
    ops->embed(out.rows, *table, batch, float(c.param<double>("scale")));
    const std::vector<float> found = out.values(), wanted = c.floats("out");
    for (size_t i = 0; i < found.size(); ++i) {
      // Two roundings where there is an offset to cancel, else of the product with scale.
      const double slack = 4 * 0x1p-24 * (std::fabs(double(wanted[i])) + 1.0);
      ASSERT_NEAR(found[i], wanted[i], c.has("w_biases") ? 64 * slack : slack);
    }
  }
}

INGOT_ON_EVERY_TABLE(CaseMatmul);

}  // namespace
}  // namespace ingot
