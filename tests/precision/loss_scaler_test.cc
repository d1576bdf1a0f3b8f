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
    scaler.update(step == 'o');
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
  EXPECT_THROW(scaler.update(true), DivergedError);
  EXPECT_EQ(scaler.state(), before);
}

TEST(LossScaler, AFixedScaleNeverMoves) {
  LossScaler scaler({.dynamic = false, .scale = 128});
  EXPECT_THAT(scales_after(scaler, "ococcccc"), testing::Each(128));
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
