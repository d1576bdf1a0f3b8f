#include "monitor/csv_monitor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "lockstep/error.h"
#include "monitor/run_folder.h"

namespace lockstep::monitor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CsvMonitorTest : public RunFolderTest {
 protected:
  [[nodiscard]] std::string csv(const std::string& name) const {
    return text(folder_ + "/Train_Samples_" + name + ".csv");
  }
};

TEST_F(CsvMonitorTest, OneFileAScalarWithAHeaderAndARowAStep) {
  CsvMonitor monitor(folder_);
  monitor.append({.loss = 5.510383129119873,
                  .lr = 0.00033750000000000023,
                  .grad_norm = 0.1,
                  .tokens_per_s = 1234.5678901234567,
                  .peak_bytes = 5'368'709'121,
                  .samples = 8});
  monitor.append({.loss = 5.25, .lr = 1e-3, .loss_scale = 65536, .eval_loss = 5.5, .samples = 16});
  EXPECT_EQ(csv("train_loss"), "step,train_loss\n8,5.510383\n16,5.25\n");
  EXPECT_EQ(csv("lr"), "step,lr\n8,0.00033750000000000023\n16,0.001\n");
  EXPECT_EQ(csv("grad_norm"), "step,grad_norm\n8,0.1\n16,0\n");
  EXPECT_EQ(csv("loss_scale"), "step,loss_scale\n8,1\n16,65536\n");
  EXPECT_EQ(csv("tokens_per_s"), "step,tokens_per_s\n8,1234.5679\n16,0\n");
  EXPECT_EQ(csv("peak_bytes"), "step,peak_bytes\n8,5368709121\n16,0\n");
  EXPECT_EQ(csv("eval_loss"), "step,eval_loss\n16,5.5\n");
  EXPECT_TRUE(std::filesystem::exists(CsvMonitor::first_file(folder_)));
}

TEST_F(CsvMonitorTest, NumbersThatAreNotFiniteAreWords) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CsvMonitor monitor(folder_);
  monitor.append({.loss = std::nan(""), .lr = kInfinity, .grad_norm = -kInfinity, .samples = 1});
  EXPECT_EQ(csv("train_loss"), "step,train_loss\n1,nan\n");
  EXPECT_EQ(csv("lr"), "step,lr\n1,inf\n");
  EXPECT_EQ(csv("grad_norm"), "step,grad_norm\n1,-inf\n");
}

TEST_F(CsvMonitorTest, AResumedRunHasEveryRowOnceAndOneHeader) {
  CsvMonitor first(folder_);
  for (int64_t samples = 4; samples <= 20; samples += 4) first.append({.loss = 1, .eval_loss = 2, .samples = samples});
  add(folder_ + "/Train_Samples_lr.csv", "24,0.0");  // Killed inside a row.
  CsvMonitor second(folder_);
  second.cut_back_to(12);
  second.append({.loss = 3, .samples = 16});
  EXPECT_EQ(csv("train_loss"), "step,train_loss\n4,1\n8,1\n12,1\n16,3\n");
  EXPECT_EQ(csv("lr"), "step,lr\n4,0\n8,0\n12,0\n16,0\n");
  EXPECT_EQ(csv("eval_loss"), "step,eval_loss\n4,2\n8,2\n12,2\n");
}

TEST_F(CsvMonitorTest, AHeaderThatAKillLeftUnfinishedIsWrittenAgain) {
  add(folder_ + "/Train_Samples_lr.csv", "step,");
  CsvMonitor monitor(folder_);
  monitor.cut_back_to(0);
  EXPECT_EQ(csv("lr"), "step,lr\n");
}

TEST_F(CsvMonitorTest, LeavesAFileAloneThatHoldsSomethingElse) {
  add(folder_ + "/Train_Samples_lr.csv", "my notes of lr\n");
  CsvMonitor monitor(folder_);
  EXPECT_THAT([&] { monitor.cut_back_to(0); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("Train_Samples_lr.csv: line 1"), HasSubstr("csv_monitor"))));
  EXPECT_EQ(csv("lr"), "my notes of lr\n");
}

}  // namespace
}  // namespace lockstep::monitor
