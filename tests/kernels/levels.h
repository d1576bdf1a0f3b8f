#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd.h"

namespace lockstep::kernels {

/// Runs a test at every SIMD level that this host has.
class AtEveryLevel : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline std::vector<int64_t> compiled_levels() {
  std::vector<int64_t> levels;
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const int64_t level = rest & -rest;
    hwy::SetSupportedTargetsForTest(level);
    if (std::string(simd_level()) == hwy::TargetName(level)) levels.push_back(level);
  }
  hwy::SetSupportedTargetsForTest(0);
  return levels;
}

inline std::string level_name(const testing::TestParamInfo<int64_t>& info) { return hwy::TargetName(info.param); }

/// Normal numbers, the same for the same seed.
inline std::vector<float> random_values(int64_t numel, uint32_t seed, float deviation = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(static_cast<size_t>(numel));
  for (float& value : values) value = normal(engine);
  return values;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline void expect_near_all(const std::vector<float>& actual, const std::vector<float>& expected, double relative,
                            double absolute) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], absolute + relative * std::abs(expected[i])) << "element " << i;
  }
}

}  // namespace lockstep::kernels
