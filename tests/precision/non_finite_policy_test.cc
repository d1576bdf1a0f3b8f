#include "precision/non_finite_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep::precision {
namespace {

using testing::HasSubstr;

TEST(NonFinitePolicy, SaysWhichStepRankAndTensor) {
  NonFinitePolicy policy(20);
  const std::string line = policy.skipped({.step = 7, .rank = 3, .tensor = "gradient of wte"});
  EXPECT_THAT(line, HasSubstr("step 7"));
  EXPECT_THAT(line, HasSubstr("rank 3"));
  EXPECT_THAT(line, HasSubstr("gradient of wte"));
  EXPECT_THAT(policy.skipped({.step = 8}), testing::Not(HasSubstr(" on rank ")));
}

TEST(NonFinitePolicy, EndsTrainingAtTheLimitInARow) {
  NonFinitePolicy policy(3);
  policy.skipped({.step = 1});
  policy.skipped({.step = 2});
  policy.applied();
  policy.skipped({.step = 4});
  policy.skipped({.step = 5});
  EXPECT_EQ(policy.skipped_in_a_row(), 2);
  try {
    policy.skipped({.step = 6, .rank = 0, .tensor = "loss"});
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 6"));
    EXPECT_THAT(error.what(), HasSubstr("3 steps in a row"));
    EXPECT_THAT(error.what(), HasSubstr("max_skipped_steps"));
  }
}

TEST(NonFinitePolicy, ZeroMeansNoLimit) {
  NonFinitePolicy policy(0);
  for (int step = 1; step <= 100; ++step) EXPECT_NO_THROW(policy.skipped({.step = step}));
}

TEST(NonFinitePolicy, GoesOnCountingAfterAResume) {
  NonFinitePolicy policy(3);
  policy.restore(2);
  EXPECT_THROW(policy.skipped({.step = 9}), DivergedError);
}

}  // namespace
}  // namespace lockstep::precision
