// `lockstep train` as the program runs it, as a world of one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "exit_codes.h"
#include "program.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/ds_config.json")
        << R"({"train_batch_size": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
               "csv_monitor": {"enabled": true, "output_path": ")"
        << folder_ << R"(", "job_name": "scalars"}, "tensorboard": {"enabled": true, "output_path": ")" << folder_
        << R"(", "job_name": "scalars"}})";
  }
  ~TrainCommand() override { std::filesystem::remove_all(folder_); }

  int train(const std::vector<std::string>& more, const std::string& output = "run") {
    std::vector<std::string> words{"train",
                                   "--config",
                                   folder_ + "/ds_config.json",
                                   "--model",
                                   data_ + "/gpt2-tiny",
                                   "--data",
                                   data_ + "/corpus.txt",
                                   "--output",
                                   folder_ + "/" + output};
    words.insert(words.end(), more.begin(), more.end());
    testing::internal::CaptureStderr();
    const int code = run_program(words);
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }

  const std::string data_ = LOCKSTEP_TEST_DATA;
  const std::string folder_ = testing::TempDir() + "train_command_" + std::to_string(::getpid());
  std::string err_{};
};

TEST_F(TrainCommand, WritesATimeLine) {
  ASSERT_EQ(train({"--steps", "2", "--no-save", "--trace", folder_ + "/trace.json"}), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("trace: " + folder_ + "/trace.json"));
  EXPECT_THAT(text("trace.json"), HasSubstr(R"("name":"layer 0","pid":0)"));
}

TEST_F(TrainCommand, MonitorsGoOnWhereTheCheckpointStands) {
  ASSERT_EQ(train({"--steps", "3"}), 0) << err_;
  ASSERT_EQ(train({"--steps", "4", "--resume", "--no-save"}), 0) << err_;
  ASSERT_EQ(train({"--steps", "5", "--resume"}), 0) << err_;  // From step 3 again.
  EXPECT_EQ(text("scalars/Train_Samples_lr.csv"), "step,lr\n2,0.001\n4,0.001\n6,0.001\n8,0.001\n10,0.001\n");
  const std::string events = text("scalars/events.out.tfevents.lockstep");
  size_t records = 0;
  for (size_t at = 0; (at = events.find("train_loss", at)) != std::string::npos; ++at) ++records;
  EXPECT_EQ(records, 5U);
}

TEST_F(TrainCommand, OverflowAtTheSmallestScaleEndsWithItsOwnCode) {
  std::ofstream(folder_ + "/ds_config.json")
      << R"({"train_batch_size": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
             "fp16": {"enabled": true, "initial_scale_power": 120, "min_loss_scale": 1e36, "hysteresis": 1}})";
  EXPECT_EQ(train({"--steps", "20", "--no-save"}), kDiverged) << err_;
  EXPECT_THAT(err_, HasSubstr("gradient of "));
  EXPECT_THAT(err_, HasSubstr("min_loss_scale"));
}

TEST_F(TrainCommand, AnotherRunsScalarsAreNotMixedWithThisOnes) {
  ASSERT_EQ(train({"--steps", "1", "--no-save"}), 0) << err_;
  EXPECT_EQ(train({"--steps", "1"}, "other"), 2);
  EXPECT_THAT(err_, HasSubstr("csv_monitor.job_name"));
}

}  // namespace
}  // namespace lockstep::cli
