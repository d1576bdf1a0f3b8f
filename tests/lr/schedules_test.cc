#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "lockstep/error.h"
#include "lr/table.h"

namespace lockstep::lr {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

std::vector<double> rates_from_construction(const ScheduleOptions& options, size_t count, double base_lr = 0.1) {
  const auto schedule = make_schedule(options);
  std::vector<double> rates;
  for (int64_t i = -1; rates.size() < count; ++i) rates.push_back(schedule->at(i, base_lr).lr);
  return rates;
}

void expect_rates(const ScheduleOptions& options, const std::vector<double>& expected, double tolerance,
                  double base_lr = 0.1) {
  EXPECT_THAT(rates_from_construction(options, expected.size(), base_lr), Pointwise(DoubleNear(tolerance), expected));
}

// What DeepSpeed's own schedules give, at construction and after each step.
TEST(Golden, WarmupLrLog) {
  expect_rates(WarmupLrOptions{.max_lr = PerGroup{0.001}, .num_steps = 5},
               {0, 0, .00043068, .00068261, .00086135, .001, .001}, 5e-9);
}

TEST(Golden, WarmupLrLinear) {
  expect_rates(WarmupLrOptions{.max_lr = PerGroup{0.001}, .num_steps = 5, .type = Warmup::linear},
               {0, 0, .0002, .0004, .0006, .0008, .001}, 1e-15);
}

TEST(Golden, WarmupDecayLrLinear) {
  expect_rates(WarmupDecayLrOptions{.total_num_steps = 10, .num_steps = 4, .type = Warmup::linear},
               {0, 0, .00025, .0005, .00075, .001, .00083333, .00066667, .0005, .00033333, .00016667, 0}, 5e-9);
}

TEST(Golden, WarmupCosineLrLinear) {
  expect_rates(
      WarmupCosineLrOptions{.total_num_steps = 10, .cos_min_ratio = 0.1, .num_steps = 4, .type = Warmup::linear},
      {0, 0, .025, .05, .075, .09397114, .0775, .055, .0325, .01602886, .01, .01}, 5e-9);
}

OneCycleOptions golden_cycle() {
  return {.min_lr = {0.1}, .max_lr = {0.5}, .decay_lr_rate = 0.5, .first_step_size = 4, .decay_step_size = 2};
}

TEST(Golden, OneCycleRates) {
  expect_rates(golden_cycle(), {.1, .2, .3, .4, .5, .4, .3, .2, .1, .08, .0667, .0571, .05}, 5e-5);
}

TEST(Golden, OneCycleMomentumDecay) {
  OneCycleOptions options = golden_cycle();
  options.decay_step_size = 1;
  options.decay_momentum_rate = 0.05;
  const auto schedule = make_schedule(options);
  const std::vector<double> expected{.945, .99, 1.035, 1.08};
  for (size_t k = 0; k < expected.size(); ++k) {
    EXPECT_NEAR(*schedule->at(8 + static_cast<int64_t>(k), 0.1).momentum, expected[k], 1e-12);
  }
}

TEST(OneCycle, StartsAtTheLowMomentumThenFallsFromTheHighOne) {
  const auto schedule = make_schedule(golden_cycle());
  EXPECT_DOUBLE_EQ(*schedule->at(-1, 1).momentum, 0.8);
  EXPECT_DOUBLE_EQ(*schedule->at(0, 1).momentum, 0.875);
  EXPECT_DOUBLE_EQ(*schedule->at(3, 1).momentum, 0.8);
  EXPECT_DOUBLE_EQ(*schedule->at(7, 1).momentum, 0.9);
  for (int64_t i = -1; i < 20; ++i) EXPECT_DOUBLE_EQ(*schedule->at(i, 1).beta2, 0.99);
}

TEST(OneCycle, LeavesMomentumAloneWhenItIsNotCycled) {
  OneCycleOptions options = golden_cycle();
  options.cycle_momentum = false;
  const auto rates = make_schedule(options)->at(3, 1);
  EXPECT_FALSE(rates.momentum.has_value());
  EXPECT_FALSE(rates.beta2.has_value());
}

TEST(OneCycle, StairsHoldTheRateFromTheWholeOffset) {
  OneCycleOptions options = golden_cycle();
  options.first_stair_count = 2;
  options.decay_lr_rate = 0;
  expect_rates(options, {.1, .1, .3, .3, .5, .3, .3, .1, .1, .1, .1}, 1e-12);
}

TEST(OneCycle, SecondHalfMayHaveItsOwnLength) {
  OneCycleOptions options = golden_cycle();
  options.second_step_size = 2;
  expect_rates(options, {.1, .2, .3, .4, .5, .3, .1, .08}, 1e-12);
}

TEST(OneCycle, StaysLowWithoutDecaySteps) {
  OneCycleOptions options = golden_cycle();
  options.decay_step_size = 0;
  const auto rates = make_schedule(options)->at(1000, 1);
  EXPECT_DOUBLE_EQ(rates.lr, 0.1);
  EXPECT_DOUBLE_EQ(*rates.momentum, 0.9);
}

TEST(LrRangeTest, GrowsOverIntervalsOrStairs) {
  expect_rates(LrRangeTestOptions{.min_lr = {0.01}, .step_size = 4, .step_rate = 2}, {.01, .015, .02, .025, .03, .035},
               1e-15);
  expect_rates(LrRangeTestOptions{.min_lr = {0.01}, .step_size = 2, .step_rate = 1, .staircase = true},
               {.01, .01, .02, .02, .03, .03}, 1e-15);
}

TEST(Constant, IsTheGroupsOwnRate) { expect_rates(ConstantOptions{}, {.1, .1, .1}, 0); }

TEST(WarmupLr, EndsAtTheGroupsOwnRateUnlessToldOtherwise) {
  expect_rates(WarmupLrOptions{.min_lr = {0.2}, .num_steps = 2, .type = Warmup::linear}, {.2, .2, .35, .5, .5}, 1e-15,
               0.5);
}

TEST(Groups, EachHasItsOwnValue) {
  const auto schedule =
      make_schedule(WarmupLrOptions{.min_lr = {0.1, 0.2}, .max_lr = PerGroup{1, 2}, .num_steps = 10}, 2);
  EXPECT_DOUBLE_EQ(schedule->at(-1, 9, 0).lr, 0.1);
  EXPECT_DOUBLE_EQ(schedule->at(-1, 9, 1).lr, 0.2);
  EXPECT_DOUBLE_EQ(schedule->at(50, 9, 0).lr, 1);
  EXPECT_DOUBLE_EQ(schedule->at(50, 9, 1).lr, 2);
}

// Edge positions of every schedule: around the start, the warm-up's end and the total, for lengths down to 1 and
// warm-ups as long as the total and longer.
class Edges : public testing::TestWithParam<std::tuple<int64_t, int64_t, Warmup>> {};

double warmup_factor(int64_t i, int64_t steps, Warmup type) {
  if (type == Warmup::log) return std::log1p(static_cast<double>(i)) / std::log(static_cast<double>(steps));
  return static_cast<double>(i) / static_cast<double>(steps);
}

TEST_P(Edges, ClosedFormsWithinBounds) {
  const auto [warm, total, type] = GetParam();
  const int64_t n = std::max<int64_t>(2, warm);
  const double peak = 0.3;
  const auto plain = make_schedule(WarmupLrOptions{.num_steps = warm, .type = type});
  const auto decay =
      make_schedule(WarmupDecayLrOptions{.total_num_steps = total, .max_lr = {peak}, .num_steps = warm, .type = type});
  const auto cosine = make_schedule(WarmupCosineLrOptions{.total_num_steps = total, .num_steps = warm, .type = type});
  for (const int64_t i : {int64_t{-1}, int64_t{0}, int64_t{1}, n - 1, n, n + 1, total - 1, total, total + 10}) {
    const double up = i < 0 ? 0 : i < n ? warmup_factor(i, n, type) : 1;
    EXPECT_NEAR(plain->at(i, peak).lr, peak * up, 1e-12) << i;

    const double span = static_cast<double>(std::max<int64_t>(1, total - n));
    const double down = i < n ? up : std::max(0.0, static_cast<double>(total - i) / span);
    EXPECT_NEAR(decay->at(i, 9).lr, peak * down, 1e-12) << i;

    const double progress = std::min(1.0, static_cast<double>(i - n + 1) / span);
    const double wave = i < n ? up : 1e-4 + (1 - 1e-4) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    EXPECT_NEAR(cosine->at(i, peak).lr, peak * wave, 1e-12) << i;

    for (const Schedule* schedule : {plain.get(), decay.get(), cosine.get()}) {
      EXPECT_GE(schedule->at(i, peak).lr, 0) << i;
      EXPECT_LE(schedule->at(i, peak).lr, peak) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, Edges,
                         testing::Combine(testing::Values(1, 2, 10, 100), testing::Values(1, 2, 10, 11, 100),
                                          testing::Values(Warmup::log, Warmup::linear)));

TEST(Table, MakesEverySchedule) {
  for (const std::string_view name : schedule_names()) EXPECT_NO_THROW((void)default_options(name)) << name;
  EXPECT_TRUE(std::holds_alternative<OneCycleOptions>(default_options("OneCycle")));
}

TEST(Table, NamesTheLegalTypes) {
  try {
    (void)default_options("warmuplr");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("\"warmuplr\""));
    EXPECT_THAT(error.what(), testing::HasSubstr("WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest, OneCycle"));
  }
}

TEST(Table, ListsEveryValueOutOfRange) {
  try {
    (void)make_schedule(WarmupDecayLrOptions{.min_lr = {0.1, 0.2}, .num_steps = 0}, 3);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 3U);
    EXPECT_THAT(error.what(), testing::HasSubstr("warmup_min_lr: 2 values for 3 parameter groups"));
    EXPECT_THAT(error.what(), testing::HasSubstr("warmup_num_steps"));
    EXPECT_THAT(error.what(), testing::HasSubstr("total_num_steps"));
  }
  EXPECT_THROW((void)make_schedule(OneCycleOptions{}), ConfigError);
}

}  // namespace
}  // namespace lockstep::lr
