#include "tensor/seeds.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lockstep::tensor {
namespace {

using testing::ElementsAre;

// The numbers below must never change: resumed runs and runs on other hosts draw the same.

TEST(LayerSeedTest, IsFrozen) {
  EXPECT_EQ(layer_seed({}), 0xcbd37ad29b93b094);
  EXPECT_EQ(layer_seed({.seed = 1}), 0xfc1f9d47c1a5266c);
  EXPECT_EQ(layer_seed({.step = 1}), 0x75bd1cb46e5ef9b8);
  EXPECT_EQ(layer_seed({.seed = 42, .step = 7, .micro_batch = 3, .data_rank = 2, .layer = 5, .call = 1}),
            0x7f10be82d5132368);
}

TEST(LayerSeedTest, DependsOnEveryPart) {
  EXPECT_NE(layer_seed({.step = 1}), layer_seed({.micro_batch = 1}));
  EXPECT_NE(layer_seed({.micro_batch = 1}), layer_seed({.data_rank = 1}));
  EXPECT_NE(layer_seed({.data_rank = 1}), layer_seed({.layer = 1}));
  EXPECT_NE(layer_seed({.layer = 1}), layer_seed({.call = 1}));
}

TEST(FillNormalTest, IsFrozen) {
  std::vector<float> values(8);
  fill_normal(values, 1.0, 0, "a");
  EXPECT_THAT(values,
              ElementsAre(-0.2601422369480133F, -1.4834473133087158F, 2.688849687576294F, -1.1589299440383911F,
                          0.026659872382879257F, 1.0601921081542969F, 0.20380935072898865F, 0.7535572052001953F));
  fill_normal(values, 0.02, 1, "transformer.wte.weight");
  EXPECT_THAT(values, ElementsAre(0.008191099390387535F, -0.014669149182736874F, -0.013113978318870068F,
                                  0.008238093927502632F, 0.004522798582911491F, -0.022873353213071823F,
                                  -0.03566746413707733F, -0.020322956144809723F));
}

TEST(FillNormalTest, ASliceHasTheWholesValues) {
  std::vector<float> whole(1000);
  fill_normal(whole, 0.5, 9, "w");
  std::vector<float> slice(337);
  fill_normal(slice, 0.5, 9, "w", 501);
  EXPECT_TRUE(std::equal(slice.begin(), slice.end(), whole.begin() + 501));
}

TEST(FillNormalTest, HasANormalsMomentsAndTails) {
  constexpr double kCount = 400000;
  std::vector<float> values(static_cast<size_t>(kCount));
  fill_normal(values, 2.0, 3, "w");
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, beyond = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values[i] / 2.0;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    if (i > 0) neighbours += x * values[i - 1] / 2.0;
    if (std::abs(x) > 3) ++beyond;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.006);  // About four standard errors each.
  EXPECT_NEAR(squares / kCount, 1, 0.009);
  EXPECT_NEAR(fourth / kCount, 3, 0.06);
  EXPECT_NEAR(neighbours / kCount, 0, 0.006);
  EXPECT_NEAR(beyond / kCount, 0.0027, 0.00035);
}

TEST(FillNormalTest, SeedsAndNamesGiveOtherNumbers) {
  std::vector<float> a(4), b(4), c(4);
  fill_normal(a, 1.0, 0, "x");
  fill_normal(b, 1.0, 1, "x");
  fill_normal(c, 1.0, 0, "y");
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(b, c);
}

}  // namespace
}  // namespace lockstep::tensor
