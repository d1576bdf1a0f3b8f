#include "lockstep/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "engine/training_runs.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using namespace testing_models;

std::vector<StepReport> run(const TinyOptions& model, int world, int64_t accumulation, int64_t steps,
                            const std::string& more = "") {
  std::vector<StepReport> reports;
  comm::run_ranks(world, [&](Communicator& group) {
    const int64_t micro = kGlobalBatch / world / accumulation;
    Engine engine = make_engine(tiny(model), group, config_text(micro, accumulation, more));
    for (int64_t step = 0; step < steps; ++step) {
      const StepReport report = run_step(engine, group, micro, accumulation, step);
      if (group.rank() == 0) reports.push_back(report);
    }
  });
  return reports;
}

class StageZeroTest : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(StageZeroTest, TrainsAsOneProcessDoes) {
  const auto [world, accumulation, variant] = GetParam();
  const TinyOptions model{.frozen_middle = variant == 1, .tied = variant == 2, .unused_shift = variant == 3};
  const auto expected = run(model, 1, 1, 16);
  const auto got = run(model, world, accumulation, 16);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].loss, expected[i].loss, 1e-6 * std::abs(expected[i].loss)) << "step " << i;
    EXPECT_NEAR(got[i].grad_norm, expected[i].grad_norm, 1e-5 * expected[i].grad_norm) << "step " << i;
  }
  EXPECT_LT(got.back().loss, got.front().loss);
}

INSTANTIATE_TEST_SUITE_P(Cross, StageZeroTest,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 3),
                                          testing::Values(0, 1, 2, 3)));

TEST(EngineTest, BucketsAndOverlapDoNotChangeABit) {
  const std::string base = R"(, "zero_optimization": {"stage": 0, "reduce_bucket_size": )";
  const auto expected = run({}, 3, 2, 10);
  for (const std::string& more : {base + R"(1, "overlap_comm": true})", base + R"(64, "overlap_comm": false})",
                                  base + R"(1000000, "overlap_comm": false})"}) {
    const auto got = run({}, 3, 2, 10, more);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].loss, expected[i].loss);
      EXPECT_EQ(got[i].grad_norm, expected[i].grad_norm);
    }
  }
}

TEST(EngineTest, TwoRunsWithOneSeedAreTheSame) {
  const TinyOptions model{.dropout = 0.5};
  const auto a = run(model, 1, 3, 10);
  const auto b = run(model, 1, 3, 10);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].loss, b[i].loss);
  EXPECT_NE(a[0].loss, a[1].loss);
}

TEST(EngineTest, TwoEnginesLiveInOneProcess) {
  comm::run_ranks(1, [](Communicator& group) {
    Engine alone = make_engine(tiny(), group, config_text(12, 1));
    std::vector<double> expected;
    for (int64_t step = 0; step < 5; ++step) expected.push_back(run_step(alone, group, 12, 1, step).loss);
    Engine a = make_engine(tiny(), group, config_text(12, 1));
    Engine b = make_engine(tiny(), group, config_text(12, 1));
    for (int64_t step = 0; step < 5; ++step) {
      EXPECT_EQ(run_step(a, group, 12, 1, step).loss, expected[static_cast<size_t>(step)]);
      EXPECT_EQ(run_step(b, group, 12, 1, step).loss, expected[static_cast<size_t>(step)]);
    }
  });
}

TEST(EngineTest, ANonFiniteStepIsSkippedOnAllRanksAndNamed) {
  std::mutex mutex;
  std::string said;
  comm::run_ranks(2, [&](Communicator& group) {
    EngineOptions options;
    if (group.rank() == 0) {
      options.log = Log(
          [&](LogLevel, std::string_view text) {
            const std::lock_guard lock(mutex);
            said += std::string(text) + "\n";
          },
          LogLevel::warning);
    }
    Engine engine = make_engine(tiny(), group, config_text(6, 1), options);
    const double lr = engine.lr();
    run_step(engine, group, 6, 1, 0);
    const Batch batch = global_batch(1);
    at::Tensor input = batch.input.narrow(0, group.rank() * 6, 6).clone();
    const at::Tensor target = batch.target.narrow(0, group.rank() * 6, 6);
    const double before = engine.eval_batch({.input = batch.input, .target = batch.target});
    if (group.rank() == 1) input[0][0] = std::nan("");
    engine.backward(engine.forward(input, target));
    engine.step();
    EXPECT_TRUE(engine.report()->skipped);
    EXPECT_EQ(engine.skipped_steps(), 1);
    EXPECT_EQ(engine.global_steps(), 2);
    EXPECT_EQ(engine.applied_steps(), 1);
    EXPECT_EQ(engine.lr(), lr);
    EXPECT_EQ(engine.eval_batch({.input = batch.input, .target = batch.target}), before);
  });
  EXPECT_THAT(said, testing::AllOf(testing::HasSubstr("step 2"), testing::HasSubstr("rank 1")));
}

TEST(EngineTest, EndlessSkipsEndTheRun) {
  comm::run_ranks(1, [](Communicator& group) {
    Engine engine = make_engine(tiny(), group, config_text(12, 1, R"(, "lockstep": {"max_skipped_steps": 3})"));
    const Batch batch = global_batch(0);
    const auto bad_step = [&] {
      engine.backward(engine.forward(batch.input * std::nan(""), batch.target));
      engine.step();
    };
    bad_step();
    bad_step();
    EXPECT_THROW(bad_step(), DivergedError);
  });
}

TEST(EngineTest, CallsOutOfOrderAreRefused) {
  comm::run_ranks(1, [](Communicator& group) {
    Engine engine = make_engine(tiny(), group, config_text(6, 2));
    EXPECT_THROW(engine.step(), ConfigError);
    const Batch batch = global_batch(0);
    const at::Tensor loss = engine.forward(batch.input.narrow(0, 0, 6), batch.target.narrow(0, 0, 6));
    engine.backward(loss);
    EXPECT_FALSE(engine.is_gradient_accumulation_boundary());
    engine.step();
    EXPECT_TRUE(engine.is_gradient_accumulation_boundary());
    EXPECT_EQ(engine.global_steps(), 0);
    EXPECT_EQ(engine.micro_steps(), 1);
    EXPECT_THROW(engine.save_checkpoint(testing::TempDir() + "mid"), CheckpointError);
  });
}

TEST(EngineTest, ResumeIsTheSameRun) {
  const std::string folder = testing::TempDir() + "lockstep_engine_resume";
  for (const int world : {1, 2, 3}) {
    std::filesystem::remove_all(folder);
    // Ranks that are threads share LibTorch's generator, so only one may draw.
    const TinyOptions model{.dropout = world == 1 ? 0.5 : 0.0, .frozen_middle = true};
    const std::string schedule =
        R"(, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 8, "warmup_max_lr": 0.05}})";
    const int64_t micro = kGlobalBatch / world;
    const auto expected = run(model, world, 1, 20, schedule);
    comm::run_ranks(world, [&](Communicator& group) {
      {
        Engine engine = make_engine(tiny(model), group, config_text(micro, 1, schedule));
        for (int64_t step = 0; step < 7; ++step) run_step(engine, group, micro, 1, step);
        engine.save_checkpoint(folder);
      }
      Engine engine = make_engine(tiny(model), group, config_text(micro, 1, schedule), {.seed = 0});
      engine.load_checkpoint(folder);
      EXPECT_EQ(engine.global_steps(), 7);
      for (int64_t step = 7; step < 20; ++step) {
        const StepReport report = run_step(engine, group, micro, 1, step);
        const StepReport& same = expected[static_cast<size_t>(step)];
        EXPECT_EQ(report.loss, same.loss) << "world " << world << " step " << step;
        EXPECT_EQ(report.lr, same.lr);
        EXPECT_EQ(report.grad_norm, same.grad_norm);
      }
    });
  }
}

TEST(EngineTest, AForeignOrDamagedCheckpointChangesNothing) {
  const std::string folder = testing::TempDir() + "lockstep_engine_foreign";
  std::filesystem::remove_all(folder);
  comm::run_ranks(2, [&](Communicator& group) {
    Engine engine = make_engine(tiny(), group, config_text(6, 1));
    run_step(engine, group, 6, 1, 0);
    engine.save_checkpoint(folder, "good");
    const double loss = engine.eval_batch(global_batch(1));
    Engine other = make_engine(tiny({.tied = true}), group, config_text(6, 1));
    const double other_loss = other.eval_batch({global_batch(1)});
    EXPECT_THROW(other.load_checkpoint(folder), CheckpointError);
    EXPECT_EQ(other.eval_batch({global_batch(1)}), other_loss);

    run_step(engine, group, 6, 1, 1);
    const double later = engine.eval_batch(global_batch(1));
    if (group.rank() == 0) {
      // One byte, at the end of a file of which only one rank may hold the elements.
      std::string path;
      for (const auto& entry : std::filesystem::directory_iterator(folder + "/good"))
        if (entry.path().filename().string().starts_with("weights")) path = std::max(path, entry.path().string());
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(-1, std::ios::end);
      const char last = static_cast<char>(file.get());
      file.seekp(-1, std::ios::end);
      file.put(static_cast<char>(last ^ 1));
    }
    group.barrier("the damage");
    EXPECT_THROW(engine.load_checkpoint(folder), CheckpointError);
    EXPECT_EQ(engine.eval_batch(global_batch(1)), later);
    EXPECT_NE(later, loss);
    EXPECT_EQ(engine.global_steps(), 2);
  });
}

TEST(EngineTest, RanksThatPlanDifferentlyAreToldBeforeTraining) {
  EXPECT_THROW(comm::run_ranks(2,
                               [](Communicator& group) {
                                 (void)make_engine(tiny({.tied = group.rank() == 1}), group, config_text(6, 1));
                               }),
               ConfigError);
}

}  // namespace
}  // namespace lockstep
