#include "monitor/timers.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::monitor {
namespace {

TEST(PhaseTimersTest, AddsUpScopesOfAPhaseUntilTaken) {
  PhaseTimers timers;
  for (int round = 0; round < 2; ++round) {
    const auto scope = timers.time(Phase::backward);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  timers.add(Phase::step, 1.5);
  const PhaseMilliseconds times = timers.take();
  EXPECT_EQ(times[0], 0);
  EXPECT_GE(times[1], 10);
  EXPECT_EQ(times[3], 1.5);
  EXPECT_EQ(timers.totals(), PhaseMilliseconds{});
}

TEST(PhaseTimersTest, DescribesThePhasesInOrder) {
  EXPECT_EQ(describe({12.34, 25, 0, 3.4}), "forward 12.3 ms, backward 25.0 ms, reduce 0.0 ms, step 3.4 ms");
}

}  // namespace
}  // namespace lockstep::monitor
