#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "bench_channels.h"
#include "bench_flops.h"
#include "bench_loops.h"
#include "bench_rows.h"
#include "bench_timing.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr size_t kNumel = 4096;

struct alignas(4096) Page {
  float values[kNumel] = {};
};

std::unique_ptr<Page> counting() {
  auto page = std::make_unique<Page>();
  for (size_t i = 0; i < kNumel; ++i) page->values[i] = static_cast<float>(i % 16);
  return page;
}

TEST(BenchRows, LineHasOnePairForEachFact) {
  const BenchRow row{{"name", "roof_copy"}, {"threads", 2}, {"pages", "huge"}, {"GBs", 31.25}, {"pinned", true}};
  EXPECT_EQ(to_line(row), "name=roof_copy threads=2 pages=huge GBs=31.25 pinned=true");
}

TEST(BenchRows, JsonIsAnArrayInTheSameOrder) {
  const auto read = BenchRow::parse(to_json_text({{{"name", "b"}, {"a", 1}}, {{"name", "c"}}}));
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].begin().key(), "name");
  EXPECT_EQ(read[0]["a"], 1);
}

TEST(BenchRows, RoundsToFourDigits) {
  EXPECT_EQ(rounded(31.23456), 31.23);
  EXPECT_EQ(rounded(0.000123456), 0.0001235);
  EXPECT_EQ(rounded(0), 0);
}

TEST(BenchRows, ColumnsAlignNumbersToTheRight) {
  EXPECT_EQ(to_columns({{"probe", "rate", ""}, {"copy", "31.2", "GB/s"}, {"read all", "9", "GB/s"}}),
            "  probe     rate\n"
            "  copy      31.2  GB/s\n"
            "  read all     9  GB/s\n");
}

TEST(BenchLoops, ReadDependsOnEveryElement) {
  const auto page = counting();
  EXPECT_EQ(read_pass(page->values, kNumel), 7.5F * kNumel);
}

TEST(BenchLoops, CopiesCopyEverything) {
  const auto from = counting();
  for (const auto copy : {copy_pass, streaming_copy_pass}) {
    Page to;
    copy(to.values, from->values, kNumel);
    EXPECT_TRUE(std::equal(from->values, from->values + kNumel, to.values));
  }
}

TEST(BenchLoops, UpdatesTouchEverything) {
  const auto page = counting();
  update_pass(page->values, 2, kNumel);
  for (size_t i = 0; i < kNumel; ++i) ASSERT_EQ(page->values[i], 2 * static_cast<float>(i % 16));
  const auto streams = counting();
  four_streams_pass(streams->values, 0.5F, kNumel);
  for (size_t i = 0; i < kNumel; ++i)
    ASSERT_EQ(streams->values[i], static_cast<float>(i % 16) * (i < kNumel / 4 ? 1.0F : 1.5F));
}

TEST(BenchLoops, MultiplyAddChainsReachTheirFixedPoint) {
  // Twelve chains of x / 2 + 1/2 in every lane: all end at 1.
  EXPECT_EQ(multiply_add_pass(100), static_cast<float>(multiply_add_flops() / 2));
}

TEST(BenchTiming, RunsEveryThreadEveryTime) {
  std::atomic<int> prepared{0};
  std::atomic<int> runs{0};
  EXPECT_GT(best_seconds({.threads = 3, .repeats = 5, .before = [&](int) { ++prepared; }}, [&](int) { ++runs; }), 0);
  EXPECT_EQ(prepared, 3);
  EXPECT_EQ(runs, 15);
}

TEST(BenchTiming, ThrowsWhatOneThreadThrew) {
  EXPECT_THROW(best_seconds({.threads = 3, .repeats = 5},
                            [](int t) {
                              if (t == 1) throw std::runtime_error("broken");
                            }),
               std::runtime_error);
}

TEST(BenchChannels, FolderThatIsNotThereIsNamed) {
  try {
    DiskProbe probe("/no/such/folder", 1 << 20);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos);
  }
}

TEST(BenchChannels, FlagAndLoopbackMove) {
  EXPECT_GT(flag_round_trip_seconds(2), 0);
  EXPECT_GT(loopback_bytes_per_second(3 << 20, 1), 0);
}

/// Only described: the count needs no tensor.
class DescribedLayer : public LossLayer {
 public:
  explicit DescribedLayer(std::vector<std::vector<int64_t>> shapes) : shapes_(std::move(shapes)) {}
  std::vector<ParameterSpec> describe() const override {
    std::vector<ParameterSpec> specs;
    for (const auto& shape : shapes_) specs.push_back({.name = "p", .shape = shape});
    return specs;
  }
  void build(std::span<const at::Tensor>) override {}
  at::Tensor loss(const at::Tensor&, const at::Tensor&) override { return {}; }
  at::Tensor logits(const at::Tensor&) override { return {}; }

 private:
  std::vector<std::vector<int64_t>> shapes_;
};

TEST(BenchFlops, CountsMatrixProductsOnly) {
  LayerStack model;
  model.layers = {std::make_shared<DescribedLayer>(std::vector<std::vector<int64_t>>{{100, 8}, {16, 8}}),
                  std::make_shared<DescribedLayer>(std::vector<std::vector<int64_t>>{{8}, {8, 24}, {24}, {8, 8}}),
                  std::make_shared<DescribedLayer>(std::vector<std::vector<int64_t>>{{8, 24}, {8, 8}})};
  model.head = std::make_shared<DescribedLayer>(std::vector<std::vector<int64_t>>{{8}, {100, 8}});
  const double weights = 2 * (8 * 24 + 8 * 8) + 100 * 8;
  // A sequence of 4 has 1 + 2 + 3 + 4 pairs; each costs 2 products of 2 * 8 operations, three times, in 2 layers.
  const double attention = 10 * 2 * 2 * 8 * 3 * 2;
  EXPECT_EQ(step_flops(model, 3, 4), 3 * (4 * 6 * weights + attention));
}

}  // namespace
}  // namespace lockstep::cli
