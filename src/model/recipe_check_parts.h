// The checks of a recipe's parts; recipe_check.cc puts them together.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "model/recipe.h"

namespace ingot {

// Every method throws at a field that does not fit.  `path` is that of the part.
struct Checker {
  const Recipe& recipe;
  const std::string& where;

  template <typename Found>
  [[noreturn]] void refuse(const std::string& path, const Found& found,
                           const std::string& wanted) const {
    fail("{}field '{}' is {}, wanted {}", where, path, found, wanted);
  }
  [[noreturn]] void missing(const std::string& path) const {
    fail("{}field '{}' is missing", where, path);
  }
  // `what` says what is counted, and why so many.
  void equal(const std::string& path, int64_t found, int64_t wanted,
             const std::string& what = {}) const;
  // A width of activations, which is counted in int.
  int width(const std::string& path, int64_t value) const;
  // An index into the ropes whose rotation fits into `dims`.
  void rope(const std::string& path, int rope, int dims) const;

  void matrix(const std::string& path, const MatrixSource& m, int n_rows,
              int n_cols) const;
  void vector(const std::string& path, const VectorSource& v, int n) const;
  void linear(const std::string& path, const LinearRecipe& linear, int n_rows,
              int n_cols) const;
  void norm(const std::string& path, const NormRecipe& norm, int width) const;
  void norm(const std::string& path, const std::optional<NormRecipe>& norm,
            int width) const;
  // A norm of each head, which has the one kind.
  void rms_norm(const std::string& path, const NormRecipe& norm, int width) const;

 private:
  void order(const std::string& path, const RowOrder& order, int n_rows,
             int stored_rows) const;
  void slice(const std::string& path, int slice, int n_slices) const;
};

void check_mixer(const Checker& check, const std::string& path, const AttentionRecipe& a);
void check_mixer(const Checker& check, const std::string& path,
                 const LatentAttentionRecipe& a);
void check_mixer(const Checker& check, const std::string& path,
                 const GatedDeltaRecipe& d);
void check_ffn(const Checker& check, const std::string& path, const MlpRecipe& m);
void check_ffn(const Checker& check, const std::string& path, const ExpertsRecipe& e);

}  // namespace ingot
