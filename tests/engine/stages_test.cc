// ZeRO's stages change memory and traffic, never a bit of weights, moments, losses or norms.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "checkpoint/reader.h"
#include "engine/parts.h"
#include "engine/training_runs.h"

namespace lockstep {
namespace {

using namespace testing_models;

struct Outcome {
  std::vector<double> numbers{};                       ///< Loss and norm of every step.
  std::map<std::string, std::vector<float>> values{};  ///< Weights and optimizer states, by name.
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::map<std::string, std::vector<float>> read_all(const std::string& folder) {
  checkpoint::Reader reader = checkpoint::Reader::open(base::host_files(), folder);
  std::vector<std::string> states = reader.optimizer_states();
  states.emplace_back();
  std::map<std::string, std::vector<float>> all;
  for (const auto& [name, shape] : reader.parameters()) {
    int64_t numel = 1;
    for (const int64_t dim : shape) numel *= dim;
    for (const std::string& state : states) {
      if (!reader.has(name, state)) continue;
      std::vector<float>& into = all[name + " " + state];
      into.resize(static_cast<size_t>(numel));
      reader.read(name, state, 0, into);
    }
  }
  return all;
}

/// Twelve steps, the last six of them after a resume.
Outcome outcome(const TinyOptions& model, int world, int64_t accumulation, const std::string& more) {
  const std::string folder = testing::TempDir() + "lockstep_stages";
  std::filesystem::remove_all(folder);
  Outcome result;
  comm::run_ranks(world, [&](Communicator& group) {
    const int64_t micro = kGlobalBatch / world / accumulation;
    const auto train = [&](Engine& engine, int64_t from, int64_t to) {
      for (int64_t step = from; step < to; ++step) {
        const StepReport report = run_step(engine, group, micro, accumulation, step);
        if (group.rank() == 0) result.numbers.insert(result.numbers.end(), {report.loss, report.grad_norm});
      }
      engine.save_checkpoint(folder);
    };
    Engine first = make_engine(tiny(model), group, config_text(micro, accumulation, more));
    train(first, 0, 6);
    Engine second = make_engine(tiny(model), group, config_text(micro, accumulation, more));
    second.load_checkpoint(folder);
    train(second, 6, 12);
  });
  result.values = read_all(folder);
  return result;
}

std::string zero_text(int stage, int64_t bucket, bool overlap, const char* reduce_at) {
  return R"(, "zero_optimization": {"stage": )" + std::to_string(stage) + R"(, "reduce_bucket_size": )" +
         std::to_string(bucket) + R"(, "allgather_bucket_size": )" + std::to_string(2 * bucket) +
         R"(, "overlap_comm": )" + (overlap ? "true" : "false") + R"(}, "lockstep": {"reduce_at": ")" + reduce_at +
         "\"}";
}

class StagesTest : public testing::TestWithParam<std::tuple<int /*world*/, int /*accumulation*/, int /*model*/>> {};

TEST_P(StagesTest, AreBitIdentical) {
  const auto [world, accumulation, variant] = GetParam();
  const TinyOptions model{.frozen_middle = variant == 1, .tied = variant == 2, .unused_shift = variant == 3};
  for (const char* reduce_at : {"boundary", "micro_batch"}) {
    const Outcome expected = outcome(model, world, accumulation, zero_text(0, 1000000, false, reduce_at));
    // Sampled so that every stage meets every bucket size and both overlaps, over all models and ranks.
    int round = world + accumulation + variant;
    for (const int stage : {0, 1, 2, 3}) {
      for (const int64_t bucket :
           {round % 2 == 0 ? int64_t{1} : int64_t{7}, (round + stage) % 2 == 0 ? int64_t{64} : int64_t{1000000}}) {
        const bool overlap = (++round / 2 + stage) % 2 == 0;
        const Outcome got = outcome(model, world, accumulation, zero_text(stage, bucket, overlap, reduce_at));
        const std::string about =
            "stage " + std::to_string(stage) + " bucket " + std::to_string(bucket) + " " + reduce_at;
        EXPECT_EQ(got.numbers, expected.numbers) << about;
        ASSERT_EQ(got.values.size(), expected.values.size()) << about;
        for (const auto& [name, values] : expected.values)
          EXPECT_TRUE(same_bits(got.values.at(name), values)) << about << " " << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cross, StagesTest,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 3),
                                          testing::Values(0, 1, 2, 3)));

TEST(StagesTest, AutomaticReductionFollowsTheStage) {
  // Stages 0-1 reduce once a step, 2-3 at every micro-batch: the same mean within rounding.
  const Outcome once = outcome({}, 3, 3, R"(, "zero_optimization": {"stage": 1})");
  const Outcome each = outcome({}, 3, 3, R"(, "zero_optimization": {"stage": 2})");
  EXPECT_EQ(once.numbers, outcome({}, 3, 3, zero_text(0, 64, true, "boundary")).numbers);
  EXPECT_EQ(each.numbers, outcome({}, 3, 3, zero_text(0, 64, true, "micro_batch")).numbers);
  for (size_t i = 0; i < once.numbers.size(); ++i)
    EXPECT_NEAR(once.numbers[i], each.numbers[i], 1e-5 * once.numbers[i]);
}

TEST(StagesTest, SendWhatThePlanPredicts) {
  for (const int world : {2, 3, 4}) {
    for (const int64_t accumulation : {1, 3}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const char* reduce_at : {"boundary", "micro_batch"}) {
          const int64_t micro = kGlobalBatch / world / accumulation;
          const std::string text = config_text(micro, accumulation, zero_text(stage, 64, true, reduce_at));
          comm::run_ranks(world, [&](Communicator& group) {
            const LayerStack model = tiny();
            Engine engine = make_engine(model, group, text);
            const plan::Plan plan =
                engine::plan_for(model, Config::from_text(text, "test.json", {.world_size = world}), world);
            run_step(engine, group, micro, accumulation, 0);
            const int64_t before = group.traffic().sent_bytes;
            run_step(engine, group, micro, accumulation, 1);
            const int64_t sent = group.traffic().sent_bytes - before;
            // The rest is the step's one control message: the same for any model.
            const int64_t control = sent - plan.sent_bytes_per_step;
            EXPECT_GT(control, 0) << "stage " << stage;
            EXPECT_LT(control, 2048 * (world - 1)) << "stage " << stage << " world " << world << " " << reduce_at;
            EXPECT_EQ(control % (world - 1), 0);
          });
        }
      }
    }
  }
}

TEST(StagesTest, EvaluateAndExportAlike) {
  const std::string folder = testing::TempDir() + "lockstep_stages_export";
  std::vector<double> losses;
  std::vector<std::string> files;
  for (const int stage : {0, 1, 2, 3}) {
    comm::run_ranks(3, [&](Communicator& group) {
      Engine engine = make_engine(tiny({.tied = true}), group, config_text(12, 1, zero_text(stage, 64, true, "auto")));
      run_step(engine, group, 12, 1, 0);
      const Batch batch = global_batch(1);
      const double before = engine.eval_batch(batch);
      // A forward whose loss is dropped, or kept over an update, holds nothing back.
      const at::Tensor kept = engine.forward(batch.input, batch.target);
      run_step(engine, group, 12, 1, 1);
      const double after = engine.eval_batch(batch);
      engine.export_weights(folder);
      if (group.rank() != 0) return;
      losses.insert(losses.end(), {before, after});
      files.push_back(base::host_files().read_text(folder + "/model.safetensors"));
    });
  }
  for (size_t i = 2; i < losses.size(); ++i) EXPECT_EQ(losses[i], losses[i % 2]);
  for (const std::string& file : files) EXPECT_EQ(file, files.front());
  EXPECT_NE(losses[0], losses[1]);
}

TEST(StagesTest, AFailedLayerLeavesTheEngineUsable) {
  comm::run_ranks(2, [&](Communicator& group) {
    Engine engine = make_engine(tiny(), group, config_text(18, 1, zero_text(3, 64, true, "auto")));
    const Batch batch = global_batch(0);
    const double before = engine.eval_batch(batch);
    EXPECT_ANY_THROW((void)engine.forward(at::ones({2, 5}), batch.target));
    EXPECT_EQ(engine.eval_batch(batch), before);
    const StepReport report = run_step(engine, group, 18, 1, 0);
    EXPECT_GT(report.grad_norm, 0);
  });
}

TEST(StagesTest, AReplacedCheckpointReachesUnitsThatAForwardHolds) {
  const std::string folder = testing::TempDir() + "lockstep_stages_held";
  std::filesystem::remove_all(folder);
  comm::run_ranks(2, [&](Communicator& group) {
    Engine engine = make_engine(tiny(), group, config_text(18, 1, zero_text(3, 64, true, "auto")));
    const Batch batch = global_batch(5);
    const double first = engine.eval_batch(batch);
    engine.save_checkpoint(folder);
    run_step(engine, group, 18, 1, 0);
    const at::Tensor held = engine.forward(batch.input, batch.target);
    EXPECT_NE(engine.eval_batch(batch), first);
    engine.load_checkpoint(folder);
    EXPECT_EQ(engine.eval_batch(batch), first);
  });
}

}  // namespace
}  // namespace lockstep
