// Parity with DeepSpeed's own numbers, step by step.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/local/local_group.h"
#include "lockstep/config.h"
#include "lockstep/data.h"
#include "lockstep/engine.h"
#include "lockstep/launch.h"
#include "lockstep/models.h"

namespace lockstep {
namespace {

const std::string kData = LOCKSTEP_TEST_DATA;

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::vector<nlohmann::json> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, MatchesDeepSpeed) {
  const std::string folder = kData + "/golden/" + GetParam();
  const nlohmann::json about = read_json(folder + "/case.json");
  const std::vector<nlohmann::json> expected = read_lines(folder + "/metrics.jsonl");
  const int world_size = about["world"].get<int>();
  const int64_t steps = about["steps"].get<int64_t>();
  ASSERT_EQ(static_cast<int64_t>(expected.size()), steps);
  const std::string model_folder = kData + "/" + about["model"].get<std::string>();

  std::vector<StepReport> got;
  comm::run_ranks(world_size, [&](Communicator& group) {
    const Config config = Config::from_file(folder + "/ds_config.json", {.world_size = group.size()});
    const LayerStack model = models::from_preset_or_folder(model_folder);
    World world{.communicator = std::shared_ptr<Communicator>(&group, [](Communicator*) {})};
    Engine engine = initialize(model, config, world, {.weights_folder = model_folder});
    const Loader loader(open_text_files({kData + "/corpus.txt"}), {.sequence_length = 64,
                                                                   .micro_batch = config.train_micro_batch_size_per_gpu,
                                                                   .rank = group.rank(),
                                                                   .world = group.size(),
                                                                   .shuffle = false,
                                                                   .model_vocabulary = model.vocabulary});
    for (int64_t step = 0; step < steps; ++step) {
      const StepReport report = engine.train_batch(loader);
      if (group.rank() == 0) got.push_back(report);
    }
  });

  const bool half = Config::from_file(folder + "/ds_config.json", {.world_size = world_size}).bf16.enabled;
  for (size_t i = 0; i < expected.size(); ++i) {
    const nlohmann::json& line = expected[i];
    const double loss = line["loss"].get<double>();
    const double lr = line["lr"].get<double>();
    EXPECT_EQ(got[i].step, line["step"].get<int64_t>());
    EXPECT_NEAR(got[i].loss, loss, half ? 0.02 : (i < 10 ? 2e-5 : 2e-4) * loss) << "step " << i + 1;
    EXPECT_NEAR(got[i].lr, lr, 1e-9) << "step " << i + 1;
    EXPECT_EQ(got[i].skipped, line["skipped"].get<bool>());
    if (!line["grad_norm"].is_null()) {
      EXPECT_NEAR(got[i].grad_norm, line["grad_norm"].get<double>(), (half ? 0.05 : 1e-3) * got[i].grad_norm)
          << "step " << i + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest,
                         testing::Values("z0-adamw", "z1-adamw-accum2", "z2-adam-wd", "z2-bf16", "z3-llama",
                                         "warmupdecay", "onecycle"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep
