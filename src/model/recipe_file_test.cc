#include "model/recipe_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/cost.h"
#include "model/describe.h"
#include "model/recipe_check.h"
#include "model/recipe_testing.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr uint64_t kSeeds = 300;

TEST(RecipeFile, RandomRecipesReadBackEqual) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Recipe recipe = random_recipe(seed);
    ASSERT_NO_THROW(check_recipe(recipe, "random: "));
    const Recipe again = parse_recipe(recipe_json(recipe), "recipe.json");
    ASSERT_TRUE(same_recipe(recipe, again)) << recipe_json(recipe);
    EXPECT_EQ(describe(again), describe(recipe));
  }
}

}  // namespace
}  // namespace ingot
