#include "monitor/memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::monitor {
namespace {

TEST(MemoryTest, PeakHoldsWhatWasFreed) {
  constexpr int64_t kBytes = 64 << 20;
  constexpr int64_t kCounterSlack = 1 << 20;  // The kernel adds pages to its counters in batches.
  const int64_t before = peak_rss_bytes();
  int64_t held = 0;
  {
    const std::vector<char> touched(kBytes, 1);
    held = rss_bytes();
    EXPECT_EQ(touched[kBytes / 2], 1);
  }
  EXPECT_GT(before, 0);
  EXPECT_GE(held, kBytes);
  EXPECT_GE(peak_rss_bytes() + kCounterSlack, held);
}

}  // namespace
}  // namespace lockstep::monitor
