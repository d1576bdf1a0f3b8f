#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "comm/local/local_group.h"
#include "engine/tiny_models.h"
#include "lockstep/config.h"
#include "lockstep/data.h"
#include "lockstep/engine.h"
#include "lockstep/launch.h"

namespace lockstep::testing_models {

inline constexpr int64_t kGlobalBatch = 36;  // Divides by every world times every accumulation.

/// The samples of one step, the same for every world: [kGlobalBatch, 4], labels that the values tell.
inline Batch global_batch(int64_t step) {
  const at::Tensor values = at::sin(at::arange(kGlobalBatch * 4, at::kFloat) * 0.7 + static_cast<double>(step));
  const at::Tensor input = values.view({kGlobalBatch, 4});
  return {.input = input, .target = input.narrow(1, 0, 3).argmax(1)};
}

inline std::string config_text(int64_t micro, int64_t accumulation, const std::string& more = "") {
  return R"({"train_micro_batch_size_per_gpu": )" + std::to_string(micro) + R"(, "gradient_accumulation_steps": )" +
         std::to_string(accumulation) +
         R"(, "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "weight_decay": 0.1}})" + more + "}";
}

inline Engine make_engine(const LayerStack& model, Communicator& group, const std::string& text,
                          EngineOptions options = {}) {
  const Config config = Config::from_text(text, "test.json", {.world_size = group.size()});
  // The group belongs to the caller and outlives the engine.
  World world{.communicator = std::shared_ptr<Communicator>(&group, [](Communicator*) {})};
  world.rank = group.rank();
  world.size = group.size();
  return initialize(model, config, world, options);
}

inline StepReport run_step(Engine& engine, Communicator& group, int64_t micro, int64_t accumulation, int64_t step) {
  const Batch batch = global_batch(step);
  for (int64_t m = 0; m < accumulation; ++m) {
    const int64_t begin = (m * group.size() + group.rank()) * micro;
    engine.backward(engine.forward(batch.input.narrow(0, begin, micro), batch.target.narrow(0, begin, micro)));
    engine.step();
  }
  return *engine.report();
}

}  // namespace lockstep::testing_models
