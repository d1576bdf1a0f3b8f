#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/parse.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kAbsent = -1;

std::string batch(int64_t total, int64_t micro, int64_t accumulation, const std::string& rest = "") {
  std::string text = "{";
  if (total != kAbsent) text += fmt::format("\"train_batch_size\": {}, ", total);
  if (micro != kAbsent) text += fmt::format("\"train_micro_batch_size_per_gpu\": {}, ", micro);
  if (accumulation != kAbsent) text += fmt::format("\"gradient_accumulation_steps\": {}, ", accumulation);
  return text + rest + "}";
}

struct Golden {
  int64_t world;
  int64_t total, micro, accumulation;
  int64_t full_total, full_micro, full_accumulation;  ///< kAbsent: refused.
};

class Triple : public testing::TestWithParam<Golden> {};

TEST_P(Triple, IsCompletedOrRefused) {
  const Golden& golden = GetParam();
  const std::string text = batch(golden.total, golden.micro, golden.accumulation);
  if (golden.full_total == kAbsent) {
    const auto problems = problems_of(text, {.world_size = golden.world});
    ASSERT_THAT(problems, SizeIs(1)) << text;
    // All four numbers stand in the one message.
    for (const char* part : {"train_batch_size", "micro batch", "accumulation", "replicas"})
      EXPECT_THAT(problems[0], HasSubstr(part));
    EXPECT_THAT(problems[0], HasSubstr("write "));
    return;
  }
  const Config config = parse(text, {.world_size = golden.world});
  EXPECT_EQ(config.train_batch_size, golden.full_total);
  EXPECT_EQ(config.train_micro_batch_size_per_gpu, golden.full_micro);
  EXPECT_EQ(config.gradient_accumulation_steps, golden.full_accumulation);
  EXPECT_EQ(config.replicas, golden.world);
}

const Golden kGolden[] = {
    {4, 32, kAbsent, kAbsent, 32, 8, 1},
    {4, 32, 4, kAbsent, 32, 4, 2},
    {4, 32, kAbsent, 2, 32, 4, 2},
    {4, kAbsent, 4, 2, 32, 4, 2},
    {4, 32, 4, 3, kAbsent, 0, 0},
    {4, 30, kAbsent, kAbsent, kAbsent, 0, 0},
    {4, kAbsent, kAbsent, 2, kAbsent, 0, 0},
    {4, kAbsent, kAbsent, kAbsent, kAbsent, 0, 0},
    {4, kAbsent, 5, kAbsent, 20, 5, 1},
    {4, 32, 4, 2, 32, 4, 2},
    {4, 3, kAbsent, kAbsent, kAbsent, 0, 0},
    {4, 32, 16, kAbsent, kAbsent, 0, 0},
    {4, 32, 3, kAbsent, kAbsent, 0, 0},
    {4, 32, kAbsent, 3, kAbsent, 0, 0},
    {1, 32, kAbsent, kAbsent, 32, 32, 1},
    {1, 32, 4, kAbsent, 32, 4, 8},
    {1, 32, kAbsent, 2, 32, 16, 2},
    {1, kAbsent, 4, 2, 8, 4, 2},
    {1, kAbsent, 4, kAbsent, 4, 4, 1},
    {1, 32, 4, 8, 32, 4, 8},
    {1, kAbsent, kAbsent, 2, kAbsent, 0, 0},
    {2, 32, kAbsent, kAbsent, 32, 16, 1},
    {2, 32, 4, kAbsent, 32, 4, 4},
    {2, 32, kAbsent, 2, 32, 8, 2},
    {2, kAbsent, 4, 2, 16, 4, 2},
    {2, kAbsent, 4, kAbsent, 8, 4, 1},
    {2, 7, kAbsent, kAbsent, kAbsent, 0, 0},
    {2, kAbsent, kAbsent, kAbsent, kAbsent, 0, 0},
    {2, int64_t{1} << 53, 1, kAbsent, int64_t{1} << 53, 1, int64_t{1} << 52},
    {4, kAbsent, int64_t{1} << 52, int64_t{1} << 52, kAbsent, 0, 0},
    {1, int64_t{1} << 60, kAbsent, kAbsent, kAbsent, 0, 0},
};
INSTANTIATE_TEST_SUITE_P(Golden, Triple, testing::ValuesIn(kGolden));

TEST(Batch, MessagesOfferTheNearestLegalValues) {
  EXPECT_THAT(problems_of(batch(32, 4, 3), {.world_size = 4})[0],
              HasSubstr("write train_batch_size 48, or gradient_accumulation_steps 2"));
  EXPECT_THAT(problems_of(batch(30, kAbsent, kAbsent), {.world_size = 4})[0], HasSubstr("write 28 or 32"));
  EXPECT_THAT(problems_of(batch(3, kAbsent, kAbsent), {.world_size = 4})[0], HasSubstr("write 4"));
}

TEST(Batch, WithoutAWorldSizeTheThreeKeysSayIt) {
  const Config config = parse(batch(64, 4, 2));
  EXPECT_EQ(config.replicas, 8);
  EXPECT_EQ(config.world_size, 8);
  EXPECT_EQ(parse(batch(64, 4, kAbsent)).world_size, 1);
  EXPECT_THAT(problems_of(batch(64, 5, 2))[0], HasSubstr("no world size is given"));
}

TEST(Batch, SequenceRanksDivideTheWorldExactly) {
  const auto problems = problems_of(batch(64, 4, kAbsent, "\"sequence_parallel_size\": 3"), {.world_size = 8});
  EXPECT_TRUE(any_holds(problems, "3 does not divide the world of 8"));
}

TEST(Batch, PipelineStagesDivideTheWorld) {
  const std::string pipeline = R"("pipeline": {"enabled": true, "stages": 3})";
  EXPECT_TRUE(
      any_holds(problems_of(batch(64, 4, kAbsent, pipeline), {.world_size = 8}), "3 stages do not divide 8 ranks"));
  const auto problems = problems_of(
      batch(kAbsent, 4, 2, R"("pipeline": {"enabled": true, "stages": 4, "micro_batch_size": 5})"), {.world_size = 8});
  EXPECT_TRUE(any_holds(problems, "differs from train_micro_batch_size_per_gpu 4"));
}

TEST(Batch, ABadWorldSizeIsRefused) {
  EXPECT_TRUE(any_holds(problems_of(batch(8, 1, 1), {.world_size = 0}), "world size"));
}

TEST(Batch, ARefusedKeyDrawsNoSecondMessage) {
  EXPECT_THAT(problems_of(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2.5})", {.world_size = 4}),
              SizeIs(1));
}

}  // namespace
}  // namespace lockstep::config
