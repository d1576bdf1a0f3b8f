#include "precision/clipping.h"

#include <gtest/gtest.h>

namespace lockstep::precision {
namespace {

TEST(GradientDivisor, ClipsOnlyAboveTheLimit) {
  EXPECT_DOUBLE_EQ(gradient_divisor(5, 1, 1), 5.000001);
  EXPECT_DOUBLE_EQ(gradient_divisor(5, 1, 8), 8 * 5.000001);
  EXPECT_DOUBLE_EQ(gradient_divisor(0.5, 1, 8), 8);
  EXPECT_DOUBLE_EQ(gradient_divisor(0, 1, 1), 1);
}

TEST(GradientDivisor, ZeroSwitchesClippingOff) { EXPECT_DOUBLE_EQ(gradient_divisor(5, 0, 8), 8); }

}  // namespace
}  // namespace lockstep::precision
