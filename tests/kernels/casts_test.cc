#include "kernels/casts.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/levels.h"
#include "kernels/reference.h"

namespace lockstep::kernels {
namespace {

using Casts = AtEveryLevel;
INSTANTIATE_TEST_SUITE_P(Levels, Casts, testing::ValuesIn(compiled_levels()), level_name);

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> halves(1 << 16);
  std::iota(halves.begin(), halves.end(), 0);
  return halves;
}

bool is_nan(HalfType type, uint16_t half) {
  const uint16_t infinity = type == HalfType::bf16 ? 0x7F80 : 0x7C00;
  return (half & 0x7FFF) > infinity;
}

constexpr std::array kTypes{HalfType::bf16, HalfType::fp16};

TEST_P(Casts, EveryHalfWidensExactlyAndComesBack) {
  const std::vector<uint16_t> halves = all_halves();
  for (const HalfType type : kTypes) {
    std::vector<float> wide(halves.size());
    std::vector<float> expected = wide;
    std::vector<uint16_t> back(halves.size());
    widen(type, halves.data(), wide.data(), std::ssize(wide));
    reference::widen(type, halves.data(), expected.data(), std::ssize(wide));
    narrow(type, wide.data(), back.data(), std::ssize(wide));
    for (size_t i = 0; i < halves.size(); ++i) {
      if (is_nan(type, halves[i])) {
        ASSERT_TRUE(std::isnan(wide[i]) && is_nan(type, back[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(expected[i])) << i;
        ASSERT_EQ(back[i], halves[i]) << i;
      }
    }
  }
}

// Between each two neighbours: just below the middle, the middle, just above.
TEST_P(Casts, RoundsToNearestTiesToEven) {
  for (const HalfType type : kTypes) {
    const uint16_t largest = type == HalfType::bf16 ? 0x7F7F : 0x7BFF;
    std::vector<float> values;
    std::vector<uint16_t> expected;
    for (uint16_t half = 0; half < largest; ++half) {
      const std::array<uint16_t, 2> pair{half, static_cast<uint16_t>(half + 1)};
      std::array<float, 2> wide{};
      reference::widen(type, pair.data(), wide.data(), 2);
      const auto middle = static_cast<float>((static_cast<double>(wide[0]) + static_cast<double>(wide[1])) / 2);
      for (const float value : {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, INFINITY)}) {
        const uint16_t to = value < middle ? pair[0] : value > middle ? pair[1] : half % 2 == 0 ? pair[0] : pair[1];
        values.push_back(value);
        expected.push_back(to);
        values.push_back(-value);
        expected.push_back(static_cast<uint16_t>(to | 0x8000));
      }
    }
    std::vector<uint16_t> found(values.size());
    narrow(type, values.data(), found.data(), std::ssize(values));
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(found[i], expected[i]) << values[i];
  }
}

TEST_P(Casts, BeyondTheLargestIsInfinityAndNanStaysNan) {
  const std::vector<float> values{65519.9F, 65520.0F, 1e38F, 3.4e38F, INFINITY, -INFINITY, NAN, -NAN};
  std::vector<uint16_t> found(values.size());
  narrow(HalfType::fp16, values.data(), found.data(), std::ssize(values));
  EXPECT_EQ(std::vector<uint16_t>(found.begin(), found.begin() + 6),
            (std::vector<uint16_t>{0x7BFF, 0x7C00, 0x7C00, 0x7C00, 0x7C00, 0xFC00}));
  EXPECT_TRUE(is_nan(HalfType::fp16, found[6]) && is_nan(HalfType::fp16, found[7]));
  narrow(HalfType::bf16, values.data(), found.data(), std::ssize(values));
  EXPECT_EQ(found[3], 0x7F80);
  EXPECT_EQ(found[4], 0x7F80);
  EXPECT_TRUE(is_nan(HalfType::bf16, found[6]) && is_nan(HalfType::bf16, found[7]));
}

TEST_P(Casts, TailsAreLikeBodies) {
  for (const HalfType type : kTypes) {
    for (const int64_t numel : {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 1003}) {
      const std::vector<float> values = random_values(numel, 7);
      std::vector<uint16_t> found(static_cast<size_t>(numel) + 1, 0xABCD);
      std::vector<uint16_t> expected = found;
      narrow(type, values.data(), found.data(), numel);
      reference::narrow(type, values.data(), expected.data(), numel);
      EXPECT_EQ(found, expected) << numel;
      std::vector<float> wide(static_cast<size_t>(numel) + 1, 42);
      std::vector<float> expected_wide = wide;
      widen(type, found.data(), wide.data(), numel);
      reference::widen(type, found.data(), expected_wide.data(), numel);
      EXPECT_EQ(wide, expected_wide) << numel;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
