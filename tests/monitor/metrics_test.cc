#include "monitor/metrics.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/error.h"

namespace lockstep::monitor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MetricsLineTest, HasTheKeysInOrderAndTheShortestNumbers) {
  const StepRecord record{.step = 7,
                          .loss = 5.510383129119873,
                          .lr = 0.00033750000000000023,
                          .grad_norm = 0.1,
                          .loss_scale = 65536,
                          .skipped = false,
                          .tokens = 7168,
                          .tokens_per_s = 1234.5678901234567,
                          .step_ms = 829.4,
                          .peak_bytes = 1 << 20,
                          .peak_rss_bytes = int64_t{5} << 30};
  EXPECT_EQ(to_json(record),
            R"({"step": 7, "loss": 5.510383, "lr": 0.00033750000000000023, "grad_norm": 0.1, "loss_scale": 65536, )"
            R"("skipped": false, "tokens": 7168, "tokens_per_s": 1234.5679, "step_ms": 829.4, "peak_bytes": 1048576, )"
            R"("peak_rss_bytes": 5368709120})");
}

TEST(MetricsLineTest, LossReadsBackToTheSameFloat) {
  for (float loss : {5.510383129119873f, 1e-38f, 3.4028235e38f, 0.1f + 0.2f, 16777216.0f}) {
    const auto line = nlohmann::json::parse(to_json({.loss = loss}));
    EXPECT_EQ(line["loss"].get<float>(), loss);
  }
}

TEST(MetricsLineTest, NonFiniteNumbersAreNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto line = nlohmann::json::parse(
      to_json({.loss = std::nan(""), .grad_norm = -infinity, .skipped = true, .eval_loss = infinity}));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_TRUE(line["eval_loss"].is_null());
  EXPECT_EQ(line["skipped"], true);
}

TEST(MetricsLineTest, EvaluationLossOnlyWhereThereWasOne) {
  EXPECT_FALSE(nlohmann::json::parse(to_json({})).contains("eval_loss"));
  EXPECT_EQ(nlohmann::json::parse(to_json({.eval_loss = 2.5}))["eval_loss"], 2.5);
}

class MetricsFileTest : public testing::Test {
 protected:
  ~MetricsFileTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::vector<int> steps() const {
    std::vector<int> steps;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line)["step"]);
    return steps;
  }

  const std::string folder_ = testing::TempDir() + "metrics_test_" + std::to_string(::getpid());
  const std::string path_ = folder_ + "/deeper/metrics.jsonl";
};

TEST_F(MetricsFileTest, LinesAreThereAsSoonAsTheyAreAppended) {
  MetricsFile file(path_);
  file.append({.step = 1});
  EXPECT_EQ(steps(), (std::vector<int>{1}));
  file.append({.step = 2});
  EXPECT_EQ(text(), to_json({.step = 1}) + "\n" + to_json({.step = 2}) + "\n");
}

TEST_F(MetricsFileTest, OpeningAgainAppends) {
  MetricsFile(path_).append({.step = 1});
  MetricsFile(path_).append({.step = 2});
  EXPECT_EQ(steps(), (std::vector<int>{1, 2}));
}

TEST_F(MetricsFileTest, CutsBackToTheStepOfTheCheckpoint) {
  MetricsFile file(path_);
  for (int64_t step = 1; step <= 9; ++step) file.append({.step = step});
  file.cut_back_to(6);
  file.append({.step = 7});
  EXPECT_EQ(steps(), (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
  file.cut_back_to(100);
  EXPECT_EQ(steps().size(), 7u);
  file.cut_back_to(0);
  EXPECT_EQ(text(), "");
}

TEST_F(MetricsFileTest, DropsALineThatAKillLeftUnfinished) {
  MetricsFile file(path_);
  file.append({.step = 1});
  std::ofstream(path_, std::ios::app) << R"({"step": 2, "lo)";
  file.cut_back_to(5);
  file.append({.step = 2});
  EXPECT_EQ(steps(), (std::vector<int>{1, 2}));
}

TEST_F(MetricsFileTest, LeavesAFileAloneThatHoldsSomethingElse) {
  MetricsFile file(path_);
  file.append({.step = 1});
  std::ofstream(path_, std::ios::app) << "my notes\n";
  const std::string before = text();
  EXPECT_THAT([&] { file.cut_back_to(0); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("metrics.jsonl: line 2"), HasSubstr("--metrics"))));
  EXPECT_EQ(text(), before);
}

TEST_F(MetricsFileTest, ErrorsNameTheFile) {
  std::filesystem::create_directories(path_);
  EXPECT_THAT([&] { const MetricsFile file(path_); },
              ThrowsMessage<IoError>(AllOf(HasSubstr(path_), HasSubstr("directory"))));
  MetricsFile full("/dev/full");
  EXPECT_THAT([&] { full.append({.step = 1}); }, ThrowsMessage<IoError>(HasSubstr("/dev/full: cannot write")));
}

}  // namespace
}  // namespace lockstep::monitor
