#include "data/order.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

namespace lockstep::data {
namespace {

using testing::ElementsAre;

std::vector<int64_t> all_values(int64_t size, uint64_t seed, int64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<int64_t> values;
  for (int64_t value = 0; value < size; ++value) values.push_back(permutation(value));
  return values;
}

std::vector<int64_t> samples_of(const SampleOrder& order, int64_t global_micro_step, int rank) {
  std::vector<int64_t> samples;
  for (int64_t slot = 0; slot < order.micro_batch; ++slot)
    samples.push_back(order.sample(order.position(global_micro_step, rank, slot)));
  return samples;
}

TEST(PermutationTest, IsOneToOneForEverySize) {
  for (int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 4097})
    for (int64_t epoch : {0, 1, 17}) {
      const auto values = all_values(size, 42, epoch);
      const std::set<int64_t> distinct(values.begin(), values.end());
      EXPECT_EQ(static_cast<int64_t>(distinct.size()), size);
      EXPECT_EQ(*distinct.begin(), 0);
      EXPECT_EQ(*distinct.rbegin(), size - 1);
    }
}

TEST(PermutationTest, NeverChangesSinceCheckpointsRelyOnIt) {
  // Computed by an independent program from the description in order.h.
  EXPECT_THAT(all_values(10, 0, 0), ElementsAre(2, 6, 8, 4, 0, 7, 9, 3, 1, 5));
  EXPECT_THAT(all_values(10, 0, 1), ElementsAre(1, 7, 4, 5, 9, 8, 2, 6, 3, 0));
  EXPECT_THAT(all_values(10, 7, 0), ElementsAre(4, 3, 0, 5, 8, 2, 9, 1, 7, 6));
  EXPECT_THAT(all_values(2, 0, 0), ElementsAre(1, 0));
  EXPECT_EQ(Permutation(1000, 0, 0)(0), 188);
}

TEST(PermutationTest, DrawsEveryPermutationOfThreeAboutEquallyOften) {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t seed = 0; seed < 6000; ++seed) ++counts[all_values(3, seed, 0)];
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [values, count] : counts) EXPECT_NEAR(count, 1000, 100);
}

TEST(PermutationTest, HandlesVeryLargeSizes) {
  const int64_t size = (int64_t{1} << 40) + 1;
  const Permutation permutation(size, 1, 0);
  for (int64_t value : {int64_t{0}, int64_t{1}, size - 1}) {
    EXPECT_GE(permutation(value), 0);
    EXPECT_LT(permutation(value), size);
  }
}

TEST(SampleOrderTest, UnshuffledFollowsTheFormula) {
  // n = 10, W = 2, micro = 3: step 0 deals 0..5, step 1 deals 6..9 and wraps.
  const SampleOrder order{.samples = 10, .micro_batch = 3, .world = 2, .shuffle = false};
  EXPECT_THAT(samples_of(order, 0, 0), ElementsAre(0, 2, 4));
  EXPECT_THAT(samples_of(order, 0, 1), ElementsAre(1, 3, 5));
  EXPECT_THAT(samples_of(order, 1, 0), ElementsAre(6, 8, 0));
  EXPECT_THAT(samples_of(order, 1, 1), ElementsAre(7, 9, 1));
  EXPECT_THAT(samples_of(order, 2, 0), ElementsAre(2, 4, 6));
  EXPECT_EQ(order.position(2, 1, 2), 17);
  EXPECT_EQ(order.epoch(17), 1);
}

TEST(SampleOrderTest, ShuffledSeesEverySampleOncePerEpochOverAllRanks) {
  // One epoch is 24 positions, two micro-steps of 3 ranks with 4 slots.
  const SampleOrder order{.samples = 24, .micro_batch = 4, .world = 3, .seed = 5};
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> seen;
    for (int64_t step = 2 * epoch; step < 2 * epoch + 2; ++step)
      for (int rank = 0; rank < 3; ++rank)
        for (int64_t sample : samples_of(order, step, rank)) seen.push_back(sample);
    epochs.push_back(seen);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 24u) << "epoch " << epoch;
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(SampleOrderTest, WorldSizeDoesNotChangeTheSequenceOfSamples) {
  const SampleOrder one{.samples = 10, .micro_batch = 4, .world = 1, .seed = 3};
  const SampleOrder four{.samples = 10, .micro_batch = 1, .world = 4, .seed = 3};
  for (int64_t step = 0; step < 8; ++step) {
    std::vector<int64_t> joined;
    for (int rank = 0; rank < 4; ++rank) joined.push_back(samples_of(four, step, rank).front());
    EXPECT_EQ(joined, samples_of(one, step, 0));
  }
}

}  // namespace
}  // namespace lockstep::data
