#include "monitor/scalars.h"

#include <gmock/gmock.h>

namespace lockstep::monitor {
namespace {

using testing::ElementsAre;

TEST(ScalarsTest, NamesAreTheSameForEveryStep) {
  std::vector<std::string> names;
  for (const Scalar& scalar : scalars({})) names.push_back(scalar.name);
  EXPECT_THAT(names, ElementsAre("Train/Samples/train_loss", "Train/Samples/lr", "Train/Samples/grad_norm",
                                 "Train/Samples/loss_scale", "Train/Samples/tokens_per_s", "Train/Samples/peak_bytes"));
  names.emplace_back("Train/Samples/eval_loss");
  EXPECT_EQ(scalar_names(), names);
}

}  // namespace
}  // namespace lockstep::monitor
