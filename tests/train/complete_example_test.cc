// A config with every section, as people copy it: fp16 with dynamic scaling, ZeRO 2, clipping, warm-up, fp16 transfers.
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

TEST(CompleteExample, TrainsInFp16) {
  std::ifstream file(kData + "/../../examples/configs/all-sections.json");
  nlohmann::json text = nlohmann::json::parse(file);
  ASSERT_TRUE(text["fp16"]["enabled"].get<bool>());
  text["zero_optimization"].erase("offload_optimizer");  // These two are not built yet.
  text.erase("activation_checkpointing");
  constexpr int64_t kSteps = 50;
  std::vector<StepReport> reports;
  double first = 0;
  double last = 0;
  comm::run_ranks(2, [&](Communicator& group) {
    const Config config = Config::from_text(text.dump(), "all-sections.json", {.world_size = group.size()});
    const LayerStack model = models::from_preset_or_folder(kData + "/gpt2-tiny");
    World world{.communicator = std::shared_ptr<Communicator>(&group, [](Communicator*) {})};
    Engine engine = initialize(model, config, world, {.weights_folder = kData + "/gpt2-tiny"});
    const Loader loader(open_text_files({kData + "/corpus.txt"}), {.sequence_length = 16,
                                                                   .micro_batch = config.train_micro_batch_size_per_gpu,
                                                                   .rank = group.rank(),
                                                                   .world = group.size(),
                                                                   .model_vocabulary = model.vocabulary});
    for (int64_t step = 0; step < kSteps; ++step) {
      const StepReport report = engine.train_batch(loader);
      if (group.rank() == 0) reports.push_back(report);
    }
    EXPECT_EQ(engine.applied_steps() + engine.skipped_steps(), kSteps);
  });
  for (size_t i = 0; i < 5; ++i) first += reports[i].loss / 5;
  for (size_t i = kSteps - 5; i < kSteps; ++i) last += reports[i].loss / 5;
  EXPECT_LT(last, 0.85 * first);
  // Of the scales: 2^16 at first; an overflow costs the tolerance, then halves; no growth within 1,000 steps.
  double scale = 65536;
  int64_t tolerance = 2;
  for (const StepReport& report : reports) {
    EXPECT_EQ(report.loss_scale, scale) << "step " << report.step;
    if (!report.skipped) continue;
    if (tolerance == 1)
      scale /= 2;
    else
      --tolerance;
  }
}

}  // namespace
}  // namespace lockstep
