#include "monitor/progress.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

namespace lockstep::monitor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ProgressTest : public testing::Test {
 protected:
  std::function<void(std::string_view)> writer() {
    return [this](std::string_view text) { written_.emplace_back(text); };
  }
  /// The bar as the terminal shows it.
  [[nodiscard]] static std::string bar(const std::string& written) {
    return written.substr(std::string("\r\x1b[K").size());
  }

  std::vector<std::string> written_;
};

StepRecord record(int64_t step, double step_ms = 1000) {
  return {.step = step, .loss = 2.34567, .lr = 1e-4, .grad_norm = 0.5318, .tokens_per_s = 12345.6, .step_ms = step_ms};
}

TEST_F(ProgressTest, LogLinesSayEverything) {
  Progress progress({.total_steps = 10, .write = writer()});
  progress.update(record(1));
  EXPECT_THAT(written_, ElementsAre("step 1/10  loss 2.3457  lr 0.0001  norm 0.532  12,346 tokens/s  9s left\n"));
  auto last = record(10);
  last.eval_loss = 2.5;
  progress.update(last);
  EXPECT_EQ(written_.back(), "step 10/10  loss 2.3457  lr 0.0001  norm 0.532  eval loss 2.5000  12,346 tokens/s\n");
}

TEST_F(ProgressTest, ALogHasAboutTwentyLinesHoweverLongTheRun) {
  Progress progress({.total_steps = 1000, .write = writer()});
  for (int64_t step = 1; step <= 1000; ++step) progress.update(record(step, 10));
  EXPECT_EQ(written_.size(), 21u);
  EXPECT_THAT(written_[1], StartsWith("step 50/1000 "));
}

TEST_F(ProgressTest, SlowStepsAreShownOnceAMinute) {
  Progress progress({.total_steps = 100'000, .write = writer()});
  for (int64_t step = 1; step <= 10; ++step) progress.update(record(step, 30'000));
  EXPECT_THAT(written_, ElementsAre(StartsWith("step 1/"), StartsWith("step 3/"), StartsWith("step 5/"),
                                    StartsWith("step 7/"), StartsWith("step 9/")));
}

TEST_F(ProgressTest, StepsPerPrintIsObeyed) {
  Progress progress({.total_steps = 100, .steps_per_print = 40, .write = writer()});
  for (int64_t step = 1; step <= 100; ++step) progress.update(record(step));
  EXPECT_THAT(written_, ElementsAre(StartsWith("step 1/"), StartsWith("step 40/"), StartsWith("step 80/"),
                                    StartsWith("step 100/")));
}

TEST_F(ProgressTest, AResumedRunCountsItsOwnSteps) {
  Progress progress({.total_steps = 100, .first_step = 61, .write = writer()});
  for (int64_t step = 61; step <= 100; ++step) progress.update(record(step));
  EXPECT_EQ(written_.size(), 21u);
  EXPECT_THAT(written_.front(), AllOf(StartsWith("step 61/100"), HasSubstr("39s left")));
}

TEST_F(ProgressTest, TheBarStaysOnOneLineOfTheTerminal) {
  for (int columns : {20, 80, 100, 200}) {
    written_.clear();
    Progress progress({.total_steps = 100, .terminal = true, .columns = columns, .write = writer()});
    progress.update(record(50));
    EXPECT_LT(bar(written_[0]).size(), static_cast<size_t>(columns));
    EXPECT_THAT(written_[0], AllOf(StartsWith("\r\x1b[K"), HasSubstr("50%"), Not(HasSubstr("\n"))));
  }
  EXPECT_THAT(written_[0], HasSubstr(" 50% [###############...............] step 50/100"));
}

TEST_F(ProgressTest, FastStepsAreDrawnTenTimesASecondAndTheLastOneAlways) {
  Progress progress({.total_steps = 1000, .terminal = true, .columns = 120, .write = writer()});
  for (int64_t step = 1; step <= 999; ++step) progress.update(record(step, 1));
  EXPECT_EQ(written_.size(), 10u);
  progress.finish();
  EXPECT_THAT(written_[10], HasSubstr("step 999/1000"));
  EXPECT_EQ(written_[11], "\n");
}

TEST_F(ProgressTest, MessagesDoNotTearTheBar) {
  Progress progress({.total_steps = 10, .terminal = true, .columns = 120, .write = writer()});
  progress.message("saved");
  EXPECT_EQ(written_.back(), "saved\n");
  progress.update(record(5));
  const std::string shown = bar(written_.back());
  progress.message("saved");
  EXPECT_EQ(written_.back(), "\r\x1b[Ksaved\n" + shown);
}

TEST_F(ProgressTest, SkippedAndNonFiniteStepsSaySo) {
  Progress progress({.total_steps = 10, .write = writer()});
  auto skipped = record(1);
  skipped.skipped = true;
  skipped.loss = std::nan("");
  progress.update(skipped);
  EXPECT_THAT(written_.back(), AllOf(HasSubstr("loss not finite"), HasSubstr("skipped"), Not(HasSubstr("norm"))));
}

}  // namespace
}  // namespace lockstep::monitor
