// The time line of a step, at every stage.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/training_runs.h"
#include "lockstep/trace.h"

namespace lockstep {
namespace {

using namespace testing_models;

/// Of rank 0 over one step on two ranks: how many spans of each lane and name, compute spans by name alone.
std::map<std::string, int> spans_of(int stage) {
  const std::string zero = R"(, "zero_optimization": {"stage": )" + std::to_string(stage) +
                           R"(, "reduce_bucket_size": 100000, "allgather_bucket_size": 2})";
  std::map<std::string, int> spans;
  comm::run_ranks(2, [&](Communicator& group) {
    const auto trace = std::make_shared<Trace>(group.rank());
    Engine engine = make_engine(tiny(), group, config_text(18, 1, zero), {.trace = trace});
    run_step(engine, group, 18, 1, 0);
    if (group.rank() != 0) return;
    const nlohmann::json file = nlohmann::json::parse(Trace::file(trace->events()));
    for (const auto& event : file["traceEvents"]) {
      if (event["ph"] == "X") ++spans[event["name"].get<std::string>()];
      if (event["ph"] == "b") ++spans[event["cat"].get<std::string>()];
    }
  });
  return spans;
}

TEST(EngineTrace, HasEveryPhaseLayerAndReduction) {
  for (const int stage : {0, 1, 2}) {
    std::map<std::string, int> spans = spans_of(stage);
    for (const char* name : {"forward", "layer 0", "head", "backward", "reduce", "step"})
      EXPECT_EQ(spans[name], 1) << name << " at stage " << stage;
    EXPECT_EQ(spans["reduce gradients"], 1);
    EXPECT_EQ(spans["gather weights"], 0);
  }
}

TEST(EngineTrace, HasEveryGatherAndItsWaitAtStage3) {
  std::map<std::string, int> spans = spans_of(3);
  EXPECT_EQ(spans["reduce gradients"], 1);
  EXPECT_EQ(spans["gather weights"], 3);  // The layer and the head forward, the layer again for backward.
  EXPECT_EQ(spans["wait for layer 0"], 2);
  EXPECT_EQ(spans["wait for head"], 1);
}

}  // namespace
}  // namespace lockstep
