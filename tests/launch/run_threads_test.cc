#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <span>

#include "lockstep/error.h"
#include "lockstep/launch.h"

namespace lockstep::launch {
namespace {

TEST(RunThreadsTest, RanksMeet) {
  std::atomic<int> sum = 0;
  run_threads(3, [&](const World& world) {
    EXPECT_EQ(world.size, world.communicator->size());
    EXPECT_EQ(world.rank, world.communicator->rank());
    std::array<int, 3> all{};
    world.communicator->all_gather_records(std::as_bytes(std::span(&world.rank, 1)),
                                           std::as_writable_bytes(std::span(all)), "ranks");
    sum += all[0] + 10 * all[1] + 100 * all[2];
  });
  EXPECT_EQ(sum, 3 * 210);
}

TEST(RunThreadsTest, TheFirstFailureComesBackAndNobodyWaitsForThatRank) {
  EXPECT_THROW(run_threads(2,
                           [](const World& world) {
                             if (world.rank == 1) throw DivergedError("rank 1");
                             world.communicator->barrier("a rank that has gone");
                           }),
               DivergedError);
  EXPECT_THROW(run_threads(0, [](const World&) {}), ConfigError);
}

}  // namespace
}  // namespace lockstep::launch
