#include "kernels/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/levels.h"
#include "kernels/reference.h"
#include "kernels/simd.h"

namespace lockstep::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Sums = AtEveryLevel;
INSTANTIATE_TEST_SUITE_P(Levels, Sums, testing::ValuesIn(compiled_levels()), level_name);

TEST_P(Sums, LevelIsTheOneAskedFor) { EXPECT_STREQ(simd_level(), hwy::TargetName(GetParam())); }

TEST_P(Sums, MeanIsTheRankOrderSumForAnyLengthAndWorld) {
  for (const size_t world : {1, 2, 3, 4, 7}) {
    for (const int64_t numel : {0, 1, 3, 16, 31, 64, 129, 1000}) {
      std::vector<std::vector<float>> values;
      std::vector<const float*> pointers;
      for (size_t rank = 0; rank < world; ++rank) {
        values.push_back(random_values(numel, static_cast<uint32_t>(rank + 10)));
        pointers.push_back(values.back().data());
      }
      std::vector<uint8_t> flags(world);
      std::vector<float> mean(static_cast<size_t>(numel));
      std::vector<float> expected = mean;
      EXPECT_TRUE(sum_mean(pointers, numel, mean.data(), flags));
      reference::sum_mean(pointers, numel, expected.data(), flags);
      EXPECT_TRUE(same_bits(mean, expected)) << world << " ranks, " << numel;
      EXPECT_THAT(flags, testing::Each(0));

      EXPECT_TRUE(sum_mean(pointers, numel, values.back().data(), flags));  // in place
      EXPECT_TRUE(same_bits(values.back(), expected)) << world << " ranks, " << numel;
    }
  }
}

TEST_P(Sums, MeanNamesWhoeverIsNotFinite) {
  constexpr int64_t kNumel = 203;
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (int64_t position = 0; position < kNumel; ++position) {
      std::vector<std::vector<float>> values(3, std::vector<float>(kNumel, 1.0F));
      values[1][static_cast<size_t>(position)] = bad;
      const std::vector<const float*> pointers{values[0].data(), values[1].data(), values[2].data()};
      std::vector<uint8_t> flags(3);
      EXPECT_FALSE(sum_mean(pointers, kNumel, values[1].data(), flags));
      EXPECT_THAT(flags, testing::ElementsAre(0, 1, 0));
    }
  }
}

TEST_P(Sums, AFiniteSumThatOverflowsIsNobodysFault) {
  std::vector<float> large(100, std::numeric_limits<float>::max());
  const std::vector<const float*> pointers{large.data(), large.data()};
  std::vector<float> mean(100);
  std::vector<uint8_t> flags(2);
  EXPECT_FALSE(sum_mean(pointers, 100, mean.data(), flags));
  EXPECT_THAT(flags, testing::Each(0));
}

TEST_P(Sums, OppositeInfinitiesAreBothNamed) {
  const std::vector<float> a(40, kInfinity);
  const std::vector<float> b(40, -kInfinity);
  const std::vector<const float*> pointers{a.data(), b.data()};
  std::vector<float> mean(40);
  std::vector<uint8_t> flags(2);
  EXPECT_FALSE(sum_mean(pointers, 40, mean.data(), flags));
  EXPECT_THAT(flags, testing::Each(1));
}

TEST_P(Sums, SquaresAreEqualBitsToTheReferenceAndForEveryCut) {
  for (const int64_t numel : {0, 1, 63, 64, 65, 640, 1000}) {
    const auto values = random_values(numel, 3, 100.0F);
    ExactSum expected;
    reference::add_squares(values.data(), numel, expected);
    for (int64_t cut = 0; cut <= numel; cut += kBlockNumel) {
      ExactSum first;
      ExactSum second;
      EXPECT_TRUE(add_squares(values.data(), cut, first));
      EXPECT_TRUE(add_squares(values.data() + cut, numel - cut, second));
      first.add(second);
      EXPECT_TRUE(first == expected) << numel << " cut at " << cut;
    }
    double plain = 0;
    for (const float value : values) plain += static_cast<double>(value) * value;
    EXPECT_NEAR(expected.rounded(), plain, 1e-12 * plain);
  }
}

TEST_P(Sums, SquaresHoldTheExtremesOfFp32) {
  for (const float value : {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    const std::vector<float> values(64, value);
    ExactSum sum;
    EXPECT_TRUE(add_squares(values.data(), 64, sum));
    EXPECT_EQ(sum.rounded(), 64 * static_cast<double>(value) * value);
  }
}

TEST_P(Sums, SquaresAndChecksFindEveryNonFiniteValue) {
  constexpr int64_t kNumel = 201;
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (size_t position = 0; position < kNumel; ++position) {
      std::vector<float> values(kNumel, 1.0F);
      values[position] = bad;
      ExactSum sum;
      EXPECT_FALSE(add_squares(values.data(), kNumel, sum));
      EXPECT_FALSE(all_finite(values.data(), kNumel));
    }
  }
  const std::vector<float> large(kNumel, -std::numeric_limits<float>::max());
  EXPECT_TRUE(all_finite(large.data(), kNumel));
}

TEST_P(Sums, AccumulateScaleAndCopy) {
  for (const int64_t numel : {0, 1, 15, 16, 100}) {
    const auto from = random_values(numel, 5);
    auto to = random_values(numel, 6);
    auto expected = to;
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = (expected[i] + from[i]) * 0.3F;
    accumulate(to.data(), from.data(), numel);
    scale(to.data(), 0.3F, numel);
    EXPECT_TRUE(same_bits(to, expected));
    copy(to.data(), from.data(), numel);
    EXPECT_TRUE(same_bits(to, from));
  }
}

}  // namespace
}  // namespace lockstep::kernels
