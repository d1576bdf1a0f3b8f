// `lockstep config ...` as the program runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out{};
  std::string err{};
};

Outcome run(const std::vector<std::string>& words) {
  Outcome outcome;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  outcome.code = run_program(words);
  std::fflush(stdout);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

class Command : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    const std::string path = testing::TempDir() + "lockstep_config_command.json";
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(Command, CheckReturnsZeroTwoOrThree) {
  const Outcome fine =
      run({"config", "check", write("{\"train_batch_size\": 8, \"disable_allgather\": true}"), "--world", "4"});
  EXPECT_EQ(fine.code, 0);
  EXPECT_THAT(fine.out, HasSubstr("train_batch_size 8 = micro batch 2 x accumulation 1 x replicas 4"));
  EXPECT_THAT(fine.out, HasSubstr("note: "));
  const Outcome bad =
      run({"config", "check",
           write("{\"train_batch_size\": 8, \"activation_checkpointing\": {\"enabled\": true}, \"stepss\": 1}")});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("activation checkpointing is not yet built"));
  EXPECT_THAT(bad.err, HasSubstr("stepss: unknown key"));
  EXPECT_EQ(run({"config", "check", "/nonexistent/c.json"}).code, 3);
  EXPECT_EQ(run({"config", "check"}).code, 2);
}

TEST_F(Command, LenientWarns) {
  const Outcome outcome = run({"config", "check", write("{\"train_batch_size\": 8, \"stepss\": 1}"), "--lenient"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("warning: "));
}

TEST_F(Command, CheckAsJson) {
  const Outcome bad = run({"config", "check", write("{\"train_batch_size\": 0, \"stepss\": 1}"), "--json"});
  EXPECT_EQ(bad.code, 2);
  const auto report = nlohmann::json::parse(bad.out);
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["problems"].size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(run({"config", "check", write("{\"train_batch_size\": 8}"), "--json"}).out)["ok"],
            true);
}

TEST_F(Command, ShowPrintsValuesAndTheirOrigin) {
  const std::string file = write("{\n\"train_batch_size\": 8}");
  const Outcome all = run({"config", "show", file, "--world", "2"});
  EXPECT_THAT(all.out, HasSubstr("# file, line 2, column 21"));
  EXPECT_THAT(all.out, HasSubstr("gradient_clipping = 1 "));
  const Outcome changed = run({"config", "show", file, "--changed"});
  EXPECT_THAT(changed.out, testing::Not(HasSubstr("gradient_clipping")));
  const auto report = nlohmann::json::parse(run({"config", "show", file, "--json", "--world", "2"}).out);
  EXPECT_EQ(report["config"]["train_micro_batch_size_per_gpu"], 4);
  EXPECT_EQ(report["origins"]["train_batch_size"], "file, line 2, column 21");
}

TEST_F(Command, ExplainAndSchema) {
  EXPECT_THAT(run({"config", "explain", "stage"}).out, HasSubstr("zero_optimization.stage"));
  EXPECT_EQ(run({"config", "explain", "stagee"}).code, 2);
  EXPECT_TRUE(nlohmann::json::accept(run({"config", "schema"}).out));
  EXPECT_THAT(run({"config", "schema", "--markdown"}).out, HasSubstr("# The config file"));
}

}  // namespace
}  // namespace lockstep::cli
