// The example configs: nothing is wrong with them but what is not yet built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "config/parse.h"

namespace lockstep::config {
namespace {

using testing::HasSubstr;

TEST(Examples, HaveNoProblemButWhatIsNotYetBuilt) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_SOURCE "/examples/configs")) {
    if (entry.path().extension() != ".json") continue;
    ++count;
    try {
      (void)Config::from_file(entry.path().string(), {.world_size = 4});
    } catch (const ConfigError& error) {
      for (const std::string& problem : error.problems()) EXPECT_THAT(problem, HasSubstr(" is not yet built; "));
    }
  }
  EXPECT_GE(count, 6);
}

TEST(Examples, APlainOneIsFine) {
  const Config config = Config::from_file(LOCKSTEP_SOURCE "/examples/configs/adam-warmup.json", {.world_size = 4});
  EXPECT_EQ(config.train_micro_batch_size_per_gpu, 4);
  EXPECT_EQ(config.optimizer.params.betas[0], 0.8);
  EXPECT_EQ(config.scheduler.params.warmup_max_lr, PerGroup{0.001});
}

}  // namespace
}  // namespace lockstep::config
