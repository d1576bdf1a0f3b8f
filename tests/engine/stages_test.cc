// ZeRO's stages change memory and traffic, never a bit of weights, moments, losses or norms.
#include <gtest/gtest.h>

#include <torch/csrc/autograd/custom_function.h>

#include <filesystem>

#include "base/files.h"
#include "engine/parts.h"
#include "engine/stage_outcomes.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using namespace testing_models;

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
        const Outcome got =
            outcome(model, world, accumulation, zero_text(stage, bucket, overlap, reduce_at, round % 16));
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

/// Ways to run a step of two micro-batches, all of the gradient that one plain backward of each gives.
enum class Loop { plain, two_backwards, forwards_first, joint_backward, no_sync, no_sync_once };

void run_loop_step(Engine& engine, Communicator& group, Loop loop, int64_t step) {
  const Batch batch = global_batch(step);
  const int64_t half = kGlobalBatch / group.size() / 4;
  for (int64_t micro = 0; micro < 2; ++micro) {
    const int64_t begin = (micro * group.size() + group.rank()) * 2 * half;
    // Halves of a micro-batch: the mean of their losses is its loss.
    const auto forward = [&](int64_t part) {
      const int64_t at = begin + part * half;
      return engine.forward(batch.input.narrow(0, at, half), batch.target.narrow(0, at, half)) / 2;
    };
    switch (loop) {
      case Loop::plain:
        engine.backward(
            engine.forward(batch.input.narrow(0, begin, 2 * half), batch.target.narrow(0, begin, 2 * half)));
        break;
      case Loop::two_backwards:
        engine.backward(forward(0));
        engine.backward(forward(1));
        break;
      case Loop::forwards_first: {
        const at::Tensor first = forward(0);
        const at::Tensor second = forward(1);
        engine.backward(second);
        engine.backward(first);
        break;
      }
      case Loop::joint_backward: {
        const at::Tensor first = forward(0);
        engine.backward(first + forward(1));
        break;
      }
      case Loop::no_sync: {
        {
          const Engine::NoSync scope = engine.no_sync();
          engine.backward(forward(0));
        }
        engine.backward(forward(1));
        break;
      }
      case Loop::no_sync_once: {
        if (micro == 0) {
          const Engine::NoSync scope = engine.no_sync();
          engine.backward(forward(0));
          engine.backward(forward(1));
        } else {
          engine.backward(forward(0));
          engine.backward(forward(1));
        }
        break;
      }
    }
    engine.step();
  }
}

TEST(StagesTest, LeaveTheLoopItsFreedom) {
  for (const int world : {1, 2, 3}) {
    std::vector<double> plain;
    for (const Loop loop : {Loop::plain, Loop::two_backwards, Loop::forwards_first, Loop::joint_backward, Loop::no_sync,
                            Loop::no_sync_once}) {
      for (const char* reduce_at : {"boundary", "micro_batch"}) {
        std::vector<double> expected;
        for (const int stage : {0, 1, 2, 3}) {
          std::vector<double> got;
          comm::run_ranks(world, [&](Communicator& group) {
            Engine engine = make_engine(tiny({.tied = true}), group,
                                        config_text(kGlobalBatch / group.size() / 2, 2,
                                                    zero_text(stage, stage % 2 == 0 ? 7 : 64, stage != 1, reduce_at)));
            for (int64_t step = 0; step < 6; ++step) {
              run_loop_step(engine, group, loop, step);
              if (group.rank() == 0) got.insert(got.end(), {engine.report()->loss, engine.report()->grad_norm});
            }
          });
          if (stage == 0) expected = got;
          EXPECT_EQ(got, expected) << "loop " << static_cast<int>(loop) << " stage " << stage << " " << reduce_at;
        }
        if (plain.empty()) plain = expected;
        for (size_t i = 0; i < plain.size(); ++i)
          EXPECT_NEAR(expected[i], plain[i], 2e-5 * plain[i]) << "loop " << static_cast<int>(loop) << " " << i;
      }
    }
  }
}

TEST(StagesTest, DoNotDependOnWhenTransfersArrive) {
  for (const int stage : {1, 2, 3}) {
    std::vector<std::vector<double>> numbers;
    for (const int delay_us : {0, 200, 2000}) {
      std::vector<double>& of_run = numbers.emplace_back();
      comm::run_ranks(3,
                      [&](Communicator& group) {
                        Engine engine = make_engine(tiny({.tied = true}), group,
                                                    config_text(4, 3, zero_text(stage, 64, true, "micro_batch")));
                        for (int64_t step = 0; step < 4; ++step) {
                          const StepReport report = run_step(engine, group, 4, 3, step);
                          if (group.rank() == 0) of_run.insert(of_run.end(), {report.loss, report.grad_norm});
                        }
                      },
                      {.max_delay = std::chrono::microseconds(delay_us), .seed = static_cast<uint64_t>(delay_us)});
    }
    EXPECT_EQ(numbers[1], numbers[0]) << "stage " << stage;
    EXPECT_EQ(numbers[2], numbers[0]) << "stage " << stage;
  }
}

TEST(StagesTest, RefuseAStepWhoseGradientsWereNotExchanged) {
  comm::run_ranks(2, [&](Communicator& group) {
    Engine engine = make_engine(tiny(), group, config_text(18, 1, zero_text(2, 64, true, "auto")));
    const Batch batch = global_batch(0);
    {
      const Engine::NoSync scope = engine.no_sync();
      engine.backward(engine.forward(batch.input, batch.target));
    }
    EXPECT_THROW(engine.step(), ConfigError);
    engine.backward(engine.forward(batch.input, batch.target));
    engine.step();
    EXPECT_EQ(engine.applied_steps(), 1);
  });
}

/// Throws in backward, where asked.
struct Fragile : torch::autograd::Function<Fragile> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, bool fails) {
    context->saved_data["fails"] = fails;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (context->saved_data["fails"].toBool()) throw std::runtime_error("backward failed");
    return {gradients[0], at::Tensor()};
  }
};

TEST(StagesTest, SkipAStepWhereABackwardFailed) {
  for (const int stage : {0, 1, 2}) {
    comm::run_ranks(2, [&](Communicator& group) {
      Engine engine = make_engine(tiny(), group, config_text(18, 1, zero_text(stage, 7, true, "auto")));
      const Batch batch = global_batch(0);
      const double before = engine.eval_batch(batch);
      const at::Tensor loss = engine.forward(batch.input, batch.target);
      if (group.rank() == 1)
        EXPECT_THROW(engine.backward(Fragile::apply(loss, true)), std::runtime_error);
      else
        engine.backward(loss);
      engine.step();
      EXPECT_TRUE(engine.report()->skipped);
      EXPECT_EQ(engine.eval_batch(batch), before);
      EXPECT_FALSE(run_step(engine, group, 18, 1, 1).skipped);
    });
  }
}

TEST(StagesTest, AreBitIdenticalWithEveryTypeOnTheWire) {
  for (const char* type : {"bf16", "fp16"}) {
    const std::string wire = std::string(R"(, "communication_data_type": ")") + type + '"';
    for (const char* reduce_at : {"boundary", "micro_batch"}) {
      const Outcome in_fp32 = outcome({.tied = true}, 3, 3, zero_text(0, 64, true, reduce_at));
      const Outcome expected = outcome({.tied = true}, 3, 3, wire + zero_text(0, 64, true, reduce_at));
      EXPECT_NE(expected.numbers, in_fp32.numbers);
      for (size_t i = 0; i < expected.numbers.size(); ++i)
        EXPECT_NEAR(expected.numbers[i], in_fp32.numbers[i], 0.02 * in_fp32.numbers[i]);
      for (const int stage : {1, 2, 3}) {
        const Outcome got = outcome({.tied = true}, 3, 3, wire + zero_text(stage, 7, stage == 2, reduce_at));
        EXPECT_EQ(got.numbers, expected.numbers) << type << " stage " << stage << " " << reduce_at;
        for (const auto& [name, values] : expected.values)
          EXPECT_TRUE(same_bits(got.values.at(name), values)) << type << " stage " << stage << " " << name;
      }
    }
  }
}

TEST(StagesTest, SumGradientsWhereTheConfigSaysSo) {
  for (const int stage : {0, 1, 2}) {
    std::vector<double> norms;
    for (const char* op : {"mean", "sum"}) {
      comm::run_ranks(3, [&](Communicator& group) {
        const std::string text =
            std::string(R"(, "gradient_allreduce_op": ")") + op + '"' + zero_text(stage, 64, true, "boundary");
        Engine engine = make_engine(tiny(), group, config_text(12, 1, text));
        const StepReport report = run_step(engine, group, 12, 1, 0);
        const Batch batch = global_batch(1);
        engine.backward(engine.forward(batch.input, batch.target));
        const double of_tensor = engine.gradient("first.weight").norm().item<double>();
        if (group.rank() == 0) norms.insert(norms.end(), {report.grad_norm, of_tensor});
      });
    }
    EXPECT_DOUBLE_EQ(norms[2], 3 * norms[0]);
    EXPECT_NEAR(norms[3], 3 * norms[1], 0.2 * norms[3]);  // The first updates differ: clipping.
  }
}

TEST(StagesTest, SendWhatThePlanPredicts) {
  for (const int world : {2, 3, 4}) {
    for (const int64_t accumulation : {1, 3}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const char* reduce_at : {"boundary", "micro_batch"}) {
          const bool tied = accumulation == 3;
          const int64_t micro = kGlobalBatch / world / accumulation;
          const char* wire = world == 3 ? R"(, "communication_data_type": "bf16")" : "";
          const std::string text = config_text(micro, accumulation, wire + zero_text(stage, 64, true, reduce_at));
          comm::run_ranks(world, [&](Communicator& group) {
            const LayerStack model = tiny({.tied = tied});
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
