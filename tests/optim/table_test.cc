#include "optim/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lockstep/error.h"

namespace lockstep::optim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Table, TakesAnyLetterCase) {
  for (const std::string_view name : optimizer_names()) EXPECT_NE(make_optimizer(name, {}), nullptr) << name;
  EXPECT_NE(make_optimizer("aDaMw", {}), nullptr);
}

TEST(Table, RefusesUnknownTypesByNameAndListsTheLegalOnes) {
  try {
    (void)make_optimizer("Adan", {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"Adan\""));
    EXPECT_THAT(error.what(), HasSubstr("Adam, AdamW, SGD, Adagrad, RMSprop"));
  }
}

TEST(Table, ListsEveryValueOutOfRange) {
  try {
    (void)make_optimizer("Adam", {.beta1 = 1.0, .beta2 = -0.1});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 2U);
  }
  EXPECT_THROW((void)make_optimizer("SGD", {.nesterov = true}), ConfigError);
}

TEST(Table, StatesHaveTorchsNames) {
  EXPECT_THAT(make_optimizer("Adam", {})->state_names(), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(make_optimizer("SGD", {})->state_names(), ElementsAre());
  EXPECT_THAT(make_optimizer("SGD", {.momentum = 0.9})->state_names(), ElementsAre("momentum_buffer"));
  EXPECT_THAT(make_optimizer("Adagrad", {})->state_names(), ElementsAre("sum"));
  EXPECT_THAT(make_optimizer("RMSprop", {.momentum = 0.9, .centered = true})->state_names(),
              ElementsAre("square_avg", "momentum_buffer", "grad_avg"));
}

// One element with gradient 1 and lr 1.
struct One {
  float value = 0;
  float gradient = 1;
  float first = 0;
  float second = 0;

  void update(const Optimizer& rule, const UpdateContext& context) {
    const std::array<float*, 2> states{&first, &second};
    const std::array slices{Slice{.value = &value, .gradient = &gradient, .states = states, .numel = 1}};
    rule.update(context, slices);
  }
};

TEST(Adam, TakesAScheduledMomentumAndBeta2) {
  One one;
  one.update(*make_optimizer("Adam", {}), {.lr = 1, .momentum = 0.5, .beta2 = 0.75});
  EXPECT_FLOAT_EQ(one.first, 0.5F);
  EXPECT_FLOAT_EQ(one.second, 0.25F);
  EXPECT_FLOAT_EQ(one.value, -1.0F);
}

TEST(Adam, StaysFiniteWhenAScheduledMomentumPassesOne) {
  One one;
  const auto rule = make_optimizer("Adam", {});
  for (int64_t step = 1; step <= 100; ++step) {
    one.update(*rule, {.lr = 0.1, .momentum = 1.08, .beta2 = 0.99, .applied_step = step});
  }
  EXPECT_TRUE(std::isfinite(one.value));
  EXPECT_LT(std::abs(one.value), 100.0F);
}

TEST(Adam, CorrectionCanBeSwitchedOff) {
  One one;
  one.update(*make_optimizer("Adam", {.bias_correction = false}), {.lr = 1});
  EXPECT_NEAR(one.value, -0.1 / std::sqrt(0.001), 1e-5);
}

TEST(AdamW, IsDecoupledWhateverAdamWModeSays) {
  One one{.value = 2, .gradient = 0};
  one.update(*make_optimizer("AdamW", {.adam_w_mode = false}), {.lr = 0.1, .weight_decay = 0.5});
  EXPECT_FLOAT_EQ(one.value, 2 * 0.95F);
  EXPECT_EQ(one.first, 0.0F);
}

TEST(Sgd, AScheduledMomentumActsOnlyWhereThereIsABuffer) {
  One plain;
  plain.update(*make_optimizer("SGD", {}), {.lr = 1, .momentum = 0.9, .applied_step = 2});
  EXPECT_FLOAT_EQ(plain.value, -1.0F);
  One buffered{.first = 2};
  buffered.update(*make_optimizer("SGD", {.momentum = 0.1}), {.lr = 1, .momentum = 0.5, .applied_step = 2});
  EXPECT_FLOAT_EQ(buffered.value, -2.0F);
}

}  // namespace
}  // namespace lockstep::optim
