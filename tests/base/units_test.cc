#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

#include "lockstep/error.h"

namespace lockstep::base {
namespace {

TEST(UnitsTest, BytesReadAsPeopleWriteThem) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1023), "1023 bytes");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 30), "3.00 GiB");
  EXPECT_EQ(parse_bytes("1073741824"), int64_t{1} << 30);
  EXPECT_EQ(parse_bytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2GB"), 2000000000);
  for (const char* bad : {"", "GiB", "-1", "1.5.2", "10 parsecs", "1e30"})
    EXPECT_THROW(parse_bytes(bad), ConfigError) << bad;
}

TEST(UnitsTest, CountsAndDurations) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(7.2), "7s");
  EXPECT_EQ(format_duration(3725), "1h02m");
}

TEST(UnitsTest, ShortestReadsBack) {
  EXPECT_EQ(shortest(0.1F), "0.1");
  EXPECT_EQ(shortest(1e-5), "1e-05");
  EXPECT_EQ(std::stod(shortest(5.5227696895599365)), 5.5227696895599365);
  EXPECT_EQ(shortest(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(shortest(std::numeric_limits<float>::infinity()), "null");
}

TEST(UnitsTest, RoundUp) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
}

}  // namespace
}  // namespace lockstep::base
