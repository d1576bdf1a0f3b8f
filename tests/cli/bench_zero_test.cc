// What ZeRO's stages may cost: these figures repeat exactly, so a test guards them.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "bench_zero_memory.h"
#include "bench_zero_traffic.h"
#include "comm/local/local_group.h"
#include "lockstep/error.h"
#include "lockstep/launch.h"

namespace lockstep::cli {
namespace {

/// Standard output of this build's program.
std::string output_of(const std::string& arguments) {
  const std::string command = std::string(LOCKSTEP_PROGRAM) + " " + arguments;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t bytes = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), bytes);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

TEST(BenchZeroMemory, LimitsAreThePapers) {
  for (const bool half : {false, true}) {
    for (const int64_t stage : {0, 1, 2, 3}) EXPECT_EQ((ZeroState{stage, half}.limit(1)), 16) << stage;
    EXPECT_EQ((ZeroState{0, half}.limit(4)), 16);
    EXPECT_EQ((ZeroState{3, half}.limit(4)), 4);
  }
  EXPECT_EQ((ZeroState{1, false}.limit(4)), 10);
  EXPECT_EQ((ZeroState{2, false}.limit(4)), 7);
  EXPECT_EQ((ZeroState{1, true}.limit(4)), 7);
  EXPECT_EQ((ZeroState{2, true}.limit(4)), 5.5);
}

TEST(BenchZeroMemory, SlopeLeavesConstantsOut) {
  EXPECT_DOUBLE_EQ(bytes_per_parameter({10, 20, 40}, {1070, 1140, 1280}), 7);
  EXPECT_DOUBLE_EQ(bytes_per_parameter({0, 10, 20}, {0, 50, 80}), 4);
}

TEST(BenchZeroMemory, DepthsMustDiffer) {
  const World world{.communicator = std::move(comm::local_group(1).front())};
  for (const std::vector<int64_t>& layers : {std::vector<int64_t>{2}, {2, 2}, {4, 2}, {1, 2}})
    EXPECT_THROW((void)measure_zero_memory(world, {.layers = layers}), ConfigError);
  EXPECT_THROW((void)measure_zero_memory(world, {.width = 255}), ConfigError);
}

TEST(BenchZeroProcesses, StateIsWithinTwoPercentOfTheFormula) {
  const auto rows = BenchRow::parse(output_of("bench zero_mem --ranks 1,2,4 --layers 2,3 --json"));
  ASSERT_EQ(rows.size(), 3U * 4 + 2);
  for (const BenchRow& row : rows) {
    if (row["name"] == "zero_mem") {
      EXPECT_LE(row["ratio"].get<double>(), 1.02) << row;
      EXPECT_GE(row["ratio"].get<double>(), 0.99) << row;  // Less would mean that something is not counted.
      EXPECT_LE(row["between_steps"].get<double>(), row["limit"].get<double>() * 1.001) << row;
      EXPECT_LE(row["after_backward"].get<double>(), row["limit"].get<double>() * 1.001) << row;
    } else {
      EXPECT_LE(row["build_peak_bytes"], row["build_limit_bytes"]) << row;
      EXPECT_GE(row["build_peak_bytes"], row["share_bytes"]) << row;
    }
  }
}

TEST(BenchZeroProcesses, StateIn16BitsIsWithinTwoPercentOfTheFormula) {
  // Deep enough that as many layers are whole at once at every depth.
  const auto rows = BenchRow::parse(output_of("bench zero_mem --ranks 2,4 --layers 4,6 --precision bf16 --json"));
  for (const BenchRow& row : rows) {
    if (row["name"] != "zero_mem") continue;
    EXPECT_LE(row["ratio"].get<double>(), 1.02) << row;
    EXPECT_GE(row["ratio"].get<double>(), 0.99) << row;
  }
}

TEST(BenchZeroTraffic, StaysWithinItsLimits) {
  const auto rows = measure_zero_traffic(
      {.ranks = {2, 4}, .buckets = {65'536, 1'000'000}, .layers = 3, .width = 256, .small_layers = 200});
  ASSERT_EQ(rows.size(), 2U * (4 * 2 + 3 + 4 * 2));
  for (const BenchRow& row : rows) {
    EXPECT_LE(row["ratio"], row["limit"]) << row;
    EXPECT_LE(row["collectives"], row["needed"]) << row;
  }
}

}  // namespace
}  // namespace lockstep::cli
