#include "kernels/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace lockstep::kernels {
namespace {

static_assert(std::is_trivially_copyable_v<ExactSum>);

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.rounded();
}

TEST(ExactSum, StartsAtZero) {
  EXPECT_EQ(ExactSum{}.rounded(), 0);
  EXPECT_EQ(sum_of({0, 0}), 0);
}

TEST(ExactSum, GivesBackASingleValue) {
  for (int exponent = -268; exponent < 320; ++exponent) {
    const double value = std::ldexp(1.0 + 0x1.23456789abcdfp-2, exponent - 1);
    EXPECT_EQ(sum_of({value}), value) << exponent;
  }
  const auto smallest = static_cast<double>(std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(sum_of({smallest * smallest}), smallest * smallest);
  const auto largest = static_cast<double>(std::numeric_limits<float>::max());
  EXPECT_EQ(sum_of({64 * largest * largest}), 64 * largest * largest);
}

TEST(ExactSum, RoundsOnceToNearestEven) {
  const double ulp = 0x1p-52;
  EXPECT_EQ(sum_of({1, ulp / 2}), 1);                          // a tie, down to even
  EXPECT_EQ(sum_of({1 + ulp, ulp / 2}), 1 + 2 * ulp);          // a tie, up to even
  EXPECT_EQ(sum_of({1, ulp / 2, 0x1p-298}), 1 + ulp);          // past the tie by the least bit of all
  EXPECT_EQ(sum_of({1, ulp / 4, ulp / 4}), 1);                 // fp64 alone would agree,
  EXPECT_EQ(sum_of({1, ulp / 2, ulp / 4, ulp / 4}), 1 + ulp);  // but not here
  EXPECT_EQ(sum_of({2 - ulp, ulp / 2}), 2);                    // rounds up to the next power
}

TEST(ExactSum, AgreesWithLongDoubleWhereThatIsExact) {
  std::mt19937_64 engine(1);
  std::uniform_int_distribution<int64_t> integers(0, int64_t{1} << 52);
  ExactSum sum;
  unsigned __int128 expected = 0;
  for (int i = 0; i < 10000; ++i) {
    const int64_t value = integers(engine);
    sum.add(static_cast<double>(value));
    expected += static_cast<unsigned __int128>(value);
  }
  EXPECT_EQ(sum.rounded(), static_cast<double>(expected));
}

TEST(ExactSum, DoesNotDependOnOrderOrOnWhoAdds) {
  std::mt19937_64 engine(2);
  std::uniform_real_distribution<double> mantissas(1, 2);
  std::uniform_int_distribution<int> exponents(-200, 250);
  std::vector<double> values(3000);
  for (double& value : values) value = std::ldexp(mantissas(engine), exponents(engine));
  ExactSum whole;
  for (const double value : values) whole.add(value);

  std::shuffle(values.begin(), values.end(), engine);
  std::vector<ExactSum> ranks(3);
  for (size_t i = 0; i < values.size(); ++i) ranks[i % 7 % 3].add(values[i]);
  ExactSum total;
  for (const ExactSum& rank : ranks) {
    ExactSum received;
    std::memcpy(static_cast<void*>(&received), &rank, sizeof rank);
    total.add(received);
  }
  EXPECT_TRUE(total == whole);
  EXPECT_EQ(total.rounded(), whole.rounded());
  total.add(1.0);
  EXPECT_FALSE(total == whole);
}

TEST(ExactSum, RefusesWhatItCannotHold) {
  ExactSum sum;
  EXPECT_THROW(sum.add(-1.0), std::logic_error);
  EXPECT_THROW(sum.add(std::numeric_limits<double>::infinity()), std::logic_error);
  EXPECT_THROW(sum.add(0x1p+330), std::logic_error);
  EXPECT_THROW(sum.add(0x1.8p-320), std::logic_error);
}

}  // namespace
}  // namespace lockstep::kernels
