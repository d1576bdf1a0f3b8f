#include "plan/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "plan/plan.h"

namespace lockstep::plan {
namespace {

ParameterTable table_of(const std::vector<std::vector<int64_t>>& units) {
  ParameterTable table;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    table.units.push_back("unit" + std::to_string(unit));
    for (const int64_t numel : units[unit])
      table.parameters.push_back({.name = "p" + std::to_string(table.parameters.size()),
                                  .shape = {numel},
                                  .numel = numel,
                                  .unit = static_cast<int>(unit)});
  }
  return table;
}

struct Case {
  int world_size;
  int64_t bucket_numel;
};

class LayoutTest : public testing::TestWithParam<std::tuple<int, int64_t>> {
 protected:
  const ParameterTable table_ = table_of({{57}, {1, 0, 64, 65}, {}, {1000, 3}, {5}});
  const int world_ = std::get<0>(GetParam());
  const std::vector<UnitLayout> layouts_ = make_unit_layouts(table_, world_);
  const std::vector<Bucket> buckets_ = make_buckets(layouts_, world_, std::get<1>(GetParam()), {});
  const std::vector<Segment> segments_ = make_segments(table_, layouts_, buckets_, world_);
};

TEST_P(LayoutTest, EverySliceIsWholeBlocks) {
  for (const UnitLayout& layout : layouts_) {
    EXPECT_EQ(layout.slice_numel % kBlockNumel, 0);
    EXPECT_EQ(layout.numel, layout.slice_numel * world_);
    for (const Placement& placement : layout.placements) EXPECT_EQ(placement.offset % kBlockNumel, 0);
  }
}

TEST_P(LayoutTest, BucketsHoldEverySliceOnce) {
  std::map<int, int64_t> covered;
  for (const Bucket& bucket : buckets_) {
    int64_t at = 0;
    for (const BucketPiece& piece : bucket.pieces) {
      EXPECT_EQ(piece.bucket_begin, at);
      EXPECT_EQ(piece.slice_begin, covered[piece.unit]);
      at += piece.numel;
      covered[piece.unit] += piece.numel;
    }
    EXPECT_EQ(bucket.slice_numel, at);
    EXPECT_GT(at, 0);
  }
  for (size_t unit = 0; unit < layouts_.size(); ++unit)
    EXPECT_EQ(covered[static_cast<int>(unit)], layouts_[unit].slice_numel);
}

TEST_P(LayoutTest, SegmentsCoverEveryElementOnce) {
  std::vector<std::vector<int>> seen(table_.parameters.size());
  for (size_t i = 0; i < seen.size(); ++i) seen[i].resize(static_cast<size_t>(table_.parameters[i].numel));
  for (const Segment& segment : segments_) {
    EXPECT_EQ(segment.parameter_begin % kBlockNumel, 0);
    const Bucket& bucket = buckets_[static_cast<size_t>(segment.bucket)];
    EXPECT_EQ(segment.bucket_begin / bucket.slice_numel, segment.owner);
    EXPECT_LE(segment.bucket_begin + segment.numel, (segment.owner + 1) * bucket.slice_numel);
    for (int64_t i = 0; i < segment.numel; ++i)
      ++seen[static_cast<size_t>(segment.parameter)][static_cast<size_t>(segment.parameter_begin + i)];
  }
  for (const auto& counts : seen)
    for (const int count : counts) EXPECT_EQ(count, 1);
}

INSTANTIATE_TEST_SUITE_P(WorldsAndBuckets, LayoutTest,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 7, 64, 500, 1 << 20)));

TEST(PlanTest, ASmallBucketLimitIsKept) {
  const auto layouts = make_unit_layouts(table_of({{100000}, {10}, {10}}), 2);
  for (const Bucket& bucket : make_buckets(layouts, 2, 4096, {})) EXPECT_LE(bucket.slice_numel * 2, 4096);
}

TEST(PlanTest, FrozenParametersAreNeitherReducedNorUpdated) {
  auto table = table_of({{100}, {200}, {300}});
  table.parameters[1].requires_grad = false;
  const Plan plan = make_plan(table, {.world_size = 2, .bucket_numel = 1 << 20});
  for (const Segment& segment : plan.segments) EXPECT_NE(segment.parameter, 1);
  EXPECT_EQ(plan.layouts[1].numel, 0);
}

TEST(PlanTest, TrafficIsTheIdealAllReduce) {
  const Plan plan = make_plan(table_of({{1 << 16}}), {.world_size = 4, .bucket_numel = 1 << 12});
  EXPECT_EQ(plan.sent_bytes_per_step, 2 * 3 * (1 << 16) / 4 * 4);
}

/// A layer for each unit.
ParameterTable layers_of(const std::vector<std::vector<int64_t>>& units) {
  ParameterTable table = table_of(units);
  for (int unit = 0; unit < static_cast<int>(units.size()); ++unit)
    table.layers.push_back({.forward = {unit}, .backward = {unit}});
  return table;
}

PlanOptions sharded(int64_t gather_numel, int64_t max_live_numel = 1 << 30) {
  return {.world_size = 2,
          .shard = {.optimizer = true, .gradients = true, .parameters = true},
          .bucket_numel = 1 << 20,
          .gather_numel = gather_numel,
          .max_live_numel = max_live_numel};
}

std::vector<std::vector<int>> units_gathered(const Plan& plan) {
  std::vector<std::vector<int>> units;
  for (const GatherGroup& gather : plan.gathers) units.push_back(gather.units);
  return units;
}

TEST(PlanTest, SmallUnitsBecomeWholeTogether) {
  using Units = std::vector<std::vector<int>>;
  const ParameterTable table = layers_of({{128}, {128}, {}, {128}, {1024}, {128}});
  EXPECT_EQ(units_gathered(make_plan(table, sharded(1 << 20))), (Units{{0, 1, 3, 4, 5}}));
  EXPECT_EQ(units_gathered(make_plan(table, sharded(256))), (Units{{0, 1}, {3}, {4}, {5}}));
  EXPECT_EQ(units_gathered(make_plan(table, sharded(1 << 20, 384))), (Units{{0, 1, 3}, {4}, {5}}));
}

TEST(PlanTest, UnitsReadAtTimesOfTheirOwnAreGatheredAlone) {
  using Units = std::vector<std::vector<int>>;
  ParameterTable table = layers_of({{128}, {128}, {128}, {128}});
  table.layers.back() = {.forward = {0, 3}, .backward = {0, 3}};
  EXPECT_EQ(units_gathered(make_plan(table, sharded(1 << 20))), (Units{{0}, {1, 2, 3}}));
  table.layers[1].observed = true;
  EXPECT_EQ(units_gathered(make_plan(table, sharded(1 << 20))), (Units{{0}, {1}, {2, 3}}));
}

TEST(PlanTest, WeightsAreGatheredForForwardAndForBackward) {
  // Reduced once; gathered twice but for the head, which stays whole in between, and what backward does not read.
  ParameterTable table = layers_of({{128}, {256}, {512}, {1024}});
  EXPECT_EQ(make_plan(table, sharded(1)).sent_bytes_per_step, (1920 + 2 * 1920 - 1024) / 2 * 4);
  table.layers[0].backward.clear();
  EXPECT_EQ(make_plan(table, sharded(1)).sent_bytes_per_step, (1920 + 2 * 1920 - 1024 - 128) / 2 * 4);
  EXPECT_EQ(make_plan(table, sharded(1)).memory.whole_units, (512 + 1024) * 4);
}

TEST(PlanTest, GradientsOfLookUpsMayHaveBucketsOfTheirOwn) {
  ParameterTable table = layers_of({{128}, {256}, {512}, {64}});
  table.layers[1].backward.clear();
  PlanOptions options{.world_size = 2, .bucket_numel = 1 << 20, .sparse_gradients = true};
  const auto sparse = [](const Plan& plan) {
    std::vector<bool> flags;
    for (const Bucket& bucket : plan.buckets) flags.push_back(bucket.sparse);
    return flags;
  };
  EXPECT_EQ(sparse(make_plan(table, options)), (std::vector<bool>{false, true, false}));
  table.layers[3].forward.push_back(1);  // Tied: another layer's gradient is dense.
  EXPECT_EQ(sparse(make_plan(table, options)), (std::vector<bool>{false}));
}

TEST(PlanTest, AllBucketsOfAUnitAreOpenAtOnce) {
  PlanOptions options = sharded(1);
  options.bucket_numel = 512;
  const Plan plan = make_plan(layers_of({{256}, {4096}, {256}}), options);
  EXPECT_EQ(plan.memory.reduction_buffers, (4096 + 256 + 256) * 4);  // And what the other rank sends.
}

TEST(PlanTest, HashTellsPlansApart) {
  const auto table = table_of({{64}, {128}});
  const Plan plan = make_plan(table, {.world_size = 2, .bucket_numel = 1 << 20});
  EXPECT_EQ(plan.hash(), make_plan(table, plan.options).hash());
  EXPECT_NE(plan.hash(), make_plan(table, {.world_size = 2, .bucket_numel = 1}).hash());
  EXPECT_NE(plan.hash(), make_plan(table_of({{64}, {127}}), plan.options).hash());
  EXPECT_NE(plan.hash(), make_plan(table, {.world_size = 2, .accumulation = 2, .bucket_numel = 1 << 20}).hash());
}

TEST(PlanTest, OneStepIsTheOneStageList) {
  EXPECT_EQ(describe(plain_schedule(2)),
            "load 0, forward 0, backward 0, load 1, forward 1, backward 1, reduce, update");
}

TEST(PlanTest, PrintsForAnyWorldSize) {
  const Plan plan = make_plan(table_of({{1000, 24}}), {.world_size = 4096, .bucket_numel = 1 << 20});
  EXPECT_NE(to_text(plan).find("4,096"), std::string::npos);
  EXPECT_NE(to_json_text(plan).find("\"world_size\": 4096"), std::string::npos);
}

TEST(PlanTest, PredictsTheBytesOfThePaper) {
  // fp32 with two optimizer states: 16, 8 + 8/N, 4 + 12/N and 16/N bytes a parameter (Rajbhandari et al., figure 1,
  // with 4 bytes for each kind of value), beside buffers that do not grow with the number of layers.
  for (const int world : {1, 2, 4}) {
    const auto bytes = [world](Sharding shard, int layers) {
      const Plan plan =
          make_plan(table_of(std::vector<std::vector<int64_t>>(static_cast<size_t>(layers), {64 * 1024})),
                    {.world_size = world, .shard = shard, .bucket_numel = 32 * 1024, .gather_numel = 1024});
      return static_cast<double>(plan.memory.total());
    };
    const auto per_parameter = [&](Sharding shard) { return (bytes(shard, 20) - bytes(shard, 10)) / (10 * 64 * 1024); };
    EXPECT_EQ(per_parameter({}), 16);
    EXPECT_EQ(per_parameter({.optimizer = true}), 8 + 8.0 / world);
    EXPECT_EQ(per_parameter({.optimizer = true, .gradients = true}), world == 1 ? 16 : 4 + 12.0 / world);
    EXPECT_EQ(per_parameter({.optimizer = true, .gradients = true, .parameters = true}), 16.0 / world);
  }
}

TEST(PlanTest, SmallUnitsAreGatheredTogether) {
  const std::vector<std::vector<int64_t>> units(200, {64});
  const Plan plan = make_plan(
      table_of(units), {.world_size = 2, .shard = {.optimizer = true}, .bucket_numel = 4096, .gather_numel = 4096});
  std::vector<int> gathered;
  for (const GatherGroup& group : plan.gathers) gathered.insert(gathered.end(), group.units.begin(), group.units.end());
  std::vector<int> all(200);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(gathered, all);
  EXPECT_LE(plan.gathers.size(), 200 * 128 / 4096 + 1);  // Each unit is padded to a block a rank.
}

}  // namespace
}  // namespace lockstep::plan
