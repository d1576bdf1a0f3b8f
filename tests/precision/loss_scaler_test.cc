#include "precision/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::precision {
namespace {

LossScalerOptions golden(double scale) { return {.dynamic = true, .scale = scale, .window = 3, .hysteresis = 2}; }

// 'o' is a step that overflows, 'c' a clean one.
std::vector<double> scales_after(LossScaler& scaler, std::string_view steps) {
  std::vector<double> scales;
  for (const char step : steps) {
    if (step == 'o')
      (void)scaler.overflowed({.step = 3, .rank = 1, .overflow = true, .tensor = "gradient of a"});
    else
      scaler.applied();
    scales.push_back(scaler.scale());
  }
  return scales;
}

TEST(LossScaler, GrowsFirstAfterWindowPlusOneCleanSteps) {
  LossScaler scaler(golden(16));
  EXPECT_THAT(scales_after(scaler, "ccccccccc"), testing::ElementsAre(16, 16, 16, 32, 32, 32, 64, 64, 64));
}

TEST(LossScaler, ToleratesHalvesAndRefillsOnGrowth) {
  LossScaler scaler(golden(16));
  EXPECT_THAT(scales_after(scaler, "ooocccccoo"), testing::ElementsAre(16, 8, 4, 4, 4, 4, 8, 8, 8, 4));
}

TEST(LossScaler, ConsecutiveHysteresisRefillsOnAnyCleanStep) {
  LossScalerOptions options = golden(16);
  options.consecutive_hysteresis = true;
  LossScaler scaler(options);
  EXPECT_THAT(scales_after(scaler, "ococoo"), testing::ElementsAre(16, 16, 16, 16, 16, 8));
}

TEST(LossScaler, EndsTrainingAtTheFloor) {
  LossScalerOptions options = golden(4);
  options.hysteresis = 1;
  LossScaler scaler(options);
  EXPECT_THAT(scales_after(scaler, "oo"), testing::ElementsAre(2, 1));
  const LossScalerState before = scaler.state();
  try {
    (void)scaler.overflowed({.step = 3, .rank = 1, .overflow = true, .tensor = "gradient of a"});
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("step 3: infinity or NaN in gradient of a on rank 1: overflow at the "
                                                 "smallest loss scale, 1 (min_loss_scale)"));
  }
  EXPECT_EQ(scaler.state(), before);
}

TEST(LossScaler, SaysWhatBecameOfTheScale) {
  LossScaler scaler(golden(16));
  const NonFinite found{.step = 7, .rank = 0, .overflow = true, .tensor = "gradient of a"};
  EXPECT_EQ(
      scaler.overflowed(found),
      "step 7: infinity or NaN in gradient of a on rank 0; the step is skipped on all ranks, the loss scale stays "
      "16");
  EXPECT_THAT(scaler.overflowed(found), testing::EndsWith("the loss scale falls to 8"));
}

TEST(LossScaler, AFixedScaleNeverMoves) {
  LossScaler scaler({.dynamic = false, .scale = 128});
  EXPECT_THAT(scales_after(scaler, "cccccccc"), testing::Each(128));
  scaler.restore({.scale = 4});
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, ResumesWhereItWas) {
  LossScaler whole(golden(16));
  LossScaler first(golden(16));
  LossScaler second(golden(16));
  scales_after(whole, "ooccoccccc");
  scales_after(first, "ooccoc");
  second.restore(first.state());
  scales_after(second, "cccc");
  EXPECT_EQ(second.state(), whole.state());
}

TEST(LossScaler, ListsEveryValueOutOfRange) {
  try {
    LossScaler({.dynamic = true, .scale = 0, .window = 0, .hysteresis = 0, .min_scale = 0});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 4U);
  }
}

}  // namespace
}  // namespace lockstep::precision
