// Stages as processes: what draws random numbers has one generator a process, so threads cannot be its ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "checkpoint/reader.h"

namespace lockstep::cli {
namespace {

class TrainProcesses : public testing::Test {
 protected:
  TrainProcesses() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/model");
    nlohmann::json model = nlohmann::json::parse(std::ifstream(data_ + "/gpt2-tiny/config.json"));
    for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) model[key] = 0.5;
    std::ofstream(folder_ + "/model/config.json") << model;
  }
  ~TrainProcesses() override { std::filesystem::remove_all(folder_); }

  /// Losses, norms, weights and moments of 20 steps, as text and bytes.
  std::map<std::string, std::string> train(const std::string& model, int ranks, int64_t accumulation, int stage,
                                           int64_t bucket, bool overlap, int64_t steps) {
    const nlohmann::json config{{"train_batch_size", 12},
                                {"gradient_accumulation_steps", accumulation},
                                {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 0.001}}}}},
                                {"zero_optimization",
                                 {{"stage", stage},
                                  {"reduce_bucket_size", bucket},
                                  {"allgather_bucket_size", bucket},
                                  {"overlap_comm", overlap}}},
                                {"lockstep", {{"reduce_at", "boundary"}}}};
    std::ofstream(folder_ + "/ds_config.json") << config;
    std::filesystem::remove_all(folder_ + "/run");
    const std::string command = std::string(LOCKSTEP_PROGRAM) + " train --config " + folder_ +
                                "/ds_config.json --model " + model + " --data " + data_ + "/corpus.txt --seq-len 32" +
                                " --threads 1 --ranks " + std::to_string(ranks) + " --steps " + std::to_string(steps) +
                                " --output " + folder_ + "/run --log_level error >/dev/null 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::map<std::string, std::string> result;
    std::ifstream metrics(folder_ + "/run/metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const nlohmann::json step = nlohmann::json::parse(line);
      result["step " + step["step"].dump()] = step["loss"].dump() + " " + step["grad_norm"].dump();
    }
    checkpoint::Reader reader = checkpoint::Reader::open(base::host_files(), folder_ + "/run/checkpoints");
    std::vector<std::string> states = reader.optimizer_states();
    states.emplace_back();
    for (const auto& [name, shape] : reader.parameters()) {
      int64_t numel = 1;
      for (const int64_t dim : shape) numel *= dim;
      for (const std::string& state : states) {
        std::vector<float> values(static_cast<size_t>(numel));
        reader.read(name, state, 0, values);
        result[name + " " + state].assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      }
    }
    return result;
  }

  const std::string data_ = LOCKSTEP_TEST_DATA;
  const std::string folder_ = testing::TempDir() + "lockstep_train_stages";
};

TEST_F(TrainProcesses, DropoutIsBitIdenticalAtEveryStage) {
  for (const auto& [ranks, accumulation] : {std::pair(2, 1), {3, 4}}) {
    const auto expected = train(folder_ + "/model", ranks, accumulation, 0, 1 << 20, true, 20);
    EXPECT_GT(expected.size(), 20U + 3 * 50);
    for (const auto& [stage, bucket, overlap] :
         {std::tuple(1, int64_t{4096}, false), {2, int64_t{1} << 20, true}, {3, int64_t{20'000}, true}}) {
      const auto got = train(folder_ + "/model", ranks, accumulation, stage, bucket, overlap, 20);
      EXPECT_TRUE(got == expected) << ranks << " ranks, stage " << stage;
    }
  }
}

// Memory that creeps up with every step or save.
TEST_F(TrainProcesses, MemoryDoesNotGrow) {
  const std::string path = folder_ + "/ds_config.json";
  std::ofstream(path) << R"({"train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
    "zero_optimization": {"stage": 3}, "checkpoint": {"save_interval": 20}})";
  const std::string command = std::string(LOCKSTEP_PROGRAM) + " train --config " + path + " --model " + data_ +
                              "/gpt2-tiny --data " + data_ + "/corpus.txt --seq-len 16 --threads 1 --ranks 2" +
                              " --steps 400 --output " + folder_ + "/run >/dev/null 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::vector<int64_t> peaks;
  std::ifstream metrics(folder_ + "/run/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) peaks.push_back(nlohmann::json::parse(line)["peak_bytes"]);
  ASSERT_EQ(peaks.size(), 400U);
  EXPECT_LE(peaks.back(), peaks[29] + peaks[29] / 100);  // After a first save.
}

TEST_F(TrainProcesses, GptNanoIsBitIdenticalAtEveryStage) {
  const auto expected = train("gpt2-nano", 2, 1, 0, 1 << 20, true, 3);
  for (const auto& [stage, bucket] : {std::pair(1, 1 << 20), {2, 65'536}, {3, 1 << 20}})
    EXPECT_TRUE(train("gpt2-nano", 2, 1, stage, bucket, true, 3) == expected) << "stage " << stage;
}

}  // namespace
}  // namespace lockstep::cli
